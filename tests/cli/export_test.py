"""TensorBoard event files through kills and resumptions, `keel export`, and the bridge to experiment trackers, tested with a package
that only logs its calls. tests/parity/charts_test.py checks that the real tools read the files."""

import csv
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import support
from support import keel, read_jsonl, train

CHARTS = {"record": {"tensorboard": "true"}}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def fields(data):
    """Number and value of each field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            length, at = {1: (8, at), 5: (4, at)}.get(key & 7) or varint(data, at)
            value, at = data[at:at + length], at + length
        yield key >> 3, value


def masked(data):
    crc = int(support.crc32c(data), 16)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


NUMBER, HISTOGRAM, TEXT = 2, 5, 8  # fields of a value


def events(run, kind=NUMBER):
    """The (step, name) of every scalar, or of every other value, in the single event file of a run; skips a partial last record."""
    (file,) = [file for file in (run / "tensorboard").iterdir() if file.stat().st_size]
    data, at, found = file.read_bytes(), 0, []
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        record = data[at + 12:at + 12 + length]
        if at + length + 16 > len(data):
            break
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at:at + 8])
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(record)
        event = dict(fields(record))
        for _, value in fields(event.get(5, b"")):
            value = dict(fields(value))
            if kind in value:
                found.append((event[2], value[1].decode()))
        at += length + 16
    return found


def rows_as_events(run):
    found = []
    for row in read_jsonl(run / "metrics.jsonl"):
        for name in sorted(row):
            number = isinstance(row[name], (int, float)) and not isinstance(row[name], bool)
            if number and name not in ("step", "time/clock") and (row["step"], name) not in found:
                found.append((row["step"], name))
    return found


def details_as_events(run):
    """The same for histograms and texts."""
    rows, samples = read_jsonl(run / "metrics.jsonl"), read_jsonl(run / "samples.jsonl")
    histograms = [(row["step"], name) for row in rows for name in ("ratio/histogram", "trust_region/divergence_histogram") if name in row]
    texts = {(0, "config/text_summary")} | {(row["step"], f"samples/{row['phase']}/text_summary") for row in samples}
    return histograms, texts | {(row["step"], "trust_region/blocked_tokens/text_summary") for row in rows if "trust_region/blocked_tokens" in row}


class EventFile(support.Test):
    def test_equals_the_rows_after_a_kill_and_a_resumption(self):
        run = self.folder / "run"
        long = {**CHARTS, "train": {"steps": 100000}, "checkpoint": {"every": 3}}
        process = support.start_train(run, **long)
        try:
            self.assertTrue(support.wait_for(process, lambda: len(support.checkpoints(run)) > 1 and
                                             (run / "metrics.jsonl").read_bytes().count(b'"rl"') > 7))
        finally:
            process.kill()
            process.wait()
        (file,) = (run / "tensorboard").iterdir()
        file.write_bytes(file.read_bytes() + b"\x99" * 7)  # a partial record, as after a kill during a write
        self.assertGreaterEqual(len(events(run)), len(rows_as_events(run)) - 60)  # the last row may be in only one of the two files
        last = read_jsonl(run / "metrics.jsonl")[-1]["step"]
        steps = {"train": {"steps": last + 2 - 8}}
        self.assert_exit(train(run, "--resume", **{**long, **steps}), 0)
        self.assertEqual(events(run), rows_as_events(run))
        histograms, texts = details_as_events(run)
        self.assertEqual(events(run, HISTOGRAM), histograms)
        self.assertEqual(len(events(run, TEXT)), len(texts))  # no duplicates
        self.assertEqual(set(events(run, TEXT)), texts)
        self.assertEqual(file.stat().st_size, 0)  # an open TensorBoard continues from there

    def test_contains_all_rows_if_enabled_later_and_stays_if_disabled(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        self.assertFalse((run / "tensorboard").exists())
        self.assert_exit(train(run, "--resume", train={"steps": 2}, **CHARTS), 0)
        self.assertEqual(events(run), rows_as_events(run))
        before = support.tree(run / "tensorboard")
        self.assert_exit(train(run, "--resume", train={"steps": 3}), 0)
        self.assertEqual(support.tree(run / "tensorboard"), before)

    def test_moves_with_its_run_and_keeps_files_of_others(self):
        run = self.folder / "run"
        short = {"train": {"steps": 1}, "sft": {"steps": 1, "noisy_steps": 0}, "eval": {"prompts": 0}}
        self.assert_exit(train(run, **short, **CHARTS), 0)
        (own,) = os.listdir(run / "tensorboard")
        (run / "tensorboard" / "notes").write_text("mine")
        self.assert_exit(train(run, "--overwrite", **short), 0)
        self.assertEqual(os.listdir(run / "tensorboard"), ["notes"])
        shutil.rmtree(run / "tensorboard")
        (run / "tensorboard").write_text("mine")
        self.assert_exit(train(run, "--overwrite", **short, **CHARTS), 0)
        self.assertEqual((run / "tensorboard.other").read_text(), "mine")
        self.assertEqual(events(run), rows_as_events(run))

    def test_leaves_those_of_other_runs_in_a_shared_folder(self):
        shared, first, second = (self.folder / name for name in ("shared", "first", "second"))
        shared.mkdir()

        def resume(run, steps):
            self.assert_exit(train(run, *(["--resume"] if run.exists() else []), train={"steps": steps},
                                   sft={"steps": 1, "noisy_steps": 0}, eval={"prompts": 0}, **(CHARTS if steps > 1 else {})), 0)
            return {name: text for name, text in support.tree(shared).items() if text}

        for run in (first, second):
            resume(run, 1)
            (run / "tensorboard").symlink_to(shared)
            before = resume(run, 2)
        after = resume(second, 3)
        ids = [json.loads((run / "used.json").read_text())["run.id"] for run in (first, second)]
        self.assertEqual(sorted(name.split(".")[-2] for name in after), sorted(ids))
        self.assertEqual(*({name: text for name, text in files.items() if ids[0] in name} for files in (before, after)))

    def test_a_full_disk_stops_the_run_and_names_the_file(self):
        first, run = self.folder / "first", self.folder / "run"
        sft_only = {"sft": {"steps": 100, "noisy_steps": 0}, "train": {"steps": 0}, "eval": {"prompts": 0}, "checkpoint": {"every": 1000}}
        self.assert_exit(train(first, **{**sft_only, "sft": {"steps": 1, "noisy_steps": 0}}), 0)
        # The first files fit; the event file, which contains the configuration, is the first to exceed the limit.
        limit = max((first / name).stat().st_size for name in ("config.yaml", "used.json")) + 2000
        result = train(run, prefix=["prlimit", f"--fsize={limit}"], **sft_only, **CHARTS)
        self.assert_refused(result, 4, f'append to "{run}/tensorboard/events.out.tfevents.', "File too large")
        self.assertEqual(events(run), rows_as_events(run)[:len(events(run))])


class Export(support.Test):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="keel_cli_")
        cls.addClassCleanup(folder.cleanup)
        cls.trained = pathlib.Path(folder.name) / "run"
        result = train(cls.trained, train={"steps": 2})
        assert result.returncode == 0, result.stderr

    def test_prints_the_next_command(self):
        result = keel("export", self.trained, "--tensorboard", self.folder / "a b")
        self.assert_exit(result, 0)
        self.assertIn(f"view it with: tensorboard --logdir '{self.folder}/a b'\n", result.stdout)

    def test_a_table_has_only_the_named_metrics(self):
        table = self.folder / "run.csv"
        self.assert_exit(keel("export", self.trained, "--csv", table, "--metric", "reward/mean", "--metric", "policy/entropy"), 0)
        with open(table, newline="") as lines:
            rows = list(csv.DictReader(lines))
        wanted = [row for row in read_jsonl(self.trained / "metrics.jsonl") if row["phase"] == "rl"]
        self.assertEqual(list(rows[0]), ["step", "phase", "policy/entropy", "reward/mean", "time/clock"])
        self.assertEqual([(int(row["step"]), row["phase"], float(row["reward/mean"]), float(row["policy/entropy"])) for row in rows],
                         [(row["step"], "rl", row["reward/mean"], row["policy/entropy"]) for row in wanted])

    def test_a_table_on_standard_output(self):
        table = self.folder / "run.csv"
        self.assert_exit(keel("export", self.trained, "--csv", table), 0)
        result = keel("export", self.trained, "--csv", "-", "--tensorboard", self.folder / "tb", cwd=self.folder)
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout.replace("\r\n", "\n"), table.read_text())
        self.assertIn("tensorboard --logdir", result.stderr)
        self.assertFalse((self.folder / "-").exists())

    def test_of_two_runs_in_one_folder_each_replaces_its_own(self):
        other, place = self.folder / "other", self.folder / "tb"
        self.assert_exit(train(other, train={"steps": 1}), 0)
        self.assert_exit(keel("export", self.trained, "--tensorboard", place), 0)
        before = support.tree(place)
        result = keel("export", other, "--tensorboard", place, "--overwrite")
        self.assert_refused(result, 2, str(place), "of another run", "Choose another folder")
        self.assertEqual(support.tree(place), before)

    def test_bad_input_is_named(self):
        table = self.folder / "run.csv"
        self.assert_refused(keel("export", self.trained), 2, "--csv FILE", "--tensorboard DIR", "--wandb DIR", "--mlflow DIR")
        self.assert_refused(keel("export", self.folder / "none", "--csv", table), 3, "none", "not a run folder")
        (self.folder / "new").mkdir()
        (self.folder / "new" / "metrics.jsonl").write_text("")
        self.assert_refused(keel("export", self.folder / "new", "--csv", table), 3, "metrics.jsonl", "no rows yet")
        self.assert_refused(keel("export", self.trained, "--csv", table, "--metric", "reward/man"), 2, "reward/man", "did you mean reward/mean?")
        self.assert_refused(keel("export", self.trained, "--csv", self.folder / "no" / "run.csv"), 2, str(self.folder / "no"))
        self.assertFalse(table.exists())
        table.write_text("mine")
        self.assert_refused(keel("export", self.trained, "--csv", table), 2, str(table), "exists already", "--overwrite")
        self.assertEqual(table.read_text(), "mine")
        (self.folder / "link.csv").symlink_to("nothing")
        self.assert_refused(keel("export", self.trained, "--csv", self.folder / "link.csv"), 2, "link.csv", "exists")
        self.assertTrue((self.folder / "link.csv").is_symlink())
        self.assert_exit(keel("export", self.trained, "--csv", table, "--overwrite"), 0)
        for name in ("metrics.jsonl", "tensorboard/mine.csv", "checkpoints/LATEST"):
            self.assert_refused(keel("export", self.trained, "--csv", self.trained / name, "--overwrite"), 2, name, "belongs to a run")
        place = self.folder / "events"
        self.assert_exit(keel("export", self.trained, "--tensorboard", place), 0)
        before = support.tree(place)
        self.assert_refused(keel("export", self.trained, "--tensorboard", place), 2, str(place), "--overwrite")
        self.assertEqual(support.tree(place), before)
        self.assert_exit(keel("export", self.trained, "--tensorboard", place, "--overwrite"), 0)
        sizes = [sum(1 for text in files.values() if text) for files in (support.tree(place), before)]
        self.assertEqual(*sizes)
        for target in ("--tensorboard", "--wandb", "--mlflow"):
            self.assert_refused(keel("export", self.trained, target, table), 2, str(table))

    def test_changed_rows_are_reported(self):
        run = shutil.copytree(self.trained, self.folder / "run")
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        lines[2] = lines[2].replace('"step":3', '"step":7')
        (run / "metrics.jsonl").write_text("".join(lines))
        result = keel("export", run, "--csv", self.folder / "run.csv")
        self.assert_exit(result, 0)
        self.assertIn("the rows are exported as they are now", result.stdout)
        self.assertIn("line 3 was changed", result.stdout)


PACKAGE = """
import json, os
CALLS = open(os.environ["CALLS"], "a")
if "IMPORT_ERROR" in os.environ: raise ImportError(os.environ["IMPORT_ERROR"])
def note(**call): print(json.dumps(call), file=CALLS, flush=True)
def init(**named):
    note(group=named["group"], settings=named["config"])
    return Run()
