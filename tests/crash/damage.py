"""Damaged files: a flipped bit, or a file that is truncated, removed, zeroed or duplicated. A resumed run or a loaded checkpoint must
reject the damaged file by name, or print which older checkpoint it uses instead and reach the same bits. Damage without any effect is
harmless: a hint that is rewritten, a comment, a log that is never read. Accepted damage that changes a result is a failure."""

import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import tempfile

import trials
from trials import require, support

class Scene:
    """The inputs of a command in a folder. Configurations have absolute paths, so inputs are damaged in place and restored
    from a copy. `whole` is the result without damage."""

    def __init__(self, folder):
        self.folder = folder
        self.sound, self.whole = folder.with_suffix(".sound"), folder.with_suffix(".whole")
        folder.mkdir()
        self.make()
        shutil.copytree(folder, self.sound)
        self.expected = self.command()
        require(self.expected.returncode == 0, trials.output(self.expected))
        folder.rename(self.whole)

    def restore(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.sound, self.folder)

    def try_damage(self, name, damage):
        """Damages one file and checks the reaction; returns its kind."""
        self.restore()
        what = damage(self.folder / name)
        before = support.tree(self.folder)
        result = self.command()
        try:
            if result.returncode in (2, 3):
                require(re.match(r"(device: .*\n)?keel: ", result.stderr) and "internal error" not in result.stderr, "no message")
                require(self.is_named(name, result.stderr), "refused, but the file is not named")
                require(support.tree(self.folder) == before, "refused, but something was changed")
                return "refused"
            return self.judge(name, result)
        except AssertionError as error:
            raise AssertionError(f"{self.folder.name}: {name}, {what}: {error}\n{trials.output(result)}") from None

    def is_named(self, name, output):
        return os.path.basename(name) in output


class Loaded(Scene):
    """Sampling from a checkpoint, as from any model folder."""

    NOT_READ = ("manifest.json", "optimizer.safetensors", "state.json")

    def __init__(self, folder, checkpoint):
        self.checkpoint = checkpoint
        super().__init__(folder)

    def make(self):
        shutil.copytree(self.checkpoint, self.folder / "model")

    def files(self):
        return [f"model/{path.name}" for path in sorted((self.sound / "model").iterdir()) if path.is_file()]

    def command(self):
        return support.keel("generate", "--model", self.folder / "model", "--prompt", "<bos> 1 + 1 =", "--json", "-n", "2",
                            "--seed", "3", "--max-new-tokens", "12", "--threads", "1")

    def judge(self, name, result):
        require(result.returncode == 0, "expected 0 or 3")
        require(result.stdout == self.expected.stdout, "accepted without a word, and the completions are others")
        require(os.path.basename(name) in self.NOT_READ, "accepted without a word")
        return "harmless"


class Resumed(Scene):
    """A stopped run, resumed with its own configuration."""

    OTHER_FILES = {}  # files outside the run's folder, with their settings

    def arguments(self):
        return [support.QUICKSTART, *support.settings(**trials.RUN)]

    def make(self):
        self.run = trials.stopped(self.folder / "run", 3, *self.arguments())
        require(len(support.checkpoints(self.run)) == 2, "expected two checkpoints in", self.run)

    def files(self):
        run = self.sound / "run"
        folders = ["", "checkpoints/", f"checkpoints/{trials.newest(run)}/", "reference/"]
        folders.append(folders[2] + "adapter/")
        found = [f"run/{folder}{path.name}" for folder in folders if (run / folder).exists()
                 for path in sorted((run / folder).iterdir()) if path.is_file() and path.stat().st_size > 0]
        return [*found, *self.OTHER_FILES]

    def command(self):
        return support.keel("train", self.run / "config.yaml", "--resume", cwd=self.folder)

    def is_named(self, name, output):
        if name == "run/config.yaml":  # named by file and line, or by the setting
            return "config.yaml" in output or re.search(r"\b[a-z]+\.[a-z_]+: ", output)
        return super().is_named(name, output) or name in self.OTHER_FILES and self.OTHER_FILES[name] in output

    def judge(self, name, result):
        output = result.stdout + result.stderr
        if name == "run/config.yaml" and re.search(r": .* then, .* now", output):
            return "said"  # a setting that a resumed run may change; its result is not compared
        require(result.returncode == 0, "expected 0, 2 or 3")
        difference = self.difference()
        if "is damaged (" in output and self.is_named(name, output):
            require(difference is None, "an older checkpoint was taken, but", difference)
            return "an older checkpoint"
        require(difference is None, "accepted without a word, and", difference)
        if name in ("run/metrics.jsonl", "run/samples.jsonl"):  # measured times are not compared above
            recorded = (self.sound / name).read_bytes()
            require((self.folder / name).read_bytes().startswith(recorded), "accepted without a word, and not as recorded")
        return "harmless"

    def difference(self):
        """The difference between the result and the expected one, or None."""
        whole = self.whole / "run"
        try:
            difference = support.difference(self.run, whole)
        except ValueError as error:
            return f"rows that cannot be read: {error}"
        last = pathlib.Path("checkpoints", trials.newest(whole))
        for path in sorted((whole / last).rglob("*")):
            mine = self.run / path.relative_to(whole)
            if path.is_file() and path.name not in ("manifest.json", "state.json") and not difference:
                difference = None if mine.read_bytes() == path.read_bytes() else f"{path.name} differs"
        states = [json.loads((run / last / "state.json").read_text())["state"] for run in (self.run, whole)]
        return difference or (None if states[0] == states[1] else f"state.json says {states[0]}, expected {states[1]}")


