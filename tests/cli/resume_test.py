"""Interrupted anywhere and resumed, a run ends with the same bits as one that was left alone."""

import json
import random
import re
import shlex
import shutil
import signal

import support
from support import keel, start_train, train, wait_for

KILLS = 16
# Longer than the small run, with evaluations in between, so that there is something to interrupt.
LONGER = {"sft": {"steps": 24, "noisy_steps": 8}, "train": {"steps": 10}, "eval": {"every": 2, "prompts": 200},
          "checkpoint": {"every": 3}}


def rows(run):
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def half_written(run):
    return any((run / "checkpoints").glob("*.partial*")) or any((run / "checkpoints").glob("*/*.partial"))


def evaluation_due(run):
    """Whether the last row is that of an RL step after which the accuracy is measured."""
    whole = (run / "metrics.jsonl").read_text().split("\n")[:-1] if rows(run) else []  # the last may be torn
    last = json.loads(whole[-1]) if whole else {"phase": ""}
    return last["phase"] == "rl" and (last["step"] - LONGER["sft"]["steps"]) % LONGER["eval"]["every"] == 0


def kill_moments(seed):
    """Without end: pairs of a name and a function that waits for that moment of a run's next process."""
    draws = random.Random(seed)

    def after_rows(process, run, more):
        wanted = rows(run) + more
        return wait_for(process, lambda: rows(run) >= wanted)

    while True:
        more, chances = draws.randint(1, 6), draws.randint(1, 4)
        yield "between steps", lambda p, r: after_rows(p, r, more)
        # Some looks at the folder later, so that another file of the checkpoint is being written.
        looks = iter(range(chances))
        yield "checkpoint", lambda p, r: wait_for(p, lambda: half_written(r) and next(looks, None) is None, pause=0)
        yield "evaluation", lambda p, r: wait_for(p, lambda: evaluation_due(r))
        delay = draws.uniform(0.05, 0.6)
        end = []

        def passed():
            end.append(1)
            return len(end) * 0.01 > delay

        yield "any time", lambda p, r: wait_for(p, passed, pause=0.01)


class Killed(support.Test):
    def test_at_any_moment_the_run_goes_on_to_the_same_bits(self):
        whole = self.folder / "whole"
        self.assert_exit(train(whole, **LONGER), 0)
        kills = {}
        runs = 0
        moments = kill_moments(seed=5)
        while sum(kills.values()) < KILLS:
            runs += 1
            self.assertLess(runs, 12, f"runs end before they can be killed: {kills}")
            run = self.folder / f"run{runs}"
            flags = ()
            while True:
                process = start_train(run, *flags, **LONGER)
                moment, waits = next(moments)
                if sum(kills.values()) < KILLS and waits(process, run):
                    process.send_signal(signal.SIGKILL)
                    kills[moment] = kills.get(moment, 0) + 1
                code = process.wait()
                # Killed before its first checkpoint, a run has to be started anew.
                flags = ("--resume",) if support.checkpoints(run) else ("--overwrite",) if run.exists() else ()
                if code == 0:
                    break
                self.assertEqual(code, -signal.SIGKILL, process.output.read_text())
            self.assert_same_run(run, whole)
            self.assertEqual([p.name for p in run.rglob("*.partial")], [])
            self.assertTrue((run / "report.html").exists())
        print(f"\n  {sum(kills.values())} kills in {runs} runs: {kills}")


