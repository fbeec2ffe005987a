"""Helpers of the crash tests: a trial's folder, random numbers and observations; runs to disturb. A kind is a function of a folder for
its preparations and a count; it returns a list of trials. A trial is a function of a Trial: it records each disturbance, and raises
AssertionError if the program reacts wrongly."""

import collections
import json
import pathlib
import random
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import support  # noqa: E402 (it lies with the other tests of the program)

# A run of two seconds: 6 supervised steps, 8 RL steps with a reference KL and staleness 1, and a background checkpoint
# after each step. See support.SMALL for how it learns.
RUN = {"sft": {"steps": 6, "noisy_steps": 2}, "train": {"steps": 8}, "eval": {"every": 3, "prompts": 20},
       "checkpoint": {"every": 1, "keep": 2, "background": "true"}, "reference": {"kl_coefficient": 0.05},
       "record": {"samples_per_step": 2, "tensorboard": "true"}, "rollout": {"staleness": 1}}


def compute_with(device, precision):
    """Changes RUN to this device and precision; on a GPU sums have a fixed order, so that bits can be compared."""
    chosen = {"device": device, "precision": precision}
    if device != "cpu":
        chosen["deterministic"] = "true"
    RUN["run"] = chosen


# A run whose inputs are outside its folder: a model, an adapter on it, and data files.
OWN = {"lora": {"rank": 2}, "rollout": {"samples_per_prompt": 4, "max_new_tokens": 8}, "reward": {"functions": ["length:10"]},
       "optimizer": {"lr": 0.01}, "objective": {"method": "dppo_tv"}, "train": {"prompts_per_step": 4}, "eval": {"prompts": 0},
       "checkpoint": {"every": 1, "keep": 2}, "run": {"threads": 1}}
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


class Skipped(Exception):
    """A kind cannot run on this machine; the text has the reason."""


class Trial:
    def __init__(self, folder, seed):
        self.folder = pathlib.Path(folder)
        self.draws = random.Random(seed)
        self.seen = collections.Counter()  # {observation: count} of the disturbances and reactions
        self.seconds = 0.0  # the longest wait for the program to stop

    def waited(self, seconds):
        self.seconds = max(self.seconds, seconds)


def require(condition, *words):
    if not condition:
        raise AssertionError(" ".join(map(str, words)))


def output(result):
    return f"code {result.returncode}\n{result.stdout[-400:]}{result.stderr[-1500:]}"


def unbroken(folder, **sections):
    """An undisturbed run to compare with."""
    result = support.train(folder, **(sections or RUN))
    require(result.returncode == 0, "the unbroken run:", output(result))
    return folder


def own_configuration(folder, model, rows):
    """Copies a model and `rows` data rows into a folder; returns the configuration of a run on them."""
    (folder / "model").mkdir()
    for name in MODEL_FILES:
        shutil.copy(model / name, folder / "model")
    for name, values in (("rows", range(rows)), ("held_out", range(rows, rows + 4))):
        text = "".join(json.dumps({"prompt": f"<bos> {i % 5} + {i // 5} =", "answer": str(i % 5)}) + "\n" for i in values)
        (folder / f"{name}.jsonl").write_text(text)
    data = {"files": [str(folder / "rows.jsonl")], "eval_files": [str(folder / "held_out.jsonl")]}
    config = folder / "own.json"
    config.write_text(json.dumps({**OWN, "model": {"path": str(folder / "model")}, "data": data}))
    return config


def stopped(run, steps, *arguments, most=None):
    """Starts a run and stops it after at least `steps` RL steps, and before `most`."""
    def done():
        return read(run / "metrics.jsonl").count(b'"phase":"rl"')

    for _ in range(20):  # the run may have ended or be further before the signal arrives
        shutil.rmtree(run, ignore_errors=True)
        process = support.start(f"{run}.output", "train", *arguments, f"run.dir={run}")
        support.wait_for(process, lambda: done() >= steps)
        process.send_signal(signal.SIGTERM)
        if process.wait() == 75 and done() <= (most or done()):
            break
    require(process.returncode == 75 and done() <= (most or done()), "expected an interrupted run:", process.output.read_text())
    process.output.unlink()
    return run


def read(path):
    """The bytes of a file that may be missing."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def newest(run):
    """The name of the newest finished checkpoint, or ""."""
    return (support.checkpoints(run) or [""])[-1]


def require_sound(run):
    """Checks all finished checkpoints with an independent implementation of the checksum."""
    for name in support.checkpoints(run):
        try:
            support.verify_checkpoint(pathlib.Path(run) / "checkpoints" / name)
        except (OSError, ValueError) as error:
            raise AssertionError(f"{name} has a checkpoint's name and is not whole: {error}") from None


def require_finished(run, whole):
    """Checks that the run equals the undisturbed one bit for bit and left no partial files."""
    difference = support.difference(run, whole)
    require(difference is None, difference)
    left = [path.name for path in run.rglob("*") if path.name.endswith((".partial", ".replaced"))]
    require(not left, "left behind:", left)
    require((run / "checkpoints" / "LATEST").read_text() == newest(run) + "\n", "LATEST is not the newest checkpoint")
    require((run / "report.html").exists(), "no report.html")
    require_sound(run)


def resume_flag(run):
    """The flag to start the run again: a run without a checkpoint is restarted."""
    return "--resume" if newest(run) else "--overwrite"


def spread(items, count):
    """`count` items, evenly spread over the list; all if the list is shorter or without a count."""
    if not count or count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]
