"""A custom model folder, data file and reward function for tests."""

import json
import pathlib
import shutil
import tempfile

import support

REWARD = '''
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return len(solution_str.split()) / 10 + extra_info["bonus"]
'''


class Test(support.Test):
    @classmethod
    def setUpClass(cls):
        """Creates the model; every test gets a copy."""
        folder = tempfile.TemporaryDirectory(prefix="keel_cli_")
        cls.addClassCleanup(folder.cleanup)
        start = pathlib.Path(folder.name) / "start"
        result = support.train(start, train={"steps": 0}, sft={"steps": 5, "noisy_steps": 1}, eval={"prompts": 0},
                               model={"hidden_size": 16, "heads": 2})
        assert result.returncode == 0, result.stderr
        cls.start = start / "checkpoints" / support.checkpoints(start)[-1]

    def setUp(self):
        super().setUp()
        self.model = shutil.copytree(self.start, self.folder / "start")
        rows = [{"data_source": "sums", "prompt": f"<bos> {a} + {b} =", "ability": "math",
                 "reward_model": {"style": "rule", "ground_truth": str((a + b) % 5)}, "extra_info": {"bonus": a}}
                for a in range(5) for b in range(4)]
        self.data = self.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        self.reward = self.write("reward.py", REWARD)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def configuration(self, run, **more):
        values = {"model": {"path": str(self.model)}, "run": {"dir": str(self.folder / run), "threads": 1},
                  "data": {"files": [str(self.data)], "eval_files": [str(self.data)]},
                  "reward": {"functions": [f"python:{self.reward}:compute_score"]},
                  "rollout": {"samples_per_prompt": 2, "max_new_tokens": 8}, "objective": {"method": "dppo_tv"},
                  "train": {"steps": 4, "prompts_per_step": 3}, "eval": {"prompts": 6}, "checkpoint": {"every": 1},
                  "optimizer": {"lr": 0.01}, "record": {"samples_per_step": 6}}
        for section, keys in more.items():
            values.setdefault(section, {}).update(keys)
        return self.write(f"{run}.json", json.dumps(values))

    def train(self, run, *flags, **more):
        return support.keel("train", self.configuration(run, **more), *flags)

    def evaluate(self, *flags, **more):
        """keel eval of the model before training on the rows, with every completion; the result also has its metrics and samples."""
        samples = self.folder / "samples.jsonl"
        samples.unlink(missing_ok=True)
        more.setdefault("data", {}).setdefault("files", [])
        if "--model" not in flags:
            flags = (f"model.path={more.get('model', {}).get('path', self.model)}", *flags)
        result = support.keel("eval", self.configuration("run", **more), "--json", "--samples", samples, *flags)
        result.numbers = json.loads(result.stdout) if result.stdout else None
        result.samples = support.read_jsonl(samples) if samples.exists() else None
        return result