class AskedToStop(support.Test):
    def test_a_run_saves_says_how_to_continue_and_ends_with_75(self):
        whole = self.folder / "whole"
        self.assert_exit(train(whole, **LONGER), 0)
        for number, at_row in ((signal.SIGINT, 4), (signal.SIGTERM, 24), (signal.SIGUSR1, 30)):
            run = self.folder / f"signal {number}"  # a space, as folders have
            output = self.interrupted_output(run, number, at_row)
            step = int(re.search(r"interrupted at step (\d+); saved", output)[1])
            self.assertEqual(support.checkpoints(run)[-1], f"step-{step:06d}")
            support.verify_checkpoint(run / "checkpoints" / f"step-{step:06d}")
            self.assertEqual((run / "checkpoints" / "LATEST").read_text(), f"step-{step:06d}\n")
            advice = shlex.split(re.search(r"continue with: keel (.*)", output)[1])
            self.assert_exit(keel(*advice), 0)
            self.assert_same_run(run, whole)

    def interrupted_output(self, run, number, at_row):
        """What a run prints that gets the signal when it has written so many rows."""
        for _ in range(5):  # on a busy machine a run may be over before the signal is on its way
            process = start_train(run, "--overwrite", **LONGER)
            if wait_for(process, lambda: rows(run) >= at_row):
                process.send_signal(number)
            if process.wait() != 0:
                break
        self.assertEqual(process.returncode, 75, process.output.read_text())
        return process.output.read_text()

    def test_a_second_signal_ends_the_run_at_once(self):
        run = self.folder / "run"
        process = start_train(run, sft={"steps": 2, "noisy_steps": 0}, eval={"prompts": 50000})
        self.assertTrue(wait_for(process, lambda: "self-test" in process.output.read_text()))
        process.send_signal(signal.SIGINT)
        self.assertTrue(wait_for(process, lambda: "once more to stop at once" in process.output.read_text()))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 75)
        self.assertNotIn("held-out accuracy", process.output.read_text())  # the evaluation was not waited for
        support.verify_checkpoint(run / "checkpoints" / "step-000002")


    def test_a_second_signal_before_anything_is_saved_does_not_promise_that_the_run_can_be_resumed(self):
        run = self.folder / "run"
        process = start_train(run, sft={"steps": 1000000, "noisy_steps": 0, "batch": 16384}, checkpoint={"every": 0})
        self.assertTrue(wait_for(process, lambda: (run / "metrics.jsonl").exists()))
        process.send_signal(signal.SIGINT)
        self.assertTrue(wait_for(process, lambda: "once more to stop at once" in process.output.read_text()))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), -signal.SIGTERM)
        self.assertEqual(support.checkpoints(run), [])


