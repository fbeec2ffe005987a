"""keel inspect and keel convert: output for valid files, exit code and message for damaged ones."""

import json
import os
import signal
import struct
import subprocess

import support
from support import keel, train


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def word(name, value):
    return text(name) + struct.pack("<I", 8) + text(value)


def words(name, values):
    return text(name) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def whole(name, value):
    return text(name) + struct.pack("<II", 4, value)


def tiny_gguf():
    """A GGUF Llama with one layer and width 2; all weights are 0.5."""
    keys = [word("general.architecture", "llama"), whole("llama.block_count", 1), whole("llama.context_length", 8),
            whole("llama.embedding_length", 2), whole("llama.feed_forward_length", 2),
            whole("llama.attention.head_count", 1),
            text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5),
            word("tokenizer.ggml.model", "gpt2"), word("tokenizer.ggml.pre", "gpt-2"),
            words("tokenizer.ggml.tokens", ["a", "b", "ab", "\x1b[31m"]), words("tokenizer.ggml.merges", ["a b"]),
            whole("tokenizer.ggml.eos_token_id", 3), word("tokenizer.chat_template", "\x1b[31m{{ x }}")]
    shapes = {"token_embd.weight": (2, 4), "output_norm.weight": (2,), "blk.0.attn_norm.weight": (2,),
              "blk.0.ffn_norm.weight": (2,)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        shapes[f"blk.0.{name}.weight"] = (2, 2)
    infos, data = b"", b""
    for name, shape in shapes.items():
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data += struct.pack(f"<{count}f", *[0.5] * count).ljust(32, b"\0")
    front = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + b"".join(keys) + infos
    return front + b"\0" * (-len(front) % 32) + data


class Inspect(support.Test):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "tiny.gguf"
        self.file.write_bytes(tiny_gguf())

    def test_a_gguf_file_is_described_with_escaped_control_characters(self):
        result = keel("inspect", str(self.file))
        self.assert_exit(result, 0, "LlamaForCausalLM", "llama.embedding_length", "blk.0.ffn_down.weight", "11 tensors, 42 elements")
        self.assertNotIn("\x1b[31m", result.stdout)

    def test_json_has_the_same_in_one_object(self):
        found = json.loads(keel("inspect", str(self.file), "--json").stdout)
        self.assertEqual(found["parameters"], 42)
        self.assertEqual(found["model"], "LlamaForCausalLM")
        self.assertEqual(found["metadata"]["llama.block_count"], 1)
        self.assertEqual(found["tensors"][0], {"name": "token_embd.weight", "dtype": "F32", "shape": [4, 2], "bytes": 32})

    def test_bad_files_end_with_3_and_name_the_fault(self):
        good = self.file.read_bytes()
        for name, content, part in (("cut.gguf", good[:-20], "of which the file holds only"),
                                    ("magic.gguf", b"GGML" + good[4:], "GGML"), ("empty.safetensors", b"", "0 bytes"),
                                    ("notes.txt", b"hello", "expected a .gguf or .safetensors file or a folder"),
                                    ("long.gguf", good + b"x" * 100, "bytes follow the last tensor")):
            path = self.folder / name
            path.write_bytes(content)
            for command in (("inspect", str(path)), ("convert", str(path), str(self.folder / "out"))):
                result = keel(*command)
                self.assert_exit(result, 3, name)
                if command[0] == "inspect":
                    self.assertIn(part, result.stderr)
            self.assertFalse((self.folder / "out").exists())
        self.assert_exit(keel("inspect", str(self.folder / "nowhere")), 3)
        self.assert_exit(keel("inspect", str(self.folder)), 3)

    def test_a_closed_output_pipe_ends_the_command(self):
        for command in (("inspect", self.file), ("inspect", self.file, "--json"), ("methods",), ("tasks",)):
            read, write = os.pipe()
            with subprocess.Popen([support.KEEL, *map(str, command)], stdout=write, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, env=support.environment()) as process:
                os.close(write)
                os.close(read)
                self.assertEqual(process.stderr.read(), b"", command)
            self.assertEqual(process.returncode, -signal.SIGPIPE, command)

    def test_a_run_with_closed_output_finishes(self):
        config = self.folder / "run.yaml"
        config.write_text(json.dumps({"run": {"dir": str(self.folder / "run")}, "sft": {"steps": 2}, "train": {"steps": 1},
                                      "eval": {"prompts": 8}, "model": {"hidden_size": 16, "heads": 2}}))
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([support.KEEL, "train", config], stdout=write, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, env=support.environment(), check=False)
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue((self.folder / "run" / "checkpoints" / "LATEST").exists())

    def test_a_model_name_is_found_in_the_cache(self):
        snapshot = self.folder / "cache" / "models--some--model" / "snapshots" / "abc"
        self.assert_exit(keel("convert", self.file, snapshot), 0)
        (snapshot.parents[1] / "refs").mkdir()
        (snapshot.parents[1] / "refs" / "main").write_text("abc")
        cached = support.environment(HF_HUB_CACHE=str(self.folder / "cache"))
        found = keel("inspect", "some/model", "--json", env=cached)
        self.assert_exit(found, 0)
        self.assertEqual(json.loads(found.stdout), json.loads(keel("inspect", snapshot, "--json").stdout))
        missing = keel("inspect", "some/other", env=cached)
        self.assert_exit(missing, 3, "hf download some/other")
        for name in ("~/model", "hf://model"):
            missing = keel("inspect", name, env=cached)
            self.assert_exit(missing, 3)
            self.assertNotIn("hf download", missing.stderr)
        missing = keel("inspect", "other.gguf", env=cached)
        self.assert_exit(missing, 3)
        self.assertNotIn("hf download", missing.stderr)

    def test_a_converted_gguf_file_is_equivalent(self):
        def says(path):
            result = keel("generate", "--model", path, "--prompt", "a", "--temperature", "0", "--max-new-tokens", "3")
            self.assert_exit(result, 0)
            return result.stdout

        for dtype, written in (("float32", "F32"), ("bfloat16", "BF16"), ("q8_0", "F16")):  # rows of 2 cannot be divided into blocks of 32
            out = self.folder / f"{dtype}.gguf"
            converted = keel("convert", self.file, out, "--dtype", dtype)
            self.assert_exit(converted, 0, f"parameters in {written}\n")
            self.assertEqual("not divisible into Q8_0 blocks of 32" in converted.stderr, dtype == "q8_0", converted.stderr)
            found = json.loads(keel("inspect", out, "--json").stdout)
            for tensor in found["tensors"]:
                self.assertEqual(tensor["dtype"], written if len(tensor["shape"]) > 1 else "F32", tensor["name"])
            self.assertEqual(says(out), says(self.file))
            self.assert_refused(keel("convert", self.file, out), 2, str(out), "exists")
        (self.folder / "link.gguf").symlink_to("nothing")
        self.assert_refused(keel("convert", self.file, self.folder / "link.gguf"), 2, "link.gguf", "exists")
        self.assertTrue((self.folder / "link.gguf").is_symlink())

    def test_convert_writes_a_folder_once(self):
        out = self.folder / "made" / "model"
        result = keel("convert", str(self.file), str(out), "--dtype", "float16")
        self.assert_exit(result, 0)
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                          "tokenizer_config.json"])
        found = json.loads(keel("inspect", str(out), "--json").stdout)
        self.assertEqual((found["dtype"], found["dtypes"], found["parameters"]), ("float16", {"F16": 11}, 42))
        again = keel("convert", str(self.file), str(out))
        self.assert_exit(again, 2, "not empty")
        self.assert_exit(keel("convert", str(self.file), str(out), "--dtype", "int8"), 2)
        self.assertEqual([path.name for path in (self.folder / "made").iterdir()], ["model"])

    def test_convert_refuses_an_unknown_ending_before_it_reads_the_model(self):
        for name in ("model.safetensors", "model.bin", "model.GGUF", "model.gguf.part"):
            for model in (self.file, self.folder / "missing"):
                self.assert_refused(keel("convert", model, self.folder / name), 2, name, "expected NAME.gguf or a folder", f"{name}/")
        self.assertEqual(list(self.folder.glob("model*")), [])
        (self.folder / "empty.d").mkdir()
        for name in ("Tiny-1.7B", "model.bin/", "empty.d"):
            self.assert_exit(keel("convert", self.file, f"{self.folder}/{name}"), 0)
            self.assertTrue((self.folder / name / "config.json").exists())

    def test_convert_refuses_a_folder_that_cannot_be_replaced(self):
        here, mount, link = (self.folder / name for name in ("here", "mount", "link"))
        here.mkdir(), mount.mkdir(), link.symlink_to("nothing")
        self.assert_refused(keel("convert", self.file, ".", cwd=here), 2, "the working directory", "name a new folder in it")
        self.assert_refused(keel("convert", self.file, link), 2, "dangling link")
        mounted = subprocess.run(["unshare", "-rm", "sh", "-c", 'mount -t tmpfs tmpfs "$1" || exit 99; exec "$2" convert "$3" "$1"', "sh", mount, support.KEEL, self.file],
                                 capture_output=True, text=True, env=support.environment())
        if "99" not in str(mounted.returncode) and "unshare" not in mounted.stderr:  # if this machine permits mounting
            self.assert_refused(mounted, 2, "a mount point", "name a new folder in it")
        self.assertEqual([path.name for path in self.folder.glob("*.partial")] + list(here.iterdir()), [])
        self.assert_exit(keel("convert", self.file, "model", cwd=here), 0)

    def test_a_folder_is_described_by_what_a_model_would_be_loaded_from(self):
        folder = self.folder / "model"
        self.assert_exit(keel("convert", self.file, folder), 0)
        weights, kept = folder / "model.safetensors", folder / "consolidated.safetensors"
        kept.write_bytes(weights.read_bytes())  # a file that no loader reads
        self.assertEqual(len(json.loads(keel("inspect", folder, "--json").stdout)["tensors"]), 11)
        weights.unlink()
        for make, remove, part in ((weights.mkdir, weights.rmdir, "Is a directory"), (lambda: os.mkfifo(weights), weights.unlink, "a pipe")):
            make()
            self.assert_refused(keel("inspect", folder), 3, f'cannot read "{weights}"', part)
            remove()
        weights.symlink_to(weights)
        result = keel("inspect", folder)
        self.assert_exit(result, 0, f'cannot be used as a model: cannot read "{weights}": Too many levels of symbolic links')
        weights.unlink()
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"a": "consolidated.safetensors", "b": "b.safetensors"}}))
        result = keel("inspect", folder)
        self.assert_exit(result, 0)
        self.assertIn(f"cannot be used as a model: {index}: shard b.safetensors does not exist; was the download interrupted?",
                      result.stdout)

    def test_a_run_its_checkpoint_and_its_adapter_are_described_with_all_their_parts(self):
        run = self.folder / "run"
        self.assert_exit(train(run, lora={"rank": 3, "alpha": 6, "target_modules": '["q_proj"]'},
                               objective={"method": "ppo_gae", "entropy_coefficient": 0}, critic={"body": "separate"}), 0)
        checkpoint = sorted((run / "checkpoints").glob("step-*"))[-1]
        found = json.loads(keel("inspect", checkpoint, "--json").stdout)
        self.assertEqual(list(found["parts"]), ["adapter", "critic"])
        adapter, critic = found["parts"].values()
        self.assertEqual((adapter["kind"], adapter["r"], adapter["lora_alpha"], adapter["target_modules"]),
                         ("adapter", 3, 6.0, ["q_proj"]))
        self.assertEqual(len(adapter["tensors"]), 2 * found["num_hidden_layers"])
        self.assertEqual(critic["architectures"], ["LlamaForTokenClassification"])
        self.assertIn("score.weight", [tensor["name"] for tensor in critic["tensors"]])
        self.assertEqual(json.loads(keel("inspect", checkpoint / "adapter", "--json").stdout), adapter)
        whole = json.loads(keel("inspect", run, "--json").stdout)
        self.assertEqual((whole["kind"], whole["checkpoints"][-1]), ("run", checkpoint.name))
        self.assertEqual(whole["parts"], {f"checkpoints/{checkpoint.name}": found})
        text = keel("inspect", run).stdout
        self.assertNotIn("all: 0 tensors", text)  # the run folder itself has no weights
        for part in ("adapter_config.json", "lora_alpha", "q_proj.lora_A.weight", "LlamaForTokenClassification", "checksums"):
            self.assertIn(part, text)

    def test_a_damaged_checkpoint_exits_with_1(self):
        run = self.folder / "run"
        self.assert_exit(train(run), 0)
        checkpoint = sorted((run / "checkpoints").glob("step-*"))[-1]
        result = keel("inspect", str(checkpoint))
        self.assert_exit(result, 0, "checksums")
        config = checkpoint / "config.json"
        config.write_text(config.read_text().replace("silu", "gelu"))
        result = keel("inspect", str(checkpoint))
        self.assert_exit(result, 1, "config.json")


if __name__ == "__main__":
    support.main()
