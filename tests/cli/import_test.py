"""Imports recipes of TRL and verl (tests/recipes) and trains each for a step. The expected settings are written by hand, from the
definitions of TRL 1.16.0 (GRPOConfig, grpo_trainer.py) and verl 0.9.1 (ppo_trainer.yaml, core_algos.py). docs/import.md has the same
table."""

import json
import math
import pathlib
import re
import subprocess

import own_files
import support

RECIPES = support.ROOT / "tests" / "recipes"
PAGE = support.ROOT / "docs" / "import.md"

ANCHOR = ("remark: anchor: ratios are relative to the sampler's log-probs; TRL and verl recompute them by default "
          "(objective.anchor=recomputed)\n")

REWARD = """
def length_reward(completions, **columns):
    return [len(text) / 10 for text in completions]
"""

# Method and thresholds; prompts per step, samples per prompt, updates per step; KL in the loss, KL in the reward; advantage;
# aggregation; learning rate. verl's vanilla loss is PPO's clip with a dual clip at 3; TRL's default loss is dapo.
MEANT = {
    "trl_open_r1_demo.yaml": dict(
        method="grpo", low=0.2, high=0.2, prompts=2, samples=7, updates=1, kl=0.04, advantage="grpo", average="seq_mean_token_mean", lr=2e-5,
        precision="bf16", every=2, epochs=1),  # max_steps is -1
    "trl_open_r1_zero_math.yaml": dict(  # 64 completions at once, updates of 4 x 2
        method="ppo", low=0.2, high=0.2, parameters=[], prompts=4, samples=16, updates=8, kl=0, advantage="grpo", average="token_mean", lr=1e-6,
        steps=2, warmup=2, weights=[1.0, 0.25], shuffle="rollouts"),
    "trl_open_r1_smollm2.yaml": dict(  # 2 x 4 processes x 2; four passes
        method="grpo", low=0.2, high=0.2, prompts=2, samples=8, updates=4, kl=0.01, advantage="grpo", average="seq_mean_token_mean", lr=1e-4,
        steps=2),
    "trl_gspo.sh": dict(  # 8 x 8 completions, updates of 8 x 2
        method="gspo", low=3e-4, high=4e-4, prompts=8, samples=8, updates=4, kl=0, advantage="grpo", average="seq_mean_token_mean", lr=1e-5,
        rank=16, alpha=32, layers=["q_proj", "v_proj"]),
    "trl_dapo.json": dict(
        method="dapo", low=0.2, high=0.28, prompts=2, samples=16, updates=1, kl=0, advantage="grpo", average="token_mean", lr=1e-6),
    "trl_dr_grpo_lora.json": dict(  # PEFT's lora_alpha is 8
        method="dr_grpo", low=0.2, high=0.2, prompts=2, samples=8, updates=1, kl=0, advantage="group_mean", average="seq_mean_token_sum_norm",
        lr=1e-6, rank=16, alpha=8, layers=["q_proj", "v_proj"]),
    "trl_intellect2.yaml": dict(
        method="grpo", low=0.2, high=0.2, parameters=["dual=4"], prompts=2, samples=16, updates=1, kl=0.001, advantage="grpo",
        average="seq_mean_token_mean", lr=3e-7, warmup=25),
    "verl_grpo.sh": dict(
        method="ppo", low=0.2, high=0.2, parameters=["dual=3.0"], prompts=8, samples=5, updates=4, kl=0.001, advantage="grpo",
        average="token_mean", lr=1e-6, decay=0.01),
    "verl_grpo_lora.sh": dict(
        method="ppo", low=0.2, high=0.2, parameters=["dual=3.0"], prompts=4, samples=5, updates=1, kl=0.001, advantage="grpo",
        average="token_mean", lr=3e-6, rank=64, alpha=32),
    "verl_ppo.sh": dict(
        method="ppo_gae", low=0.2, high=0.2, parameters=["dual=3.0"], prompts=8, samples=1, updates=4, kl=0, advantage="gae",
        average="token_mean", lr=1e-6, critic_lr=1e-5),
    "verl_gspo.sh": dict(  # a warm-up of 5 of 100 steps, of 4 updates each
        method="gspo", low=3e-4, high=4e-4, prompts=8, samples=4, updates=4, kl=0, advantage="grpo", average="seq_mean_token_mean", lr=1e-6,
        warmup=20, decay=0.1),
    "verl_dapo.sh": dict(  # a batch of verl is three batches of Keel
        method="ppo", low=0.2, high=0.28, parameters=["dual=10.0"], prompts=4, samples=16, updates=2, kl=0, advantage="grpo",
        average="token_mean", lr=1e-6, warmup=20, batches=30, overlong=4),
    "verl_rloo.sh": dict(
        method="ppo", low=0.2, high=0.2, parameters=["dual=3.0"], prompts=8, samples=5, updates=4, kl=0, reward_kl=0.001, advantage="rloo",
        average="token_mean", lr=1e-6),
    "verl_reinforce_pp_baseline.sh": dict(  # kl_ctrl.kl_coef is 0.001 by default
        method="ppo", low=0.2, high=0.2, parameters=["dual=3.0"], prompts=8, samples=8, updates=1, kl=0, reward_kl=0.001,
        advantage="reinforce_pp_baseline", average="token_mean", lr=3e-6),
    "verl_cispo.sh": dict(
        method="cispo", low=10, high=0.2, prompts=4, samples=5, updates=2, kl=0.001, advantage="grpo", average="token_mean", lr=1e-6),
    "verl_gmpo.sh": dict(  # geo_mean never reads loss_agg_mode
        method="gmpo", low=0.4, high=0.4, prompts=8, samples=4, updates=8, kl=0, advantage="grpo", average=None, lr=1e-6, warmup=80),
    "verl_dppo.yaml": dict(
        method="dppo_tv", low=0.15, high=0.15, cap=10000, prompts=8, samples=4, updates=4, kl=0, advantage="group_mean",
        average="seq_mean_token_sum_norm", lr=1e-6),
}