class WithMoreThanWeights(support.Test):
    """What a run must remember beside its own weights: the reference policy, and thresholds that moved."""

    EXTRA = {"objective": {"adapt_target_kept": 0.8, "adapt_rate": 0.5}, "reference": {"kl_coefficient": 0.05},
             "optimizer": {"lr": 0.01}, "eval": {"prompts": 0}}

    def trained(self, run, *flags, steps):
        self.assert_exit(train(run, *flags, **{**self.EXTRA, "train": {"steps": steps}}), 0)

    def test_it_goes_on_to_the_same_bits(self):
        whole = self.folder / "whole"
        self.trained(whole, steps=6)
        reference = (whole / "reference" / "model.safetensors").read_bytes()
        rl = [row for row in support.metrics(whole) if row["phase"] == "rl"]
        deltas = [row["trust_region/delta_high"] for row in rl]
        self.assertEqual(deltas[0], 0.15)
        self.assertEqual(len(set(deltas)), 6)  # they moved, every time
        self.assertTrue(all(row["optimizer/grad_norm"] > 0 and row["policy/kl_reference"] > 0 for row in rl))
        self.assertGreater(rl[-1]["policy/kl_reference"], 0.01)
        for steps in (0, 1, 4):  # 0: only the warm-up
            run = self.folder / f"after {steps}"
            self.trained(run, steps=steps)
            self.trained(run, "--resume", steps=6)
            self.assert_same_run(run, whole)
            self.assertEqual((run / "reference" / "model.safetensors").read_bytes(), reference)
            self.assertEqual([p.name for p in run.rglob("*.partial")], [])

    def test_the_reference_is_the_policy_after_the_warm_up_and_a_model_folder(self):
        run = self.folder / "run"
        self.trained(run, steps=0)
        last = run / "checkpoints" / support.checkpoints(run)[-1]
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            self.assertEqual((run / "reference" / name).read_bytes(), (last / name).read_bytes(), name)

    def test_a_damaged_reference_is_refused_and_nothing_changes(self):
        run = self.folder / "run"
        self.trained(run, steps=2)
        path = run / "reference" / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        before = support.tree(run)
        result = train(run, "--resume", **{**self.EXTRA, "train": {"steps": 3}})
        self.assert_refused(result, 3, "reference", "model.safetensors has another checksum", "--overwrite")
        self.assertEqual(support.tree(run), before)

    def test_a_run_without_a_pull_has_no_reference(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        self.assertFalse((run / "reference").exists())


class WithCritic(support.Test):
    """The critic, its moments and its count of updates come back too; the policy waits for it for two of six steps. A
    critic learns from rewards, so the warm-up is long enough for some."""

    EXTRA = {"task": {"steps": 1, "modulus": 2}, "sft": {"steps": 70, "lr": 0.01, "batch": 32}, "eval": {"prompts": 0},
             "objective": {"method": "ppo_gae", "entropy_coefficient": 0}, "checkpoint": {"every": 36}}

    def trained(self, run, body, *flags, steps):
        result = train(run, *flags, **self.EXTRA, train={"steps": steps},
                       critic={"body": body, "warmup_steps": 2, "lr": 0.01})
        self.assert_exit(result, 0)
        return result.stdout

    def test_a_resumed_run_has_the_same_critic(self):
        for body, files in (("shared", {"critic.safetensors"}),
                            ("separate", {"critic/config.json", "critic/model.safetensors"})):
            whole = self.folder / body
            self.trained(whole, body, steps=6)
            last = whole / "checkpoints" / support.checkpoints(whole)[-1]
            support.verify_checkpoint(last)
            self.assertLessEqual(files, set(json.loads((last / "manifest.json").read_text())["files"]))
            rl = [row for row in support.metrics(whole) if row["phase"] == "rl"]
            self.assertTrue(all(row["critic/grad_norm"] > 0 and row["critic/lr"] == 0.01 for row in rl))
            self.assertEqual([row["updates"] for row in rl], [70, 70, 72, 74, 76, 78])  # 70 of the supervised warm-up
            self.assertNotEqual(rl[-1]["critic/value_mean"], 0)
            for steps in (0, 3, 4):  # 0: only the supervised warm-up
                run = self.folder / f"{body} after {steps}"
                self.trained(run, body, steps=steps)
                self.trained(run, body, "--resume", steps=6)
                self.assert_same_run(run, whole)

    def test_a_damaged_critic_is_a_damaged_checkpoint(self):
        for body, file in (("shared", "critic.safetensors"), ("separate", "critic/model.safetensors")):
            whole, run = self.folder / body, self.folder / f"{body} damaged"
            self.trained(whole, body, steps=4)
            shutil.copytree(whole, run)
            older, newest = support.checkpoints(run)
            path = run / "checkpoints" / newest / file
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
            output = self.trained(run, body, "--resume", steps=4)
            self.assertIn(f"{newest} is damaged ({file} has another checksum", output)
            self.assertIn(f"resumed from {run}/checkpoints/{older}", output)
            self.assert_same_run(run, whole)


class Elsewhere(support.Test):
    def test_a_run_is_resumed_by_its_configuration_from_any_folder(self):
        (self.folder / "a").mkdir()
        (self.folder / "b").mkdir()
        self.assert_exit(train("runs/x", cwd=self.folder / "a", train={"steps": 1}), 0)
        config = self.folder / "a" / "runs" / "x" / "config.yaml"
        self.assertIn(f"dir: {self.folder}/a/runs/x\n", config.read_text())
        result = keel("train", "../a/runs/x/config.yaml", "--resume", "train.steps=2", cwd=self.folder / "b")
        self.assert_exit(result, 0)
        self.assertEqual(support.checkpoints(self.folder / "a" / "runs" / "x")[-1], "step-000010")
        self.assertFalse((self.folder / "b" / "runs").exists())

    def test_a_run_that_was_moved_says_what_to_set(self):
        self.assert_exit(train(self.folder / "old", train={"steps": 1}), 0)
        (self.folder / "old").rename(self.folder / "new")
        config = self.folder / "new" / "config.yaml"
        result = keel("train", config, "--resume", "train.steps=2")
        self.assert_refused(result, 3, f"{self.folder}/old", "run.dir=FOLDER", "moved")
        self.assert_exit(keel("train", config, "--resume", "train.steps=2", f"run.dir={self.folder}/new"), 0)


class Finished(support.Test):
    def test_a_finished_run_is_left_as_it_is_and_goes_on_when_asked_for_more(self):
        whole, run = self.folder / "whole", self.folder / "run"
        self.assert_exit(train(whole, train={"steps": 6}), 0)
        self.assert_exit(train(run, train={"steps": 4}), 0)
        before = {name: (run / name).read_bytes() for name in self.final_files(run)}
        rows_before = support.metrics(run)
        for _ in range(2):
            self.assert_exit(train(run, "--resume", train={"steps": 4}), 0)
            self.assertEqual({name: (run / name).read_bytes() for name in before}, before)
            self.assertEqual(support.metrics(run), rows_before)

        self.assert_exit(train(run, "--resume", train={"steps": 6}), 0)
        for name in self.final_files(whole):
            self.assertEqual((run / name).read_bytes(), (whole / name).read_bytes(), name)
        # The shorter run measured its accuracy at its end, step 12; all else is the same.
        extra = [row for row in support.metrics(run) if (row["phase"], row["step"]) == ("eval", 12)]
        self.assertEqual(len(extra), 1)
        self.assertEqual([row for row in support.metrics(run) if row not in extra], support.metrics(whole))


class DamagedCheckpoint(support.Test):
    def test_the_newest_sound_one_is_taken_with_a_warning(self):
        whole = self.folder / "whole"
        self.assert_exit(train(whole), 0)
        older, newest = support.checkpoints(whole)

        def flip(folder):
            data = bytearray((folder / "model.safetensors").read_bytes())
            data[len(data) // 2] ^= 1
            (folder / "model.safetensors").write_bytes(data)

        def truncate(folder):
            data = (folder / "optimizer.safetensors").read_bytes()
            (folder / "optimizer.safetensors").write_bytes(data[:-1])

        def delete(folder):
            (folder / "state.json").unlink()

        def garble(folder):
            (folder / "manifest.json").write_bytes(b"\0" * 100)

        damages = ((flip, "model.safetensors"), (truncate, "optimizer.safetensors"), (delete, "state.json"),
                   (garble, "manifest.json"))
        for damage, file in damages:
            run = self.folder / damage.__name__
            shutil.copytree(whole, run)
            damage(run / "checkpoints" / newest)
            result = train(run, "--resume")
            self.assert_exit(result, 0)
            self.assertIn(f"{newest} is damaged", result.stdout)
            self.assertIn(file, result.stdout)
            self.assertIn(f"resumed from {run}/checkpoints/{older}", result.stdout)
            self.assert_same_run(run, whole)

        run = self.folder / "all"
        shutil.copytree(whole, run)
        flip(run / "checkpoints" / newest)
        delete(run / "checkpoints" / older)
        before = support.tree(run)
        result = train(run, "--resume")
        self.assert_refused(result, 3, str(run), "no sound checkpoint", "--overwrite")
        self.assertIn(f"{newest} is damaged", result.stdout)
        self.assertIn(f"{older} is damaged", result.stdout)
        self.assertEqual(support.tree(run), before)


if __name__ == "__main__":
    support.main()