class Settings:
    def __init__(self, **_): pass
class Run:
    offline, dir = True, "/none/files"
    def log(self, values, step):
        if step == int(os.environ.get("DIES_AT", -1)): os._exit(7)
        note(step=step, **values)
    def finish(self, exit_code): note(exit_code=exit_code)
"""


class Tracker(support.Test):
    def setUp(self):
        super().setUp()
        (self.folder / "wandb.py").write_text(PACKAGE)
        self.run_folder, self.calls = self.folder / "run", self.folder / "calls"

    def command(self, *flags, steps=3, **changes):
        env = support.environment(PYTHONPATH=str(self.folder), CALLS=str(self.calls), **changes)
        settings = support.settings(run={"dir": self.run_folder}, train={"steps": steps}, record={"wandb": "true"})
        return ("train", support.QUICKSTART, *settings, *flags), env

    def train(self, *flags, **changes):
        arguments, env = self.command(*flags, **changes)
        return keel(*arguments, env=env)

    def check_rows(self, exit_code):
        """The rows of the last start equal those of metrics.jsonl."""
        calls = read_jsonl(self.calls)
        first = max(i for i, call in enumerate(calls) if "group" in call)
        self.assertEqual(calls[first]["group"], json.loads((self.run_folder / "used.json").read_text())["run.id"])
        self.assertEqual(calls[-1], {"exit_code": exit_code})
        sent = {}
        for call in calls[first + 1:-1]:
            sent.setdefault(call.pop("step"), {}).update(call)
        rows = {}
        for row in read_jsonl(self.run_folder / "metrics.jsonl"):
            numbers = {name: value for name, value in row.items() if name not in ("step", "time/clock") and isinstance(value, (int, float))
                       and not isinstance(value, bool)}
            rows[row["step"]] = {**numbers, **rows.get(row["step"], {}), "_timestamp": row["time/clock"]}
        self.assertEqual(sent, rows)

    def test_gets_every_row_and_a_resumed_run_all_that_stay(self):
        self.assert_exit(self.train(), 0)
        self.check_rows(0)
        self.assert_exit(self.train("--resume", steps=5), 0)
        self.check_rows(0)

    def test_an_interrupted_run_is_closed_as_stopped(self):
        arguments, env = self.command(steps=100000)
        process = subprocess.Popen([support.KEEL, *map(str, arguments)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(support.wait_for(process, lambda: self.calls.exists() and '"step": 10,' in self.calls.read_text()))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(support.HANG), 75)
        self.check_rows(1)

    def test_a_missing_package_ends_the_start(self):
        result = self.train(IMPORT_ERROR="No module named 'wandb'")
        self.assert_refused(result, 2, "record.wandb", "No module named 'wandb'", "python3 -m pip install wandb")
        self.assertFalse(self.run_folder.exists())

    def test_an_export_asks_the_interpreter_of_the_run(self):
        self.assert_exit(self.train(), 0)
        config = self.run_folder / "config.yaml"
        config.write_text(config.read_text().replace("  python: python3\n", f"  python: {sys.executable}\n"))
        (self.folder / "wandb.py").unlink()
        (self.folder / "wandb").mkdir()
        result = keel("export", self.run_folder, "--wandb", self.folder / "out", env=support.environment(PYTHONPATH=str(self.folder)))
        self.assert_refused(result, 2, "--wandb", "No module named 'wandb'", f"{sys.executable} -m pip install wandb")
        self.assertFalse((self.folder / "out").exists())

    def test_a_bridge_that_dies_is_a_warning(self):
        result = self.train(DIES_AT="9")
        self.assert_exit(result, 0)
        self.assertIn("wandb: the bridge to wandb exited unexpectedly (exit code 7). Training continues", result.stderr + result.stdout)
        self.assertEqual(read_jsonl(self.run_folder / "metrics.jsonl")[-1]["step"], 11)


if __name__ == "__main__":
    support.main()