class ResumedOwn(Resumed):
    """With a custom model, adapter and data."""

    OTHER_FILES = {**{f"model/{name}": "model.path" for name in trials.MODEL_FILES}, "rows.jsonl": "data.files",
                   "held_out.jsonl": "data.eval_files"}

    def __init__(self, folder, model):
        self.model = model
        super().__init__(folder)

    def arguments(self):
        return [self.config, "train.steps=8", "eval.prompts=4", "eval.every=3"]

    def make(self):
        self.config = trials.own_configuration(self.folder, self.model, rows=16)
        super().make()
        self.config.unlink()


class Slots:
    """A set of scenes per worker process; slots_in() creates the first one once for all kinds of damage."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder, self.scenes = folder, {}  # by process id
        self.names = [(i, name) for i, scene in enumerate(self.mine()) for name in scene.files()]

    def mine(self):
        if os.getpid() not in self.scenes:
            self.scenes[os.getpid()] = self.make()
        return self.scenes[os.getpid()]

    def make(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="slot", dir=self.folder))
        run = Resumed(folder / "task")
        model = run.whole / "run" / "checkpoints" / trials.newest(run.whole / "run")
        return run, ResumedOwn(folder / "own", model), Loaded(folder / "load", model)

    def trial_of(self, scene, name, damage):
        def trial_damage(trial):
            mine = self.mine()[scene]
            # Slots differ in the step where the run was stopped.
            here = dict(zip((n for i, n in self.names if i == scene), mine.files()))[name]
            trial.seen[mine.try_damage(here, lambda path: damage(path, trial.draws))] += 1
        return trial_damage


slots_in = functools.lru_cache(Slots)


def flip(path, draws):
    data = bytearray(path.read_bytes())
    byte, bit = draws.randrange(len(data)), draws.randrange(8)
    data[byte] ^= 1 << bit
    path.write_bytes(data)
    return f"byte {byte} bit {bit}: {bytes(data[max(0, byte - 20):byte + 20])!r}"


def cut(path, draws):
    data = path.read_bytes()
    size = draws.randrange(len(data))
    path.write_bytes(data[:size])
    return f"cut from {len(data)} to {size} bytes"


def delete(path, draws):
    path.unlink()
    return "deleted"


def blank(path, draws):
    path.write_bytes(bytes(path.stat().st_size))
    return "zeros"


def double(path, draws):
    path.write_bytes(path.read_bytes() * 2)
    return "twice"


def damages(folder, count, *ways):
    """All files in turn, for an even distribution."""
    slots = slots_in(folder.parent / "scenes")
    places = trials.spread([(*name, way) for way in ways for name in slots.names], count)
    return [slots.trial_of(*place) for place in itertools.islice(itertools.cycle(places), count or len(places))]


def flips(folder, count):
    return damages(folder, count, flip)


def truncations(folder, count):
    return damages(folder, count, cut)


def losses(folder, count):
    return damages(folder, count, delete, blank, double)
