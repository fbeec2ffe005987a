"""Every example runs at a small size: with a tiny random network and few, short completions."""

import json
import pathlib
import shutil
import socket
import subprocess
import sys

import support

sys.path.append(str(support.ROOT / "tests" / "parity"))
import packages  # noqa: E402
from byte_model import write_model

EXAMPLES = support.ROOT / "examples"
PYTHON = support.ROOT / "scripts" / "python.sh"
SMALL = ["train.steps=2", "rollout.max_new_tokens=6", "run.threads=1", "model.random_weights=true"]


class Examples(support.Test):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.folder / "model")
        self.place = pathlib.Path(shutil.copytree(EXAMPLES, self.folder / "examples"))

    def train(self, config, *settings, **options):
        """Runs in the folder of the configuration, as its first lines describe."""
        path = self.place / config
        result = support.keel("train", path.name, f"model={self.model}", f"run.dir={self.folder / 'run'}", *settings, cwd=path.parent, **options)
        self.assert_exit(result, 0)
        steps = [row for row in support.metrics(self.folder / "run") if row["phase"] == "rl"]
        self.assertEqual(len(steps), 2)
        return result, steps

    def test_gsm8k_with_an_adapter(self):
        rows = [{"question": f"Ann has {a} pens and finds {a + 1} more. How many?", "answer": f"{a} + {a + 1} = {2 * a + 1}\n#### {2 * a + 1}"}
                for a in range(2, 10)]
        data = self.folder / "train.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        result, _ = self.train("smollm2_gsm8k.yaml", *SMALL, f"data.files=[{data}]", f"data.eval_files=[{data}]", "eval.prompts=2",
                                   "train.prompts_per_step=2", "train.sequences_per_update=16", "rollout.max_batches=1")
        self.assertIn("read as: question and answer", result.stdout)
        self.assertTrue((self.folder / "run" / "checkpoints" / "step-000002" / "adapter").is_dir())

    def test_a_data_set_and_rewards_of_trl(self):
        result, _ = self.train("trl_reward/config.yaml", *SMALL)
        self.assertIn("1 x python:rewards.py:answer_reward + 0.2 x python:rewards.py:form_reward", result.stdout)

    def test_sft_on_custom_rows_and_then_rl(self):
        result, _ = self.train("sft_then_rl/config.yaml", *SMALL, "sft.data_epochs=0.5", "sft.eval_every=2", "eval.prompts=2", "train.prompts_per_step=2")
        self.assertIn("read as: a conversation, from messages", result.stdout)
        self.assertIn("1 x numeric + 0.2 x tags:think,answer", result.stdout)
        rows = support.metrics(self.folder / "run")
        self.assertGreaterEqual(sum(row["phase"] == "sft" for row in rows), 3)
        self.assertGreaterEqual(sum("sft/eval_loss" in row for row in rows), 2)

    def test_a_parquet_file_and_a_score_of_verl(self):
        made = subprocess.run([PYTHON, "make_data.py", "train.parquet"], cwd=self.place / "verl_parquet")
        if made.returncode != 0:
            self.skipTest("pyarrow is not there")
        folder = self.place / "verl_parquet"
        self.assert_exit(support.keel("import", "config.yaml", "-o", "keel.yaml", cwd=folder), 0)
        result, _ = self.train("verl_parquet/keel.yaml", "train.steps=2", "rollout.max_new_tokens=6", "model.random_weights=true")
        self.assertIn("read as: verl", result.stdout)
        self.assertIn("method      ppo", result.stdout)

    def test_problems_and_scorers_of_reasoning_gym(self):
        folder = packages.PEERS / "reasoning-gym"
        if not packages.is_there("reasoning-gym"):
            self.skipTest("reasoning-gym is missing; scripts/bootstrap.sh --tests installs it where it is available")
        environment = support.environment(PYTHONPATH=str(folder), PYTHONWARNINGS="ignore")
        for name, count, seed in (("train.jsonl", 12, 0), ("test.jsonl", 6, 1)):
            subprocess.run([PYTHON, "problems.py", name, str(count), str(seed)], cwd=self.place / "reasoning_gym", env=environment, check=True)
        rows = [json.loads(line) for line in (self.place / "reasoning_gym" / "train.jsonl").read_text().splitlines()]
        right = "".join(json.dumps({**row, "completion": [{"role": "assistant", "content": f"<answer>{row['answer']}</answer>"}]}) + "\n" for row in rows)
        wrong = right.replace("<answer>", "")
        for completions, reward in ((right, 1), (wrong, 0)):  # tests the scorers directly: a tiny network gets no reward from them
            (self.place / "reasoning_gym" / "completions.jsonl").write_text(completions)
            result = support.keel("reward", "completions.jsonl", 'reward.functions=["python:problems.py:reward"]', f"reward.python={PYTHON}",
                                  "reward.workers=1", cwd=self.place / "reasoning_gym", env=environment)
            self.assert_exit(result, 0)
            self.assertEqual([json.loads(line)["reward"] for line in result.stdout.splitlines()], [reward] * 12)
        result, _ = self.train("reasoning_gym/config.yaml", *SMALL, f"reward.python={PYTHON}", "reward.workers=1",
                               "train.prompts_per_step=2", env=environment)
        self.assertIn("1 x python:problems.py:reward", result.stdout)

    def test_rewards_of_a_server(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([PYTHON, "server.py", str(port)], cwd=self.place / "http_reward")
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

        def answers():
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        self.assertTrue(support.wait_for(server, answers))
        _, steps = self.train("http_reward/config.yaml", *SMALL, f"reward.functions=[http://127.0.0.1:{port}/score]")
        self.assertGreater(steps[0]["reward/mean"], 0)

    def test_a_custom_training_loop(self):
        result = subprocess.run([PYTHON, EXAMPLES / "policy_loss_loop.py", "--steps", "25"], stdout=subprocess.PIPE, text=True,
                                env=support.environment(PYTHONPATH=str(pathlib.Path(support.KEEL).parent / "python")))
        self.assertEqual(result.returncode, 0)
        first, last = result.stdout.splitlines()
        self.assertRegex(first, r"^step 25: reward 0\.\d\d$")
        self.assertGreater(float(last.split()[2]), 0.4, result.stdout)  # 0.3 at first


if __name__ == "__main__":
    support.main()