def meaning(config):
    """The same values of a run's config.yaml, which has every key."""
    train, objective, rollout, optimizer = (config[key] for key in ("train", "objective", "rollout", "optimizer"))
    rollouts = train["prompts_per_step"] * rollout["samples_per_prompt"]
    updates = train["epochs"] * rollouts // (train["sequences_per_update"] or rollouts)
    return dict(
        method=objective["method"], low=objective["delta_low"], high=objective["delta_high"], parameters=objective["parameters"],
        cap=objective["ratio_cap"], prompts=train["prompts_per_step"], samples=rollout["samples_per_prompt"],
        updates=updates, kl=config["reference"]["kl_coefficient"],
        reward_kl=config["reference"]["kl_in_reward"], advantage=objective["advantage"], average=objective["aggregation"], lr=optimizer["lr"],
        precision=config["run"]["precision"], every=config["eval"]["every"], steps=train["steps"], epochs=train.get("data_epochs"),
        warmup=warmup if (warmup := optimizer["warmup_updates"]) >= 1 else math.ceil(round(warmup * (train["steps"] or 0) * updates, 6)),
        weights=config["reward"]["weights"], shuffle=train["shuffle"], rank=config["lora"]["rank"], alpha=config["lora"]["alpha"],
        layers=config["lora"]["target_modules"], decay=optimizer["weight_decay"], critic_lr=config["critic"]["lr"],
        batches=rollout["max_batches"], overlong=config["reward"]["overlong_buffer"])


