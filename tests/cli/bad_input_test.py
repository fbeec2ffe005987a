"""Invalid command lines and configurations: documented exit code, a helpful message, and no files left."""

import json
import os
import re
import subprocess

import support
from support import keel, train


class CommandLine(support.Test):
    def test_a_bad_command_line_ends_with_2_and_points_to_help(self):
        for arguments, part in (((), "subcommand is required"), (("trian",), "trian is not a command; did you mean train?"), (("train", "x.yaml", "--fast"), "--fast"),
                                (("train",), "CONFIG is required"), (("report",), "RUN is required")):
            result = keel(*arguments, cwd=self.folder)
            self.assert_exit(result, 2)
            self.assertIn(part, result.stderr)
            self.assertIn("--help", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_an_unknown_option_is_reported_before_a_missing_one(self):
        for arguments, *parts in ((("generate", "--modle", "x", "--prompt", "y"), "--modle is not an option of generate", "did you mean --model?"),
                                  (("generate", "--model", "x", "--promt=y"), "--promt is not an option", "did you mean --prompt?"),
                                  (("generate", "--max_new_token", "4"), "did you mean --max-new-tokens?"),
                                  (("eval", "--sample", "x"), "did you mean --samples?"),
                                  (("generate", "--temp", "0.5"), "did you mean --temperature?"),
                                  (("train", support.QUICKSTART, "--max_new_tokens", "8"), "written without dashes, as rollout.max_new_tokens=VALUE"),
                                  (("train", "--resum"), "did you mean --resume?"),
                                  (("report", "--outptu", "x"), "did you mean --output?"),
                                  (("generate", "--wholly-unlike", "4"), "--wholly-unlike is not an option of generate", "--temperature")):
            result = keel(*arguments, cwd=self.folder)
            self.assert_exit(result, 2)
            for part in parts:
                self.assertIn(part, result.stderr)
            self.assertNotIn("is required", result.stderr)
        for arguments, part in ((("generate", "--prompt", "--modle"), "--model is required"),  # a prompt that looks like an option
                                (("generate", "-n", "4", "--prompt", "-3"), "--model is required"), (("generate", "-n4"), "is required")):
            result = keel(*arguments, cwd=self.folder)
            self.assert_exit(result, 2)
            self.assertIn(part, result.stderr)

    def test_an_option_without_a_value_does_not_take_the_next_argument(self):
        for option in ("--stop=", "--prompt=", "--min-p="):
            result = keel("generate", "--model", "x", option, "--json", cwd=self.folder)
            self.assert_refused(result, 2, f"{option} has no value; write {option[:-1]} VALUE")

    def test_a_long_value_does_not_hide_the_message(self):
        long = "9" * 100_000
        for arguments, *parts in ((("import", "algorithm.adv_estimator=grpo", f"data.max_prompt_length={long}"), "data.max_prompt_length=999", "expected an integer"),
                                  (("import", "algorithm.adv_estimator=grpo", "data.x=" + "[" * 50_000), "data.x=[[[", "64 levels"),
                                  (("train", support.QUICKSTART, f"{long}=1"), "99999"), ((long,), "is not a command", "train"),
                                  (("methods", "é" * 50_000), "éé")):
            result = keel(*arguments, cwd=self.folder)
            self.assert_exit(result, 2)
            self.assertLess(len(result.stderr), 5000)
            for part in (*parts, " more bytes) "):
                self.assertIn(part, result.stderr)
            self.assertNotIn("\\x", result.stderr)

    def test_a_too_small_stack_is_reported(self):
        limited = ["bash", "-c", 'ulimit -s 64; exec "$@"', "bash", support.KEEL, "train", support.QUICKSTART, f"run.dir={self.folder}/run"]
        result = subprocess.run(limited, capture_output=True, text=True, env=support.environment())
        self.assert_exit(result, 4)
        self.assertIn("the stack is limited to 64 KiB; expected at least 256 (ulimit -s 8192)", result.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_gpu_is_called_cuda(self):
        self.assert_refused(train(self.folder / "run", run={"device": "gpu"}), 2, "run.device=gpu", "did you mean cuda?")
        result = keel("generate", "--model", "x", "--prompt", "y", "--device", "gpu")
        self.assert_exit(result, 2)
        self.assertIn("did you mean cuda?", result.stderr)

    def test_resume_and_overwrite_exclude_each_other(self):
        result = train(self.folder / "run", "--resume", "--overwrite")
        self.assert_exit(result, 2)
        self.assertIn("excludes", result.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_an_override_without_a_value_is_refused(self):
        self.assert_refused(train(self.folder / "run", "train.steps"), 2, "train.steps", "expected key=value")

    def test_a_duplicate_key_on_the_command_line_is_refused(self):
        for command in (["train", support.QUICKSTART], ["quickstart"]):
            result = keel(*command, "objective.method=grpo", "run.seed=1", "objective.method=spo", cwd=self.folder)
            self.assert_refused(result, 2, "command line", "objective.method=grpo", "objective.method=spo", "keep one")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_setting_instead_of_the_file_is_reported(self):
        for command in ("train", "eval"):
            self.assert_refused(keel(command, "steps=5"), 2, "command line: steps=5: unknown key", "train.steps")
        self.assert_refused(keel("reward", "reward.functions=math"), 3, "is a setting, not a file")
        for arguments in (["--set", "train.steps=5"], ["--train.steps=5"], ["--train.steps", "5"]):
            result = keel("train", support.QUICKSTART, *arguments)
            self.assert_refused(result, 2, arguments[0], "settings are written without dashes", "train.steps=")

    def test_methods_recognises_names_of_other_trainers(self):
        for name, row in (("ppo_clip", "ppo"), ("dppo_binary_tv", "dppo_tv"), ("dppo_binary_kl", "dppo_kl"), ("spo", "spo")):
            result = keel("methods", name)
            self.assert_exit(result, 0)
            self.assertTrue(result.stdout.startswith(f"{row}: "), result.stdout)
        for name, row in (("vanilla", "ppo"), ("geo_mean", "gmpo"), ("dpo_tv", "dppo_tv"), ("dppo", "dppo_tv"), ("DPPO", "dppo_tv")):
            self.assert_refused(keel("methods", name), 2, name, f"did you mean {row}?")

    def test_methods_shows_choices_and_numbers(self):
        for name, words in (("dppo_topk_kl", ("divergence   topk_kl", "anchor       behavior")), ("mis", ("level        token",))):
            result = keel("methods", name)
            self.assert_exit(result, 0)
            for word in words:
                self.assertIn(word, result.stdout)


class ConfigurationFile(support.Test):
    def refused(self, text, *parts, name="bad.yaml", code=2):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = keel("train", path, cwd=self.folder)
        self.assert_refused(result, code, name, *parts)
        self.assertEqual(os.listdir(self.folder), [name])
        path.unlink()

    def test_a_misspelt_key_is_named_with_its_line_and_the_nearest_key(self):
        self.refused("train:\n  steps: 3\n  promts_per_step: 4\n", "bad.yaml:3: train.promts_per_step: unknown key",
                     "did you mean train.prompts_per_step?")

    def test_an_unknown_section_lists_the_known_ones(self):
        self.refused("run: {}\nfoo:\n  bar: 1\n", "bad.yaml:2: foo: unknown section", "sections are run, model")

    def test_a_wrong_type_names_the_expected_one(self):
        self.refused("train:\n  steps: many\n", "bad.yaml:2: train.steps", 'got "many"', "expected an integer")
        self.refused("train: 3\n", "bad.yaml:1: train", "expected a section")

    def test_a_value_out_of_range_names_the_range(self):
        self.refused("rollout:\n  temperature: 0\n", "bad.yaml:2: rollout.temperature", "at least 1e-04 and at most 100")
        self.refused("task:\n  modulus: 1\n", "task.modulus", "got 1", "at least 2")
        self.refused("rollout:\n  weights: fp4\n", "rollout.weights", "one of exact, bf16, fp16, fp8, fp8_full")
        self.refused("rollout:\n  logit_noise: -0.1\n", "rollout.logit_noise", "got -0.1", "at least 0")

    def test_a_duplicate_key_is_refused(self):
        self.refused("train:\n  steps: 3\n  steps: 4\n", "bad.yaml:3", "steps", "2")
        self.refused('{"train": {"steps": 3,\n "steps": 4}}', "bad.json:2", "steps", name="bad.json")

    def test_all_errors_are_reported_at_once(self):
        self.refused("train:\n  stepz: 3\neval:\n  prompts: -1\n", "train.stepz", "eval.prompts")

    def test_a_file_that_is_not_a_configuration_is_refused(self):
        self.refused(bytes(range(256)) * 64)
        self.refused(b"\x7fELF\x02\x01\x01\x00" + os.urandom(5000))
        self.refused("a: [1, 2", "bad.yaml:", "not valid YAML")
        self.refused("")
        self.refused("just text\n", "expected a mapping")
        self.refused("[" * 100000)
        self.refused("x" * (2 << 20), "1 MiB")
        self.refused('{"train": ', name="bad.json")

    def test_a_missing_file_and_a_folder_are_refused(self):
        self.assert_refused(keel("train", self.folder / "none.yaml"), 2, "none.yaml", "does the file exist?")
        self.assert_refused(keel("train", self.folder), 2, str(self.folder), "is a folder")
        self.assertEqual(os.listdir(self.folder), [])
        (self.folder / "config.yaml").write_text("{}")
        self.assert_refused(keel("study", self.folder), 2, "is a folder", f"this run's is {self.folder / 'config.yaml'}")

    def test_json_and_yaml_are_equivalent(self):
        config = {"run": {"dir": "out"}, "model": {"hidden_size": 16, "heads": 2}}
        (self.folder / "c.json").write_text(json.dumps(config))
        result = keel("train", "c.json", "--explain", cwd=self.folder)
        self.assert_exit(result, 0)
        self.assertIn("width 16", result.stdout)
        self.assertEqual(os.listdir(self.folder), ["c.json"])


class ImpossibleSettings(support.Test):
    def refused(self, *parts, **sections):
        result = train(self.folder / "run", **sections)
        self.assert_refused(result, 2, *parts)
        self.assertEqual(os.listdir(self.folder), [])

    def test_impossible_shapes_are_refused(self):
        self.refused("model.hidden_size is 16", "model.heads is 3", "multiple", model={"heads": 3})
        self.refused("head_dim is 1", "even", model={"heads": 16})
        self.refused("model.max_positions is 20", "at least 44", model={"max_positions": 20})

    def test_impossible_batches_are_refused(self):
        self.refused("train.sequences_per_update is 7", "divisor of 16", train={"sequences_per_update": 7})
        self.refused("rollout.samples_per_prompt is 1", "at least 2", rollout={"samples_per_prompt": 1})

    def test_absurd_sizes_are_refused(self):
        for section, key in (("model", "hidden_size"), ("model", "layers"), ("model", "max_positions"),
                             ("train", "prompts_per_step"), ("rollout", "samples_per_prompt"), ("run", "threads")):
            self.refused(f"{section}.{key}=1000000000", "at most", **{section: {key: 1000000000}})
        self.refused("train.prompts_per_step", "4611686018427387904", train={"prompts_per_step": 4611686018427387904})

    def test_a_model_that_does_not_fit_the_memory_is_refused_before_the_run_exists(self):
        for model in ({"hidden_size": 1 << 20, "heads": 8}, {"hidden_size": 1 << 14, "heads": 8, "layers": 65536}):
            self.refused("memory: the run needs about", "TiB", "this machine has", "available", "choose a smaller model", model=model)
            self.assert_refused(train(self.folder / "run", "--explain", model=model), 2, "memory: the run needs about")

    def test_checkpoints_that_do_not_fit_the_disk_are_refused_before_the_run_exists(self):
        sections = {"train": {"steps": 10**9}, "checkpoint": {"every": 1, "keep": 10**9}}
        self.refused("disk: the run needs about", "checkpoints of", "available", "lower checkpoint.keep", **sections)
        self.assert_refused(train(self.folder / "run", "--explain", **sections), 2, "disk: the run needs about")

    def test_unused_positions_take_no_memory(self):
        self.assert_exit(train(self.folder / "run", sft={"steps": 0}, train={"steps": 1}, eval={"prompts": 0},
                               model={"max_positions": 1 << 27}), 0)

    def test_running_out_of_memory_is_a_health_guard(self):
        # 3 GiB of addresses let the libraries load, but not the key-value cache of these rollouts.
        limit = ["bash", "-c", 'ulimit -v 3000000; exec "$@"', "bash"]
        if subprocess.run([*limit, support.KEEL, "--version"], stdout=subprocess.DEVNULL).returncode != 0:
            self.skipTest("the libraries of this build need more than that to load")
        result = train(self.folder / "run", prefix=limit, sft={"steps": 0}, eval={"prompts": 0},
                       model={"max_positions": 60000, "hidden_size": 64},
                       rollout={"max_new_tokens": 50000, "samples_per_prompt": 64, "max_sequences": 256},
                       train={"sequences_per_update": 0})
        self.assert_refused(result, 4, "out of memory", "lower")

    def test_contradicting_parameters_are_refused(self):
        self.refused("objective.delta", "dppo_tv", "at most 1", objective={"delta": 1.5})
        self.refused("objective.delta", "1e+300", objective={"delta": "1e300"})
        self.refused("objective.parameters", "gap_low is 4", "gap_high is 3",
                     objective={"method": "mis", "parameters": '["gap_low=4"]'})
        self.refused("objective.parameters", "dual", "from 1 to 1e20", objective={"method": "ppo", "parameters": '["dual=0.5"]'})
        self.refused("objective.parameters", "horizon is 2", "tokens",
                     objective={"method": "cppo", "parameters": '["horizon=2","w_min=0"]'})

    def test_a_threshold_of_another_method_gets_a_suggestion(self):
        self.refused("objective.delta is 0.2", "spo", 'objective.parameters=\'["eps=0.2"]\'',
                     objective={"method": "spo", "delta": 0.2})
        self.refused("objective.delta is 0.2", "tvpo", 'objective.parameters=\'["clip=0.2"]\'',
                     objective={"method": "tvpo", "delta": 0.2})

    def test_trl_and_verl_names_get_suggestions(self):
        self.refused("train.num_generations", "TRL's num_generations is rollout.samples_per_prompt; `keel import`", train={"num_generations": 4})

    def test_an_unknown_parameter_is_refused(self):
        self.refused("objective.ratio_cap", "gspo", "low, high", objective={"method": "gspo", "ratio_cap": 3})

    def test_an_unknown_method_is_refused(self):
        self.refused("objective.method", "keel methods", objective={"method": "dpo"})

    def test_a_missing_gpu_is_refused(self):
        if "cuda" in keel("--version").stdout:
            self.skipTest("there is one")
        self.refused("run.device", "cuda", "run.device=cpu", run={"device": "cuda"})
        self.assert_refused(train(self.folder / "run", "--explain", run={"device": "cuda"}), 2, "run.device", "cuda")

    def test_doctor_prints_the_default_number_of_threads(self):
        """run.threads 0 means one per core, for any OMP_NUM_THREADS."""
        output = support.keel("doctor", env=support.environment(OMP_NUM_THREADS="1"), check=False).stdout
        cores = re.search(r"cores +(\d+)", output)[1]
        self.assertRegex(output, rf"CPU kernels .*, {cores} threads?\n")

    def test_settings_are_explained_without_a_run(self):
        result = train(self.folder / "run", "--explain")
        self.assert_exit(result, 0)
        self.assertIn("4 prompts x 4 samples = 16 completions; 2 updates of 8 completions", result.stdout)
        for word in ("divergence = binary_tv", "anchor = behavior"):
            self.assertIn(word, result.stdout)
        corrected = train(self.folder / "run", "--explain", objective={"method": "mis", "parameters": '["level=sequence"]'})
        self.assertIn("level = sequence", corrected.stdout)
        self.assertIn("penalty of 0.1", result.stdout)  # support.SMALL has -0.1
        for word in ("4 steps, 1 pass over each batch", "10 prompts x 1 sample, temperature 1", "weight decay 0", "gradients clipped at 1", "no warm-up"):
            self.assertIn(word, result.stdout)
        # 16 completions of up to 33 tokens, 3 blocks each, and a block for each of 4 prompts: 52 blocks of 16 tokens, each of keys and
        # values, 2 layers, 2 heads of 8 numbers, 4 bytes.
        self.assertIn("16 sequences at a time, at most 208.0 KiB of KV cache with prompts of up to 11 tokens", result.stdout)
        few = train(self.folder / "run", "--explain", rollout={"max_sequences": 3}, run={"precision": "bf16"})
        self.assertRegex(result.stdout, r"memory +about .*; this machine has .* available: fits")
        self.assertRegex(result.stdout, r"disk +about .*; the disk of .* has .* available: fits")
        self.assertIn("3 sequences at a time, at most 48.0 KiB", few.stdout)  # 3 x (3 + 1) blocks; in float32 on a CPU
        greedy = train(self.folder / "run", "--explain", eval={"temperature": 0, "samples": 4, "every": 2})
        self.assertIn("10 prompts x 4 samples, greedy (all equal); every 2 steps", greedy.stdout)
        # Before the first of four steps, after the second and at the end.
        self.assertRegex(greedy.stdout, r"all 4 about [0-9.]+ m?s; 3 evaluations about [0-9.]+ m?s")
        self.assertNotIn("evaluations about", train(self.folder / "run", "--explain", eval={"prompts": 0}).stdout)
        slow = train(self.folder / "run", "--explain", optimizer={"lr": 0.01, "warmup_updates": 80})
        self.assertIn("learning rate 0.01 after a warm-up of 80 updates, but the run has only 8: it ends at 0.000875", slow.stdout)
        even = train(self.folder / "run", "--explain", optimizer={"lr": 0.01, "warmup_updates": 8})
        self.assertIn("learning rate 0.01 after a warm-up of 8 updates, but the run has only 8: it ends at 0.00875", even.stdout)
        endless = train(self.folder / "run", "--explain", optimizer={"lr": 0.01, "warmup_updates": 2**63 - 1})
        self.assertIn("after a warm-up of 9.22337e+18 updates, but the run has only 8: it ends at ", endless.stdout)
        self.assert_refused(train(self.folder / "run", "--explain", optimizer={"max_grad_norm": 0}), 2, "above 0", "1e9, disables clipping")
        self.assertEqual(os.listdir(self.folder), [])

    def test_explain_refuses_what_cannot_run(self):
        for code, parts, sections in ((2, ("maths", "did you mean math?"), {"reward": {"functions": '["maths"]'}}),
                                      (2, ("my_reward.py", "did you mean python:my_reward.py?"), {"reward": {"functions": '["my_reward.py"]'}}),
                                      (2, ("nosuch.py",), {"reward": {"functions": '["python:nosuch.py"]'}})):
            result = train(self.folder / "run", "--explain", **sections)
            self.assert_exit(result, code)
            for part in parts:
                self.assertIn(part, result.stderr)
        config = self.folder / "own.yaml"
        config.write_text("data: {files: [nosuch.jsonl]}\nrollout: {max_new_tokens: 8}\n")
        self.assert_refused(keel("train", config, "--explain"), 2, "data.files is set, but model.path is not")
        model = self.folder / "start"
        self.assert_exit(train(model, sft={"steps": 0}, train={"steps": 0}, eval={"prompts": 0}), 0)
        self.assert_refused(keel("train", config, "--explain", f"model={model}", cwd=self.folder), 3, "nosuch.jsonl")
        self.assert_refused(keel("train", config, "--explain", f"model={model}", "data.files=[openai/gsm8k]", cwd=self.folder), 3,
                            "openai/gsm8k", "hf download openai/gsm8k")


class Generate(support.Test):
    def setUp(self):
        super().setUp()
        self.assert_exit(train(self.folder / "run", sft={"steps": 0}, train={"steps": 0}, eval={"prompts": 0},
                               model={"max_positions": 64}), 0)
        (self.model,) = (self.folder / "run" / "checkpoints").glob("step-*")

    def generate(self, words, *options):
        return keel("generate", "--model", self.model, "--prompt", " ".join(words), *options)

    def test_a_prompt_and_a_completion_that_do_not_fit_say_which_to_shorten(self):
        self.assert_refused(self.generate(["1"] * 60, "--max-new-tokens", "5"), 2, "60 tokens", "64 positions", "--max-new-tokens to at most 4")
        self.assert_exit(self.generate(["1"] * 60), 0)
        for count in (64, 70):
            result = self.generate(["1"] * count)
            self.assert_refused(result, 2, f"{count} tokens", "64 positions", "shorten the prompt to at most 63 tokens")
            self.assertNotIn("--max-new-tokens", result.stderr)
        self.assert_exit(self.generate(["1"] * 63, "--max-new-tokens", "1"), 0)

    def test_zero_limits_and_empty_texts_are_refused(self):
        for options, parts in ((("--max-new-tokens", "0"), ("--max-new-tokens", "0")), (("--max-new-tokens", "-1"), ("--max-new-tokens", "-1")),
                               (("-n", "0"), ("-n", "0")), (("--stop", ""), ("--stop", "would end every completion", "remove it"))):
            self.assert_refused(self.generate(["1"], *options), 2, *parts)
        self.assert_refused(self.generate([]), 2, "--prompt is empty", "at least one token")

    def test_a_token_beyond_the_embedding_is_refused(self):
        path = self.model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        size = len(tokenizer["model"]["vocab"])
        tokenizer["model"]["vocab"]["novel"] = size
        path.write_text(json.dumps(tokenizer))
        self.assert_refused(self.generate(["1", "novel"], "--max-new-tokens", "1"), 3, "tokenizer.json", "manifest.json")
        (self.model / "manifest.json").unlink()  # as a user does who edits a checkpoint
        self.assert_refused(self.generate(["1", "novel"], "--max-new-tokens", "1"), 3, f"token {size}", '"novel"',
                            f"vocabulary of {size}", "without resizing the embedding")


if __name__ == "__main__":
    support.main()
