"""The reward functions of TRL give the same values in `keel reward` as in Python.

Needs the peers trl and math-verify (packages.py).
"""

import importlib.util
import json
import os
import random
import sys

from packages import ROOT, folder_of, use

sys.path.insert(0, str(ROOT / "tests" / "cli"))
import support  # noqa: E402

use("trl", "math-verify")

# How users use them: an import, or a call that creates one.
FILE = '''
from trl.rewards import accuracy_reward, reasoning_accuracy_reward, think_format_reward
from trl.rewards import get_cosine_scaled_reward, get_repetition_penalty_reward, get_soft_overlong_punishment

soft_overlong_punishment = get_soft_overlong_punishment(max_completion_len=20, soft_punish_cache=10)
repetition_penalty = get_repetition_penalty_reward(ngram_size=2, max_penalty=-1.0)
cosine_scaled_reward = get_cosine_scaled_reward(max_len=30)
reward = soft_overlong_punishment
'''
PLAIN = ("think_format_reward", "soft_overlong_punishment", "repetition_penalty")
JUDGES = ("accuracy_reward", "reasoning_accuracy_reward", "cosine_scaled_reward")


def rows(count):
    draw = random.Random(11)
    result = []
    for i in range(count):
        gold, given = draw.choice(["\\frac{1}{3}", "7", "x+1"]), draw.choice(["\\frac{1}{3}", "7", "x+1", "\\frac{2}{6}"])
        form = draw.choice(["<think>\nhm\n</think>\nMy answer is \\boxed{%s}", "\\boxed{%s}", "<think>\nno %s"])
        result.append({"prompt": [{"role": "user", "content": f"Problem {i}"}], "completion": form % given,
                       "solution": f"${gold}$" if draw.random() < 0.9 else "", "answer": gold,
                       "completion_ids": [draw.randrange(4) for _ in range(draw.randrange(30))]})
    return result


class TrlRewards(support.Test):
    def reward(self, data, function, code=0):
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in data), encoding="utf-8")
        result = support.keel("reward", path, f"reward.python={sys.executable}", "reward.workers=1",
                              f"reward.functions={json.dumps([function])}",
                              *(["data.answer_key=solution"] if "solution" in data[0] else []))
        self.assert_exit(result, code)
        return [json.loads(line)["reward"] for line in result.stdout.splitlines()] if code == 0 else result

    def write(self):
        path = self.folder / "trl_functions.py"
        path.write_text(FILE)
        os.environ["PYTHONPATH"] = os.pathsep.join(str(folder_of(peer)) for peer in ("trl", "math-verify"))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return path, module

    def test_each_gives_what_it_gives_in_python(self):
        (path, module), data = self.write(), rows(60)
        columns = {"prompts": [row["prompt"] for row in data],
                   "completions": [[{"role": "assistant", "content": row["completion"]}] for row in data],
                   "completion_ids": [row["completion_ids"] for row in data], "solution": [row["solution"] for row in data]}
        for name in PLAIN + JUDGES:
            want = getattr(module, name)(**columns)
            self.assertGreater(len(set(want)), 1, name)
            self.assertEqual(self.reward(data, f"python:{path}:{name}"), want, name)
        self.assertEqual(self.reward(data, f"python:{path}"), module.reward(**columns))
        self.assertIn(None, module.accuracy_reward(**columns))

    def test_tokens_that_are_missing_are_asked_for(self):
        path, _ = self.write()
        result = self.reward([{"prompt": "p", "completion": "c"}], f"python:{path}:soft_overlong_punishment", code=5)
        self.assertIn("column completion_ids", result.stderr)


if __name__ == "__main__":
    support.main()
