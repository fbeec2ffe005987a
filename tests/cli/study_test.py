"""keel study: runs variants over several seeds, resumes and compares them; a failed run does not stop the others."""

import csv
import fcntl
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import yaml

from support import HANG, KEEL, SMALL, checkpoints, environment, keel, metrics, start, train, wait_for


def nested(settings):
    tree = {}
    for key, value in settings.items():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = value
    return tree


class StudyTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.study = {
            "study": {"seeds": 2, "dir": str(self.folder / "out"), "measures": ["policy/entropy"]},
            "base": nested(SMALL | {"model.layers": 1}),
            "sizes": {"long": {"train": {"steps": 6}}},
            "variants": {"dppo_tv": {"objective": {"method": "dppo_tv"}}, "grpo": {"objective": {"method": "grpo"}}},
        }

    def run_study(self, *arguments, code=0):
        file = self.folder / "small.yaml"
        file.write_text(yaml.safe_dump(self.study, sort_keys=False))
        result = keel("study", str(file), *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def rows(self, name="runs.csv"):
        with open(self.folder / "out" / name, newline="") as file:
            return list(csv.DictReader(file))

    def test_runs_every_variant_with_every_seed_and_measures_their_metrics(self):
        out = self.folder / "out"
        self.study["study"]["comparisons"] = ["grpo vs dppo_tv"]
        self.run_study()
        rows = self.rows()
        self.assertEqual([(row["variant"], row["seed"]) for row in rows],
                         [("dppo_tv", "0"), ("grpo", "0"), ("dppo_tv", "1"), ("grpo", "1")])
        for row in rows:
            steps = [line for line in metrics(out / "runs" / f"{row['variant']}-{row['seed']}") if line["phase"] == "rl"]
            self.assertEqual(len(steps), 4)
            self.assertEqual(float(row["final"]), steps[-1]["reward/mean"])  # a third of four steps, rounded down
            self.assertEqual(float(row["early"]), steps[0]["reward/mean"])
            self.assertEqual(float(row["policy/entropy"]), steps[-1]["policy/entropy"])
        # The mean over seeds with a t interval: 12.7062 is the 97.5 % quantile with one degree of freedom.
        entropies = [float(row["policy/entropy"]) for row in rows if row["variant"] == "grpo"]
        cell = next(row for row in self.rows("table.csv") if (row["variant"], row["measure"]) == ("grpo", "policy/entropy"))
        self.assertAlmostEqual(float(cell["mean"]), statistics.mean(entropies), places=7)
        half = 12.7062047 * statistics.stdev(entropies) / 2**0.5
        self.assertAlmostEqual(float(cell["high"]), statistics.mean(entropies) + half, places=6)
        # Differences of final and early rewards from the baseline, seed by seed.
        for name in ("final", "early"):
            by_variant = {variant: [float(row[name]) for row in rows if row["variant"] == variant] for variant in ("dppo_tv", "grpo")}
            differences = [own - base for own, base in zip(by_variant["grpo"], by_variant["dppo_tv"])]
            cell = next(row for row in self.rows("table.csv") if (row["variant"], row["measure"]) == ("grpo", f"{name}_less_dppo_tv"))
            self.assertAlmostEqual(float(cell["mean"]), statistics.mean(differences), places=7)
            self.assertIn(f"{name} minus dppo_tv", (out / "table.md").read_text())
            # A paired t-test with one degree of freedom.
            mean, error = statistics.mean(differences), abs(differences[0] - differences[1]) / 2
            p = 1 - 2 / math.pi * math.atan(abs(mean) / error) if error > 0 else 1.0
            line = next(line for line in (out / "table.md").read_text().splitlines() if line.startswith("| grpo vs dppo_tv") and f"| {name} " in line)
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            self.assertEqual(cells[2:4], ["2", f"{mean:.3f} +- {error:.3f}".replace("-0.000", "0.000")])
            if error > 0 or mean == 0:
                self.assertAlmostEqual(float(cells[4]), p, delta=0.01)
            else:
                self.assertEqual(cells[4:], ["-", "-"])
        # Both variants of a seed started from the same network, which was trained once.
        self.assertEqual(sorted(path.name for path in (out / "runs").glob("sft*")), ["sft-0", "sft-1"])
        before = {row["variant"]: row["eval_before"] for row in rows if row["seed"] == "0"}
        self.assertEqual(before["dppo_tv"], before["grpo"])
        config = yaml.safe_load((out / "configs" / "grpo-1.yaml").read_text())
        self.assertEqual(config["model"], {"path": str(out / "runs" / "sft-1")})
        self.assertNotIn("sft", config)
        # The page has a named panel per variant; a file of its own has the same figure.
        curves = (out / "curves.svg").read_text()
        self.assertIn(curves, (out / "study.html").read_text())
        drawing = xml.etree.ElementTree.fromstring(curves)
        names = [each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text") if each.get("font-weight") == "600"]
        self.assertEqual(names, ["dppo_tv", "grpo"])
        self.assertEqual(curves.count('class="faint'), 4)
        self.assertEqual(curves.count('class="line'), 2)
        # A second call runs nothing; the tables stay the same although the run folders were removed.
        table = (out / "table.md").read_text()
        for run in (out / "runs").iterdir():
            run.rename(self.folder / run.name)
        self.assertIn("6 of 6 runs are already done", self.run_study().stdout)
        self.assertEqual((out / "table.md").read_text(), table)
        # A new variant needs the SFT runs again.
        self.study["variants"]["ppo"] = {"objective": {"method": "ppo"}}
        self.run_study()
        self.assertEqual([row for row in self.rows() if row["variant"] != "ppo"], rows)
        self.assertEqual({row["eval_before"] for row in self.rows() if row["seed"] == "0"}, {before["grpo"]})
        for run in (out / "runs").iterdir():
            shutil.rmtree(run)
        del self.study["variants"]["ppo"]
        # Other measures: existing runs are measured again, and a missing one is an error.
        self.assertIn("is missing", self.run_study("study.last=3", "study.measures=[policy/kl_behavior]", code=2).stderr)
        for run in self.folder.glob("*-[01]"):
            run.rename(out / "runs" / run.name)
        self.run_study("study.last=3", "study.measures=[policy/kl_behavior]")
        self.assertIn("policy/kl_behavior", self.rows()[0])
        self.assertNotIn("policy/entropy", self.rows()[0])
        self.run_study()
        self.assertEqual((out / "table.md").read_text(), table)
        # The study agrees with itself, and not with a study that has other rewards.
        runs = out / "runs.csv"
        result = self.run_study("--compare", str(runs))
        self.assertIn("no difference found", result.stdout)
        self.assertIn("4 runs have the variant and seed of a run in the other study", result.stdout + result.stderr)
        other = self.folder / "other.csv"
        lines = [line.split(",") for line in runs.read_text().splitlines()]
        at = lines[0].index("final")
        for number, line in enumerate(lines[1:]):
            line[at] = str(5 + number / 1e4)
        other.write_text("\n".join(",".join(line) for line in lines) + "\n")
        self.assertIn("a difference found", self.run_study("--compare", str(other), code=1).stdout)
        # An invalid file to compare with is an error with --explain, too.
        self.run_study("--explain", "--compare", str(other))
        self.assertIn("expected a study's runs.csv", self.run_study("--explain", "--compare", str(out / "table.md"), code=3).stderr)
        self.assertIn("gone.csv", self.run_study("--explain", "--compare", str(self.folder / "gone.csv"), code=3).stderr)
        text = runs.read_text().splitlines()
        for changed, reason in (([*text, text[1]], "6: has the run dppo_tv-0 twice"),
                                ([line + "," + line.split(",")[-1] for line in text], f"1: has the column {lines[0][-1]} twice")):
            twice = self.folder / "twice.csv"
            twice.write_text("\n".join(changed) + "\n")
            self.assertIn(f"{twice}:{reason}", self.run_study("--explain", "--compare", str(twice), code=3).stderr)
        fewer = self.folder / "fewer.csv"
        after = lines[0].index("eval_after")
        fewer.write_text("\n".join(",".join(field for i, field in enumerate(line.split(",")) if i != after) for line in text) + "\n")
        result = self.run_study("--compare", str(fewer))
        self.assertIn("not in both studies, so not compared: eval_after", result.stdout + result.stderr)
        for number, line in enumerate(lines[1:]):
            line[at] = f"{1 + number / 1e4}e308"
        other.write_text("\n".join(",".join(line) for line in lines) + "\n")
        large = self.run_study("--compare", str(other), code=1).stdout
        self.assertRegex(large, r" 1e308 \[9\.98\de307, 1\.00\de308\]")
        self.assertNotIn("inf", large)
        # Other settings are not mixed with existing runs.
        self.study["base"]["optimizer"] = {"lr": 1e-3}
        self.assertIn("with other settings", self.run_study(code=2).stderr)
        self.run_study("--overwrite", "study.seeds=1")
        self.assertEqual(len(self.rows()), 2)

    def test_resumes_after_an_interruption_with_the_same_results(self):
        self.study["study"]["seeds"] = 1
        self.run_study("--size", "long")
        whole = self.rows()
        self.study["study"]["dir"] = str(self.folder / "broken")
        file = self.folder / "small.yaml"
        file.write_text(yaml.safe_dump(self.study, sort_keys=False))
        log = self.folder / "broken" / "runs" / "grpo-0" / "metrics.jsonl"
        process = start(self.folder / "said.txt", "study", str(file), "--size", "long")
        wait_for(process, lambda: log.exists() and '"step":2' in log.read_text())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(HANG), 75)
        self.assertFalse((self.folder / "broken" / "outcomes" / "grpo-0.json").exists())
        self.run_study("--size", "long")
        with open(self.folder / "broken" / "runs.csv", newline="") as table:
            self.assertEqual(list(csv.DictReader(table)), whole)

    def test_a_failed_variant_is_reported_and_the_others_continue(self):
        self.study["study"]["seeds"] = 1
        self.study["variants"]["broken"] = {"data": {"files": [str(self.folder / "none.jsonl")]}, "reward": {"functions": ["exact"]},
                                            "rollout": {"max_new_tokens": 4}, "sft": {"steps": 0}}
        result = self.run_study("study.jobs=2", code=1)
        self.assertIn("broken-0 failed", result.stdout + result.stderr)
        self.assertIn("data.files is set, but model.path is not", result.stdout + result.stderr)
        self.assertEqual([row["variant"] for row in self.rows()], ["dppo_tv", "grpo"])
        outcome = json.loads((self.folder / "out" / "outcomes" / "grpo-0.json").read_text())
        self.assertEqual(len(outcome["rewards"]), 4)

    def test_keep_checkpoints_false_removes_checkpoints_of_finished_runs(self):
        self.study["study"] |= {"dir": str(self.folder / "kept"), "seeds": 1}
        result = self.run_study()
        kept = (self.folder / "kept" / "runs.csv").read_text()
        networks = len(list((self.folder / "kept").rglob("*.safetensors")))
        self.run_study("study.keep_checkpoints=false", "variants.grpo.optimizer.lr=0.5", code=2)  # changes nothing
        self.assertEqual(len(list((self.folder / "kept").rglob("*.safetensors"))), networks)
        for folder in ("out", "kept"):  # first without checkpoints from the start, then with existing ones
            self.study["study"] |= {"dir": str(self.folder / folder), "keep_checkpoints": False}
            self.run_study()
            self.assertEqual((self.folder / folder / "runs.csv").read_text(), kept)
            runs = sorted((self.folder / folder / "runs").iterdir())
            with_networks = [run.name for run in runs if (run / "checkpoints").exists()]
            self.assertEqual(with_networks, [run.name for run in runs if run.name.startswith("sft")])
            self.assertGreater(len(runs), len(with_networks))

    def test_checkpoints_outside_the_study_folder_stay(self):
        self.study["study"]["seeds"] = 1
        self.run_study()
        run, elsewhere = self.folder / "out" / "runs" / "grpo-0", self.folder / "elsewhere"
        run.rename(elsewhere)
        run.symlink_to(elsewhere)
        networks = sorted(elsewhere.rglob("*.safetensors"))
        result = self.run_study("study.keep_checkpoints=false")
        self.assertIn(f"{run} is outside the study's folder", result.stdout + result.stderr)
        self.assertEqual(sorted(elsewhere.rglob("*.safetensors")), networks)
        self.assertEqual(list((self.folder / "out" / "runs" / "dppo_tv-0").rglob("*.safetensors")), [])

    def test_overrides_take_precedence_over_the_base_file(self):
        base, self.study["base"] = self.study["base"], "base.yaml"
        (self.folder / "base.yaml").write_text(yaml.safe_dump(base))
        self.study["study"]["seeds"] = 1
        self.run_study("base.train.steps=3")
        self.assertEqual({len(json.loads(file.read_text())["rewards"]) for file in (self.folder / "out" / "outcomes").glob("[dg]*.json")}, {3})
        self.assertIn("train.stps", self.run_study("base.train.stps=3", code=2).stderr)

    def test_folder_and_seed_of_a_base_file_are_ignored(self):
        """Files of keel import have both keys."""
        base, self.study["base"] = self.study["base"], "base.yaml"
        named = {"run": {**base["run"], "dir": str(self.folder / "elsewhere"), "seed": 42}}
        (self.folder / "base.yaml").write_text(yaml.safe_dump(base | named))
        output = self.run_study("study.seeds=1", "--explain").stdout
        for name, instead in (("run.dir", "study.dir"), ("run.seed", "study.first_seed")):
            self.assertRegex(output, rf"base.yaml:\d+: {name} is ignored: a study sets it for every run \({instead}\)")
        self.assertIn("seeds 0 to 0", output)
        self.run_study("study.seeds=1")
        self.assertFalse((self.folder / "elsewhere").exists())
        self.assertEqual(len(self.rows()), 2)
        self.assertIn("study.dir", self.run_study("base.run.dir=elsewhere", code=2).stderr)  # an override is an error

    def test_changed_sft_runs_and_reward_files_need_overwrite(self):
        self.study["study"]["seeds"] = 1
        reward = self.folder / "own.py"
        reward.write_text("def own(completions, **columns):\n    return [1.0] * len(completions)\n")
        self.study["base"]["reward"] = {"functions": [f"python:{reward}:own"]}
        self.run_study()
        self.assertEqual({row["final"] for row in self.rows()}, {"1"})
        # Another SFT: the runs that start from it are repeated.
        entropy = [row["policy/entropy"] for row in self.rows()]
        self.assertIn("another SFT run", self.run_study("base.sft.steps=12", code=2).stderr)
        self.run_study("base.sft.steps=12", "--overwrite")
        self.assertNotEqual([row["policy/entropy"] for row in self.rows()], entropy)
        # A reward function with the same name and other code.
        reward.write_text("def own(completions, **columns):\n    return [2.0] * len(completions)\n")
        self.assertIn("reward or model files", self.run_study("base.sft.steps=12", code=2).stderr)
        notes = self.folder / "out" / "runs" / "grpo-0" / "notes.txt"
        notes.write_text("mine")
        self.run_study("base.sft.steps=12", "--overwrite")
        self.assertEqual(notes.read_text(), "mine")
        self.assertEqual({row["final"] for row in self.rows()}, {"2"})
        # A damaged outcome, and the outcome of another run.
        outcome = self.folder / "out" / "outcomes" / "grpo-0.json"
        whole = outcome.read_text()
        for text in (whole[:-9], whole.replace('"final"', '"finale"'), whole.replace("grpo", "dppo_tv"), whole.replace('"seed":0', '"seed":1')):
            outcome.write_text(text)
            self.assertIn("remove the file", self.run_study("base.sft.steps=12", code=3).stderr)
        outcome.unlink()
        # A log that is a link: its target is not changed.
        precious = self.folder / "precious"
        precious.write_text("mine")
        log = self.folder / "out" / "logs" / "grpo-0.txt"
        log.unlink()
        log.symlink_to(precious)
        self.run_study("base.sft.steps=12")
        self.assertEqual(precious.read_text(), "mine")
        # A moved folder is an error; after moving it back the study continues.
        out, moved = self.folder / "out", self.folder / "moved"
        out.rename(moved)
        error = self.run_study("base.sft.steps=12", f"study.dir={moved}", code=2).stderr
        self.assertIn(f"{moved} was moved or copied from {out}", error)
        moved.rename(out)
        self.run_study("base.sft.steps=12")

    def test_changed_input_files_need_overwrite(self):
        """Covers data files by pattern, reward functions of a source, programs, and the model."""
        model, own, program = self.folder / "start", self.folder / "own.py", self.folder / "own_program.py"
        self.assertEqual(train(model, train={"steps": 0}).returncode, 0)
        weights = model / "checkpoints" / checkpoints(model)[-1] / "model.safetensors"
        rows = [self.folder / "rows-0.jsonl", self.folder / "rows-1.jsonl"]
        for file in rows:
            file.write_text("".join(json.dumps({"prompt": "<bos> 1 =", "answer": "1"}) + "\n" for _ in range(4)))
        own.write_text("def own(completions, **columns):\n    return [1.0] * len(completions)\n")
        program.write_text("import json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n"
                           "    print(json.dumps({'rewards': [2.0] * len(asked['completions'])}), flush=True)\n")
        self.study["base"]["reward"] = {"functions": [f"python:{own} @rows-0", f"exec:{sys.executable} {program} @rows-1"]}
        self.study["base"] |= {"model": {"path": str(model)}, "data": {"files": [str(self.folder / "rows-*.jsonl")]}, "rollout": {"max_new_tokens": 4},
                               "sft": {"steps": 0}, "eval": {"prompts": 0}}
        self.study["variants"] = {"a": {}}
        self.run_study("study.seeds=1")
        for file in (own, program, rows[1], weights, self.folder / "rows-2.jsonl"):
            before = file.read_bytes() if file.exists() else None
            file.write_bytes((before or rows[0].read_bytes()) + b"\n")
            self.assertIn("changed data, reward or model files", self.run_study("study.seeds=1", code=2).stderr, file)
            file.write_bytes(before) if before else file.unlink()
        self.assertIn("1 of 1 runs are already done", self.run_study("study.seeds=1").stdout)

    def test_input_files_changed_during_a_study_stop_it(self):
        """Checked when a run starts and when it ends. After an interrupted --overwrite no old run counts as a new one."""
        own, file, out = self.folder / "own.py", self.folder / "small.yaml", self.folder / "out"
        text = "def own(completions, **columns):\n    return [1.0] * len(completions)\n"
        own.write_text(text)
        model = self.folder / "start"
        self.assertEqual(train(model, train={"steps": 0}).returncode, 0)
        self.study["base"] |= {"model": {"path": str(model)}, "sft": {"steps": 0}, "eval": {"prompts": 0}, "train": {"steps": 40}}
        self.study["variants"] = {"a": {}, "b": {"reward": {"functions": [f"python:{own}:own"]}}}

        def under_way(name, *arguments):
            file.write_text(yaml.safe_dump(self.study, sort_keys=False))
            process = start(self.folder / "said.txt", "study", str(file), "study.seeds=1", *arguments)
            wait_for(process, lambda: (out / "runs" / name / "metrics.jsonl").exists())
            return process

        def stopped(process, when):
            self.assertEqual(process.wait(HANG), 3, process.output.read_text())
            self.assertIn(f"changed during the study, before {when};", process.output.read_text())

        process = under_way("a-0")
        own.write_text(text.replace("1.0", "2.0"))
        stopped(process, "b-0 began")
        own.write_text(text)
        notes = model / "checkpoints" / checkpoints(model)[-1] / "notes.md"
        process = under_way("b-0")
        notes.write_text("another one")
        stopped(process, "b-0 ended")
        self.assertEqual([path.name for path in (out / "outcomes").iterdir()], ["a-0.json"])
        notes.unlink()
        self.run_study("study.seeds=1")
        self.assertEqual(self.rows()[1]["final"], "1")
        own.write_text(text.replace("1.0", "2.0"))
        before = (out / "configs" / "b-0.yaml").read_text()
        process = start(self.folder / "said.txt", "study", str(file), "study.seeds=1", "--overwrite")
        wait_for(process, lambda: (out / "configs" / "b-0.yaml").read_text() != before)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(HANG), 75)
        self.run_study("study.seeds=1")
        self.assertEqual(self.rows()[1]["final"], "2")

    def test_files_of_others_stay(self):
        self.study["study"]["seeds"] = 1
        out = self.folder / "out"
        for name in ("table.md", "study.html", "logs/grpo-0.txt"):
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text("mine")
            self.assertIn(f"has {name.split('/')[0]} and no study.json", self.run_study(code=2).stderr)
            self.assertEqual([path.read_text() for path in out.rglob("*") if path.is_file()], ["mine"])
            shutil.rmtree(out)
        self.run_study("study.measures=[policy/entropyy]")
        # Another study with the same name.
        (self.folder / "other").mkdir()
        table, other = (out / "table.md").read_text(), shutil.copy(self.folder / "small.yaml", self.folder / "other" / "small.yaml")
        refused = keel("study", str(other))
        self.assertEqual(refused.returncode, 2)
        self.assertIn(f"has the study {self.folder / 'small.yaml'}, and this is {other}", refused.stderr)
        self.assertEqual((out / "table.md").read_text(), table)
        # A misspelled measure.
        result = self.run_study("study.measures=[policy/entropyy]")
        self.assertIn("no run has the metric policy/entropyy; did you mean policy/entropy?", result.stdout + result.stderr)
        self.assertEqual(keel("study", str(other), "--overwrite").returncode, 0)

    def test_a_study_whose_folder_was_moved_writes_nothing_at_the_old_path(self):
        file, out, moved = self.folder / "small.yaml", self.folder / "out", self.folder / "moved"
        self.study["base"]["train"]["steps"] = 500
        file.write_text(yaml.safe_dump(self.study, sort_keys=False))
        process = start(self.folder / "said.txt", "study", str(file))
        metrics_file = out / "runs" / "dppo_tv-0" / "metrics.jsonl"
        wait_for(process, lambda: metrics_file.exists())
        out.rename(moved)
        out.mkdir()
        self.assertEqual(process.wait(HANG), 4)
        self.assertIn(f"was moved to {moved}", process.output.read_text())
        self.assertEqual(list(out.iterdir()), [])  # The run saved in its moved folder.
        self.assertTrue((moved / "runs" / "dppo_tv-0" / "checkpoints" / "LATEST").exists())

    def test_the_runs_of_a_killed_study_save(self):
        file, run = self.folder / "small.yaml", self.folder / "out" / "runs" / "dppo_tv-0"
        self.study["base"]["train"]["steps"], self.study["base"]["checkpoint"]["every"] = 5000, 5000
        file.write_text(yaml.safe_dump(self.study, sort_keys=False))
        # The study has several threads, and the end of each signals the runs.
        process = subprocess.Popen([KEEL, "study", str(file)], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(process, lambda: (run / "metrics.jsonl").exists() and '"step":12,' in (run / "metrics.jsonl").read_text())
        process.kill()
        process.wait(HANG)
        for folder in run.parent.iterdir():
            descriptor = os.open(folder, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # a run holds it until its process ends
            os.close(descriptor)
        self.assertIn("interrupted at step", (self.folder / "out" / "logs" / "dppo_tv-0.txt").read_text())
        self.assertGreater(int(checkpoints(run)[-1].removeprefix("step-")), 8)

    def test_each_size_has_its_own_folder(self):
        del self.study["study"]["dir"]
        file = self.folder / "small.yaml"
        file.write_text(yaml.safe_dump(self.study, sort_keys=False))
        self.assertIn("folder: studies/small-long\n", keel("study", str(file), "--size", "long", "--explain").stdout)
        self.assertIn("folder: studies/small\n", keel("study", str(file), "--explain").stdout)

    def test_a_second_study_in_the_same_folder_is_an_error(self):
        file = self.folder / "small.yaml"
        file.write_text(yaml.safe_dump(self.study, sort_keys=False))
        process = start(self.folder / "said.txt", "study", str(file))
        wait_for(process, lambda: (self.folder / "out" / "logs" / "sft-0.txt").exists())
        self.assertIn("another process runs a study", keel("study", str(file)).stderr)
        self.assertEqual(process.wait(HANG), 0)

    def test_explain_prints_the_comparisons_and_that_one_seed_is_too_few(self):
        self.study["study"]["comparisons"] = ["grpo vs dppo_tv"]
        output = self.run_study("--explain").stdout
        self.assertIn("comparisons: grpo vs dppo_tv\n", output)
        self.assertNotIn("at least 2 seeds", output)
        self.assertRegex(self.run_study("--explain", "study.seeds=1").stdout, r"study.comparisons: not tested, .* at least 2 seeds")

    def test_errors_appear_before_the_first_run(self):
        def refused(change, *words, arguments=()):
            study = json.loads(json.dumps(self.study))
            change(study)
            file = self.folder / "small.yaml"
            file.write_text(yaml.safe_dump(study, sort_keys=False))
            result = keel("study", str(file), *arguments)
            self.assertEqual(result.returncode, 2, result.stdout)
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertFalse((self.folder / "out").exists())

        refused(lambda s: s["variants"]["grpo"].update(objective={"method": "gpro"}), "variant grpo", "grpo", "small.yaml:")
        refused(lambda s: s.update(variant={}), "variants")
        refused(lambda s: s.pop("variants"), "variants is missing")
        refused(lambda s: s.pop("base"), "base is missing")
        refused(lambda s: s["study"].update(seed=3), "seeds")
        refused(lambda s: s["study"].update(seeds=0), "at least 1")
        refused(lambda s: s["study"].update(baseline="ppo"), "study.baseline", "grpo")
        refused(lambda s: s["study"].update(comparisons=["grpo vs ppo"]), "study.comparisons", "grpo vs ppo", "dppo_tv")
        for again in ("grpo vs dppo_tv", "dppo_tv vs grpo"):
            refused(lambda s: s["study"].update(comparisons=["grpo vs dppo_tv", again]), "study.comparisons", "twice")
        refused(lambda s: s["variants"].update({"up/above": {}}), "folder")
        refused(lambda s: s["variants"].update({"sft": {}}), "choose another")
        refused(lambda s: s["base"]["run"].update(seed=3), "run.seed", "study.first_seed")
        refused(lambda s: s["study"].update(measures=["final"]), "study.measures")
        refused(lambda s: s["base"]["train"].update(steps=0), "no RL")
        refused(lambda s: s["base"].update(health={"on_alarm": "stop"}), "health.on_alarm is stop", "to the end")
        refused(lambda s: None, "--size", "long", arguments=("--size", "short"))
        refused(lambda s: s["variants"].update(grpo=3), "settings")


if __name__ == "__main__":
    unittest.main()