class Import(own_files.Test):
    def setUp(self):
        super().setUp()
        self.write("reward.py", REWARD)

    def run_import(self, *arguments, stdin=None):
        if stdin is None:
            return support.keel("import", *arguments, cwd=str(self.folder))
        return subprocess.run([support.KEEL, "import", *map(str, arguments)], cwd=self.folder, input=stdin, capture_output=True, text=True,
                              env=support.environment())

    def refused(self, *arguments, stdin=None):
        result = self.run_import(*arguments, stdin=stdin)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        return result.stderr

    def import_recipe(self, name, out):
        """Runs a script with `keel import` in place of the program that it starts."""
        if not name.endswith(".sh"):
            return self.run_import(RECIPES / name, "-o", out, "--overwrite")
        program = r"python3 -m verl\.trainer\.main_ppo|accelerate launch .*?/gspo\.py"
        script, calls = re.subn(program, f"{support.KEEL} import -o {out} --overwrite", (RECIPES / name).read_text(), flags=re.DOTALL)
        self.assertEqual(calls, 1, name)
        return subprocess.run(["bash", self.write("run.sh", script)], cwd=self.folder, capture_output=True, text=True, env=support.environment())

    def test_every_recipe_gives_the_expected_settings_and_trains(self):
        self.assertEqual({path.name for path in RECIPES.iterdir() if not path.name.startswith("trl_sft_")}, set(MEANT))
        for name, meant in MEANT.items():
            with self.subTest(recipe=name):
                out = self.folder / "keel.yaml"
                result = self.import_recipe(name, out)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr.count(ANCHOR), 1, result.stderr)
                explained = support.keel("train", out, "--explain", cwd=str(self.folder))
                self.assertEqual(explained.returncode, 0, explained.stderr)
                self.assertIn(meant["method"], explained.stdout)
                # The written config has every key. One thread and float32: so small a network gains nothing from more.
                run = self.folder / name.partition(".")[0]
                trained = support.keel("train", out, f"run.dir={run}", "run.threads=1", "run.precision=float32", "train.steps=1",
                                       "eval.prompts=0", "checkpoint.every=0", "rollout.max_batches=1", cwd=str(self.folder))
                self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
                self.assertEqual(len(support.metrics(run)), 1)
                settings, imported = read_settings(run / "config.yaml"), read_settings(out)
                for section, key in (("run", "precision"), ("train", "steps"), ("train", "data_epochs"), ("rollout", "max_batches")):  # set on the command line
                    settings[section][key] = imported.get(section, {}).get(key)
                self.assertEqual({key: value for key, value in meaning(settings).items() if key in meant}, meant)
                self.assertEqual(settings["reference"]["kl_in_reward"], meant.get("reward_kl", 0))

    def test_the_page_has_the_same_table(self):
        page = PAGE.read_text(encoding="utf-8")
        for name, meant in MEANT.items():
            row = re.search(rf"^\| `{re.escape(name)}` .*$", page, re.MULTILINE)
            self.assertIsNotNone(row, name)
            numbers = f"{meant['prompts']} x {meant['samples']}, {meant['updates']} update"
            self.assertIn(numbers, row[0])
            self.assertIn(f"`{meant['method']}`", row[0])
            self.assertIn(f"`{meant['advantage']}`", row[0])

    def test_values_that_mean_off_or_one_machine_are_accepted_silently(self):
        trl = self.run_import("num_generations=4", "max_steps=2", "dataset_name=rows.jsonl", "reward_funcs=[reward.length_reward]", "push_to_hub=false", "report_to=none", "save_total_limit=2",
                              "num_generations_eval=1", "num_processes=1", "lr_scheduler_type=constant", "deepspeed=null", "loss_type=grpo", "beta=0",
                              "scale_rewards=none")
        self.assertEqual(trl.returncode, 0, trl.stderr)
        self.assertNotIn("remark", trl.stderr.replace(ANCHOR, ""))

    def test_peft_names_may_accompany_trainer_names(self):
        lora = {"r": 16, "lora_alpha": 64, "lora_dropout": 0.0, "target_modules": ["q_proj", "o_proj"], "bias": "none", "task_type": "CAUSAL_LM",
                "init_lora_weights": True, "rank_pattern": {}, "peft_type": "LORA"}
        trainer = {"num_generations": 4, "max_steps": 2, "loss_type": "grpo", "beta": 0.0, "dataset_name": "rows.jsonl"}
        configurations = []
        for recipe in ({**trainer, **lora}, {"GRPOConfig": trainer, "LoraConfig": lora}, {"GRPOConfig": trainer, **lora}):
            self.write("r.json", json.dumps(recipe))
            self.assert_exit(self.run_import("r.json", "-o", "keel.yaml", "--overwrite"), 0)
            configurations.append(read_settings(self.folder / "keel.yaml")["lora"])
        self.assertEqual(configurations[0], {"rank": 16, "alpha": 64, "dropout": 0, "target_modules": ["q_proj", "o_proj"]})
        self.assertEqual(configurations[1:], 2 * configurations[:1])

    def test_train_suggests_import_for_a_recipe(self):
        self.write("grpo.yaml", "num_generations: 4\nuse_dora: true\n")
        self.write("run.sh", (RECIPES / "verl_grpo.sh").read_text())
        self.write("grpo.py", "from trl import GRPOConfig\n")
        for file in ("grpo.yaml", "run.sh", "grpo.py"):
            result = support.keel("train", file, cwd=str(self.folder))
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("`keel import", result.stderr)

    def test_standard_input_and_settings_that_win(self):
        text = (RECIPES / "verl_dppo.yaml").read_text()
        result = self.run_import("-", "actor_rollout_ref.rollout.n=8", "~algorithm.use_kl_in_reward", "+data.seed=5", stdin=text)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("samples_per_prompt: 8", result.stdout)
        self.assertIn("sequences_per_update: 16", result.stdout)
        self.assertIn("seed: 5", result.stdout)
        trl = self.run_import("-", stdin='{"num_generations": 4, "max_steps": 5, "dataset_name": "rows.jsonl"}')
        self.assertEqual(trl.returncode, 0, trl.stderr)
        self.assertIn("samples_per_prompt: 4", trl.stdout)

    def test_standard_input_without_end_is_not_read_to_its_end(self):
        with open("/dev/zero", "rb") as zeros:
            result = subprocess.run([support.KEEL, "import", "-"], stdin=zeros, capture_output=True, text=True, timeout=support.HANG,
                                    env=support.environment())
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("larger than 1 MiB", result.stderr)

    def test_an_existing_file_is_kept(self):
        out = self.write("mine.yaml", "kept")
        self.assertIn("--overwrite", self.refused("num_generations=4", "-o", out))
        self.assertEqual(out.read_text(), "kept")
        self.assertEqual(self.run_import("num_generations=4", "dataset_name=rows.jsonl", "-o", out, "--overwrite").returncode, 0)
        self.assertIn("samples_per_prompt: 4", out.read_text())
        (self.folder / "run").mkdir()
        ours = self.write("run/config.yaml", "# The full, resolved configuration of this run.\n")
        self.assertIn("belongs to a run", self.refused("num_generations=4", "-o", ours, "--overwrite"))
        link = self.folder / "link.yaml"
        link.symlink_to(self.folder / "nothing")
        self.refused("num_generations=4", "-o", link)
        self.assertTrue(link.is_symlink())

    def test_unsupported_recipes_are_refused(self):
        yaml = "num_generations: 4\nmax_steps: 4\n"
        cases = [
            (yaml + "num_generatons: 5\n", "r.yaml:3: num_generatons: unknown key of TRL. Fix: use num_generations"),
            (yaml + "repetition_penalty: 1.1\nsync_ref_model: true\n", "r.yaml:4: sync_ref_model"),
            (yaml + "bf16: true\nfp16: true\n", "fp16 is true as well"),
            (yaml + "generation_batch_size: 8\nsteps_per_generation: 8\n", "generation_batch_size: steps_per_generation gives 64"),
            (yaml + "learning_rate: ${lr}\n", "r.yaml:3: learning_rate: the reference ${lr} is not resolved"),
            (yaml + "defaults: [base]\n", "defaults includes another file, base"),
            (yaml + "a: &x {b: 1}\nc:\n  <<: *x\n", "r.yaml:5: YAML's merge key"),
            (yaml + "dataset_name: trl-lib/tldr\n", "Keel reads files"),
            (yaml + "RLOOConfig: {beta: 0.1}\n", "TRL's RLOO"),
            ("colour: red\n", "has no key of TRL"),
            ("train: {steps: 5}\n", "For a Keel configuration use `keel train`"),
            ("", "is empty"),
            ("- 1\n", "a list"),
        ]
        for text, wanted in cases:
            with self.subTest(text=text):
                self.write("r.yaml", text)
                self.assertIn(wanted, self.refused("r.yaml"))
        self.write("r.yaml", yaml + "repetition_penalty: 1.1\nsync_ref_model: true\n")
        self.assertIn("r.yaml:3: repetition_penalty", self.refused("r.yaml"))  # all errors are reported at once
        for head in ("from trl import GRPOConfig", "#!/usr/bin/env python3", '"""accelerate launch train_grpo.py"""'):
            self.write("train_grpo.py", f"{head}\ntraining_args = GRPOConfig(num_generations=4)\n")
            message = self.refused("train_grpo.py")
            self.assertIn("train_grpo.py: Python scripts are not supported", message)
            self.assertIn("print(training_args.to_json_string())", message)
        for words, wanted in ((["missing.yaml"], "cannot be opened"), ([str(self.data)], "not a configuration"),
                              (["algorithm.adv_estimator=remax", "actor_rollout_ref.rollout.n=4"], 'got "remax"')):
            self.assertIn(wanted, self.refused(*words))
        script = self.refused(RECIPES / "verl_grpo.sh")
        self.assertIn("by `keel import -o keel.yaml`", script)


def read_settings(path):
    """The settings of a run's config.yaml: two levels; values are JSON or plain words."""
    settings, section = {}, None
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        line = re.sub(r"  +# .*", "", line)  # a comment with the value's origin
        key, _, text = line.strip().partition(": ")
        if not line.startswith(" "):
            section = settings[key.rstrip(":")] = {}
            continue
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            items = text[1:-1].split(", ") if text.startswith("[") else text
            value = [item.strip('"') for item in items] if text.startswith("[") else text
        section[key] = value
    return settings


if __name__ == "__main__":
    support.main()
