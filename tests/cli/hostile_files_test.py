"""Hostile files: deeply nested JSON, pipes and devices in place of files, absurd sizes, very long names. Each must be reported as bad
input, quickly and with little memory."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import support
from support import keel, train

DEEP = 100_000
NESTED = {"lists": "[" * DEEP + "]" * DEEP, "objects": '{"a":' * DEEP + "1" + "}" * DEEP, "open": "[" * DEEP}
MODEL_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def measured(*arguments, timeout=support.HANG):
    """Runs the program; returns its exit code, stderr and peak memory in MiB."""
    result = support.call(arguments, timeout=timeout)
    return result.returncode, result.stderr, result.memory


class HostileFiles(support.Test):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keel_cli_"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        result = train(cls.shared / "run", sft={"steps": 0}, train={"steps": 1}, eval={"prompts": 0}, lora={"rank": 2},
                       checkpoint={"every": 1})
        assert result.returncode == 0, result.stderr
        cls.memory = measured("inspect", cls.shared / "run")[2]  # memory of the libraries alone

    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"
        shutil.copytree(self.shared / "run", self.run_folder)
        checkpoint = self.run_folder / "checkpoints" / support.checkpoints(self.run_folder)[-1]
        self.base = self.folder / "base"
        shutil.copytree(checkpoint, self.base)
        self.adapter = self.folder / "adapter"
        shutil.move(self.base / "adapter", self.adapter)
        for name in ("manifest.json", "optimizer.safetensors", "state.json"):
            (self.base / name).unlink()
        config = json.loads((self.base / "config.json").read_text())
        del config["merged_adapters"]  # it looks like a base model that the adapter was not merged into
        (self.base / "config.json").write_text(json.dumps(config))
        self.data = self.folder / "data.jsonl"
        self.data.write_text('{"prompt": "<bos> 1 + 1 =", "answer": "2"}\n')

    def with_model(self, command, *settings, data=None):
        """keel train or eval of the model on rows; a valid model makes it a run of one token."""
        config = self.folder / "config.json"
        rows = [str(data or self.data)]
        config.write_text(json.dumps({"model": {"path": str(self.base)}, "data": {"files": rows, "eval_files": rows},
                                      "rollout": {"max_new_tokens": 1, "samples_per_prompt": 2}, "reward": {"functions": ["exact"]},
                                      "train": {"steps": 1, "prompts_per_step": 1}, "run": {"dir": str(self.folder / "none")}}))
        start = [f"model.path={self.base}"] if command == "eval" else []
        return measured(command, config, *start, *settings)

    def generate(self, *more):
        return measured("generate", "--model", self.base, "--prompt", "1 +", "--max-new-tokens", "2", *more)

    def assert_bad_input(self, result, *parts, code=3, memory=200):
        self.assertEqual(result[0], code, result[1][-1500:])
        self.assertRegex(result[1], "(?m)^keel: ")  # after any notes
        self.assertLess(len(result[1]), 2000)
        for part in parts:
            self.assertIn(part, result[1])
        self.assertLess(result[2], self.memory + memory)

    @contextlib.contextmanager
    def changed(self, path, **values):
        """Temporarily changes values of a JSON file."""
        text = path.read_text()
        path.write_text(json.dumps({**json.loads(text), **values}))
        yield
        path.write_text(text)

    def eval_adapter(self):
        return self.with_model("eval", f"lora.adapter={self.adapter}")

    # Nested deep -------------------------------------------------------------------------------------------------------

    def test_files_of_a_model_that_are_nested_deep(self):
        for name in MODEL_FILES:
            path = self.base / name
            sound = path.read_text()
            for kind, text in NESTED.items():
                path.write_text(text)
                self.assert_bad_input(self.generate(), name, "nested deeper than 64 levels")
                self.assertIn(measured("inspect", self.base)[0], (0, 3), kind)
            path.write_text('{"a": ' + NESTED["lists"] + "}")
            self.assert_bad_input(self.generate(), name, "nested deeper than 64 levels")
            path.write_text(sound)
        self.assertEqual(self.generate()[0], 0)
        (self.base / "model.safetensors").rename(self.base / "model-00001-of-00001.safetensors")
        (self.base / "model.safetensors.index.json").write_text(NESTED["lists"])
        self.assert_bad_input(self.generate(), "model.safetensors.index.json", "nested deeper")

    def test_files_of_an_adapter_that_are_nested_deep(self):
        (self.adapter / "adapter_config.json").write_text(NESTED["objects"])
        self.assert_bad_input(self.eval_adapter(), "adapter_config.json", "nested deeper than 64 levels")
        self.assert_bad_input(measured("inspect", self.adapter), "adapter_config.json", "nested deeper")

    def test_rows_and_answers_that_are_nested_deep(self):
        rows = self.folder / "rows.jsonl"
        for text in NESTED.values():
            for row in (text, '{"completion": "1", "answer": ' + text + "}"):
                rows.write_text('{"completion": "1", "answer": "1"}\n' + row + "\n")
                self.assert_bad_input(measured("reward", rows, "reward.functions=[exact]"), "rows.jsonl:2:", "nested deeper than 512")
                rows.write_text('{"gold": "1", "answer": "1"}\n' + row + "\n")
                self.assert_bad_input(measured("verify", "--batch", rows), "rows.jsonl:2:", "nested deeper than 512")
        rows.write_text(json.dumps({"completion": "x = 1", "answer": NESTED["lists"]}) + "\n")
        self.assertIn(measured("reward", rows, "reward.functions=[code]")[0], (2, 3, 5))  # 2: this machine has no sandbox
        self.data.write_text('{"prompt": "1 + 1 =", "answer": ' + NESTED["lists"] + "}\n")
        self.assert_bad_input(self.with_model("eval"), "data.jsonl:1:", "nested deeper than 512")

    def test_files_of_a_run_that_are_nested_deep(self):
        row = '{"phase": "rl", "step": 1, "x": ' + NESTED["lists"] + "}\n"
        for name in ("metrics.jsonl", "samples.jsonl"):
            path = self.run_folder / name
            sound = path.read_text()
            path.write_text(sound + row + sound)
            self.assert_bad_input(measured("report", self.run_folder), f"{name}:{len(sound.splitlines()) + 1}:", code=3)
            path.write_text(sound)
        checkpoint = self.run_folder / "checkpoints" / support.checkpoints(self.run_folder)[-1]
        for name in ("state.json", "manifest.json"):
            (checkpoint / name).write_text(NESTED["lists"])
            self.assertEqual(measured("inspect", checkpoint)[0], 1)

    def test_configurations_and_settings_that_are_nested_deep(self):
        config = self.folder / "deep.json"
        config.write_text('{"train": ' + NESTED["lists"] + "}")
        self.assert_bad_input(measured("train", config), "deep.json:1", "nested deeper than 64", code=2)
        for setting in ("data.files=", "objective.parameters="):
            self.assertEqual(measured("train", support.QUICKSTART, setting + NESTED["lists"][:100_000])[0], 2)
        self.assertEqual(measured("train", support.QUICKSTART, 'objective.parameters=["low=' + "[" * 50_000 + '"]')[0], 2)

    # Pipes, devices and folders -----------------------------------------------------------------------------------------

    def test_pipes_and_devices_instead_of_files_are_refused_unread(self):
        @contextlib.contextmanager
        def put(path, kind):
            """Temporarily replaces a file by a pipe, a device or a folder."""
            sound = path.read_bytes() if path.exists() else None
            path.unlink(missing_ok=True)
            if kind == "pipe":
                os.mkfifo(path)
            else:
                path.symlink_to(kind)
            yield
            path.unlink()
            if sound is not None:
                path.write_bytes(sound)

        kinds = {"pipe": "a pipe", "/dev/zero": "a device", "/dev/tty0": ""}
        for kind, word in kinds.items():
            if kind == "/dev/tty0" and not os.path.exists(kind):
                continue
            for name in (*MODEL_FILES, "model.safetensors", "chat_template.jinja", "chat_template.json"):
                with put(self.base / name, kind):
                    self.assert_bad_input(self.generate(), name, word)
            for path, action in ((self.adapter / "adapter_config.json", self.eval_adapter),
                                 (self.run_folder / "samples.jsonl", lambda: measured("report", self.run_folder)),
                                 (self.run_folder / "metrics.jsonl", lambda: measured("report", self.run_folder)),
                                 (self.run_folder / "config.yaml", lambda: measured("report", self.run_folder))):
                with put(path, kind):
                    self.assert_bad_input(action(), path.name, word)
        os.mkfifo(self.folder / "rows.jsonl")
        for rows in (self.folder / "rows.jsonl", "/dev/zero"):
            self.assert_bad_input(self.with_model("eval", data=rows), str(rows), "not a regular file")
            self.assert_bad_input(measured("train", rows), str(rows), "a pipe or a device", code=2)
        self.assert_bad_input(measured("reward", "/dev/zero", "reward.functions=[exact]"), "/dev/zero", "a device")

    def test_rows_come_through_a_pipe_where_they_are_read_once(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        writer = subprocess.Popen(["sh", "-c", f"""echo '{{"completion": "1", "answer": "1"}}' > {pipe}"""])
        self.addCleanup(writer.wait)
        self.addCleanup(writer.kill)  # it waits for a reader, and a rejected file has none
        result = keel("reward", pipe, "reward.functions=[exact]")
        self.assert_exit(result, 0)
        self.assertEqual(json.loads(result.stdout)["reward"], 1)

    def test_a_line_without_an_end_takes_no_memory(self):
        endless = subprocess.run(["bash", "-c", f"head -c 1G /dev/zero | {support.KEEL} reward - 'reward.functions=[exact]'"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=support.environment(), timeout=support.HANG)
        self.assertEqual(endless.returncode, 3)
        self.assertIn(b"standard input:1: the line has more than 67108864 bytes", endless.stderr)

    # Sizes -------------------------------------------------------------------------------------------------------------

    def test_sizes_of_a_configuration_that_no_model_has(self):
        for key, value in (("head_dim", 1 << 30), ("head_dim", 1 << 20), ("num_hidden_layers", 1 << 31), ("num_hidden_layers", 1 << 16),
                           ("hidden_size", 1 << 62), ("hidden_size", 1 << 20), ("vocab_size", 1 << 40), ("vocab_size", (1 << 31) - 1),
                           ("intermediate_size", 1 << 24), ("num_attention_heads", 1 << 63), ("num_key_value_heads", (1 << 64) - 1),
                           ("max_position_embeddings", 1 << 60), ("num_attention_heads", 0), ("hidden_size", -(1 << 63)),
                           ("rope_theta", 1e308), ("rms_norm_eps", -1)):
            with self.changed(self.base / "config.json", **{key: value}):
                result = self.generate()
            plausible = value in (1 << 16, 1 << 20, 1 << 24, (1 << 31) - 1)  # then it disagrees with the files
            self.assert_bad_input(result, *(("config.json requires", "of one model") if plausible else (f"config.json: ", key, "expected")))
        wraps = {"num_attention_heads": 1 << 20, "num_key_value_heads": 1 << 20, "head_dim": 1 << 44, "hidden_size": 1 << 20}
        with self.changed(self.base / "config.json", **wraps):
            self.assert_bad_input(self.generate(), "config.json: head_dim is 17592186044416; expected 1 to")

    def test_a_network_of_absurd_size_reports_its_memory(self):
        with self.changed(self.base / "config.json", hidden_size=1 << 20, intermediate_size=1 << 24, num_attention_heads=1 << 10,
                          num_key_value_heads=1 << 10, head_dim=1 << 10):
            for command, part in (("eval", "hidden_size 1048576"), ("train", "memory: the run needs about")):
                self.assert_bad_input(self.with_model(command, "model.random_weights=true"), part, "GiB", "this machine has", code=2)

    def test_an_adapter_on_a_random_network_names_its_base(self):
        checkpoint = self.run_folder / "checkpoints" / support.checkpoints(self.run_folder)[-1]
        result = measured("generate", "--model", checkpoint, "--adapter", checkpoint / "adapter", "--prompt", "1 +")
        self.assert_bad_input(result, "which is for a randomly initialised network, but", "trained on a randomly initialised network (", code=2)

    def test_adapters_of_absurd_strength_and_rank(self):
        self.assertEqual(self.eval_adapter()[0], 0)
        for key, value in (("lora_alpha", 1e308), ("lora_alpha", -1e30), ("r", 1 << 40), ("r", (1 << 64) - 1), ("r", 0),
                           ("rank_pattern", {"q_proj": 1e300}), ("alpha_pattern", {"q_proj": 1e300}),
                           ("layers_to_transform", [(1 << 64) - 1])):
            with self.changed(self.adapter / "adapter_config.json", **{key: value}):
                self.assert_bad_input(self.eval_adapter(), "adapter_config.json", key)
        self.assertEqual(keel("train", support.QUICKSTART, "lora.rank=2", "lora.alpha=1e308").returncode, 2)

    # Names -------------------------------------------------------------------------------------------------------------

    def test_names_beyond_any_length(self):
        for name in ("n" * 300, "n" * 100_000, "/" + "p/" * 5000):
            self.assert_bad_input(measured("generate", "--model", name, "--prompt", "a"), "name too long")
            self.assert_bad_input(measured("inspect", name), "name too long")
            self.assert_bad_input(measured("report", name), "name too long")
            self.assert_bad_input(self.with_model("eval", data=name), "name too long")
            self.assert_bad_input(self.with_model("train", f"lora.adapter={name}"), "name too long")
            self.assert_bad_input(self.with_model("train", f"model.path={name}"), "name too long")
        (self.base / "model.safetensors").unlink()
        for name in ("n" * 300, "n" * 100_000):
            index = {"weight_map": {"t" * 100_000: name}}
            (self.base / "model.safetensors.index.json").write_text(json.dumps(index))
            self.assert_bad_input(self.generate(), "name too long")


if __name__ == "__main__":
    support.main()
