"""A signal stops what has nothing to save soon, with the exit code for it, and leaves what is whole."""

import json
import signal
import subprocess

import support

# Ends its first calls at once; the one that it is told to be slow on never ends by itself.
SLOW = '''
import pathlib, time
def reward(prompts, completions, **columns):
    if "slow" in prompts[0]:
        pathlib.Path("MARK").touch()
        time.sleep(1000)
    return [1.0] * len(completions)
'''


class Interrupt(support.Test):
    def setUp(self):
        super().setUp()
        self.mark = self.folder / "mark"
        self.reward = self.folder / "slow.py"
        self.reward.write_text(SLOW.replace("MARK", str(self.mark)))

    def interrupted(self, number, *arguments):
        """The program, sent the signal when the slow call has begun; the test's time limit is its patience."""
        self.mark.unlink(missing_ok=True)
        process = subprocess.Popen([support.KEEL, *map(str, arguments)], env=support.environment(), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertTrue(support.wait_for(process, self.mark.exists), "it ended by itself")
        process.send_signal(number)
        process.output, process.errors = process.communicate(timeout=60)
        return process

    def test_rewards_that_were_given_are_printed(self):
        rows = [{"prompt": f"p{i}" if i < 3 else "slow", "completion": "c", "answer": "1"} for i in range(6)]
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.interrupted(number, "reward", path, f'reward.functions=["python:{self.reward}"]',
                                       "reward.workers=1", "reward.timeout=500")
            self.assertEqual(process.returncode, 75, process.errors)
            printed = [json.loads(line) for line in process.output.splitlines()]
            self.assertEqual([(row["prompt"], row["reward"]) for row in printed], [("p0", 1), ("p1", 1), ("p2", 1)])

    def test_an_evaluation_writes_nothing(self):
        start = support.train(self.folder / "start", train={"steps": 0}, sft={"steps": 5, "noisy_steps": 1},
                              eval={"prompts": 0}, model={"hidden_size": 16, "heads": 2})
        self.assert_exit(start, 0)
        data = self.folder / "data.jsonl"
        data.write_text("".join(json.dumps({"prompt": "<bos> 1 =", "answer": "1"}) + "\n" for _ in range(6)))
        self.reward.write_text(self.reward.read_text().replace('"slow" in prompts[0]', "True"))
        samples = self.folder / "samples.jsonl"
        process = self.interrupted(signal.SIGTERM, "eval", support.QUICKSTART, "--samples", samples, "--model",
                                   self.folder / "start" / "checkpoints" / support.checkpoints(self.folder / "start")[-1],
                                   f'data.eval_files=["{data}"]', f'reward.functions=["python:{self.reward}"]',
                                   "rollout.max_new_tokens=8", "reward.timeout=500", "sft.steps=0", "run.threads=1")
        self.assertEqual(process.returncode, 75, process.errors)
        self.assertEqual(process.output, "")
        self.assertFalse(samples.exists())


if __name__ == "__main__":
    support.main()
