"""A run resumes from any working directory, and after its folder or its files were moved."""

import json
import shutil
import sys

import own_files
import support
from support import keel, train


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

    def test_reward_files_are_found_from_any_folder(self):
        start, other = self.folder / "it's a folder", self.folder / "b"
        start.mkdir()
        other.mkdir()
        (start / "mine.py").write_text("def reward(completions, **columns):\n    return [len(c) % 3 / 2 for c in completions]\n")
        (start / "answer.py").write_text("import json, sys\nprint('words', open(sys.argv[1]).read(), file=sys.stderr)\n"
                                         "for line in sys.stdin:\n"
                                         "    row = json.loads(line)\n"
                                         "    print(json.dumps([0.5] * len(row['completions'])), flush=True)\n")
        (start / "words.txt").write_text("w")
        (start / "python").symlink_to(sys.executable)
        functions = ["python:mine.py:reward @chains", "exec:python3 answer.py ./words.txt", "task"]
        rewards = {"functions": json.dumps(functions), "python": "./python"}
        whole = {"cwd": start, "reward": rewards, "train": {"steps": 3}}
        self.assert_exit(train("whole", **whole), 0)
        self.assert_exit(train("run", **{**whole, "train": {"steps": 2}}), 0)
        config = (start / "run" / "config.yaml").read_text()
        for name in ("mine.py", "python"):  # the others' words are quoted
            self.assertIn(f"{start}/{name}", config)
        self.assert_exit(keel("train", start / "run" / "config.yaml", "--resume", "train.steps=3", cwd=other), 0)
        rl = [row for row in support.metrics(start / "whole") if row["phase"] == "rl"]
        self.assertEqual([key for key in rl[0] if key.startswith("reward/function/")],
                         [f"reward/function/{function}" for function in
                          ("python:mine.py:reward @chains", "exec:python3 answer.py words.txt", "task")])
        self.assertEqual([row for row in support.metrics(start / "run") if row["phase"] == "rl"], rl)
        for name in self.final_files(start / "whole"):
            self.assertEqual((start / "run" / name).read_bytes(), (start / "whole" / name).read_bytes(), name)
        # From the original working directory, with the original relative paths.
        self.assert_exit(train("run", "--resume", **{**whole, "train": {"steps": 4}}), 0)

    def test_a_run_that_was_moved_says_what_to_set(self):
        self.assert_exit(train(self.folder / "old", train={"steps": 1}), 0)
        (self.folder / "old").rename(self.folder / "new")
        config = self.folder / "new" / "config.yaml"
        result = keel("train", config, "--resume", "train.steps=2")
        self.assert_refused(result, 3, f"{self.folder}/old", "run.dir=FOLDER", "moved")
        self.assert_exit(keel("train", config, "--resume", "train.steps=2", f"run.dir={self.folder}/new"), 0)

    def test_the_configuration_of_a_copy_neither_continues_nor_replaces_the_original(self):
        old, copy = self.folder / "old", self.folder / "copy"
        self.assert_exit(train(old, train={"steps": 1}), 0)
        shutil.copytree(old, copy)
        before = support.checkpoints(old)
        for how in ("--resume", "--overwrite"):
            self.assert_refused(keel("train", copy / "config.yaml", how, "train.steps=2"), 2, f"is {old}", f"run.dir={old} or run.dir={copy}")
        self.assertEqual(support.checkpoints(old), before)
        self.assert_exit(keel("train", copy / "config.yaml", "--resume", "train.steps=2", f"run.dir={copy}"), 0)
        self.assertNotEqual(support.checkpoints(copy), before)
        self.assert_exit(keel("train", copy / "config.yaml", "--resume", "train.steps=2", f"run.dir={old}"), 0)


class MovedProject(own_files.Test):
    def test_an_evaluation_with_a_runs_configuration_uses_the_run_that_contains_it(self):
        self.assert_exit(self.train("old", train={"steps": 1}), 0)
        none = self.folder / "none"
        self.assert_refused(keel("eval", self.configuration("none")), 3, f"there is no folder {none}", "run.dir=FOLDER",
                            f"model.path={self.model} evaluates the model before training")
        self.assertTrue(keel("eval", self.configuration("none"), f"model.path={self.model}").stdout.startswith(str(self.model)))
        none.mkdir()
        before = keel("eval", self.configuration("none"))
        self.assert_exit(before, 0)
        self.assertTrue(before.stdout.startswith(str(self.model)), before.stdout)
        self.assertIn(f"{none} has no checkpoint: evaluating the model before training", before.stderr)
        none.rmdir()
        where = keel("eval", self.folder / "old" / "config.yaml")
        self.assertTrue(where.stdout.startswith(f"{self.folder}/old/checkpoints/step-"), where.stdout)
        shutil.copytree(self.folder / "old", self.folder / "copy")
        (self.folder / "old").rename(self.folder / "new")
        for name in ("copy", "new"):
            result = keel("eval", self.folder / name / "config.yaml")
            self.assert_exit(result, 0)
            self.assertEqual(result.stdout, where.stdout.replace("/old/", f"/{name}/"))
            self.assertIn(f"is {self.folder}/old; using the run that the file is in, {self.folder}/{name}", result.stderr)

    def test_a_run_follows_its_moved_files(self):
        def place(folder):
            return (f"model.path={folder / self.model.name}", f'data.files=["{folder / self.data.name}"]',
                    f'data.eval_files=["{folder / self.data.name}"]', f'reward.functions=["python:{folder / self.reward.name}:compute_score"]')

        project, new = self.folder / "project", self.folder / "new"
        project.mkdir()
        for path in (self.model, self.data, self.reward):
            path.rename(project / path.name)
        for name, sections in (("whole weights", {}), ("adapter", {"lora": {"rank": 2}})):
            with self.subTest(name):
                self.assert_exit(self.train("run", *place(project), "train.steps=1", "--overwrite", **sections), 0)
                project.rename(new)
                config = self.folder / "run" / "config.yaml"
                self.assert_exit(keel("train", config, "--resume", "train.steps=2", *place(new)), 0)
                # Their contents must be unchanged.
                rows = (new / self.data.name).read_text()
                (new / self.data.name).write_text(rows.replace("sums", "SUMS"))
                self.assert_refused(keel("train", config, "--resume", "train.steps=3"), 3, "data.files: the rows are not those")
                (new / self.data.name).write_text(rows)
                other = keel("train", config, "--resume", "train.steps=3", f'data.files=["{self.folder}/other.jsonl"]')
                self.assert_refused(other, 2, "data.files", "other settings")
                new.rename(project)

    def test_another_reward_is_not_a_moved_file(self):
        judge = self.write("judge.py", "import json, sys\nfor line in sys.stdin:\n    print(json.dumps([1] * len(json.loads(line)"
                           "['completions'])), flush=True)\n")
        other = shutil.copy(judge, self.folder / "other.py")
        for then, now in (("pattern:.*</think>.*</answer>", "pattern:.*</b>OTHER</answer>"),
                          (f"exec:python3 {judge} {self.data}", f"exec:python3 {other} {self.data}"),
                          (f"exec:python3 {judge} --scale 1 {self.data}", f"exec:python3 {judge} --scale 9 {self.data}")):
            with self.subTest(then):
                self.assert_exit(self.train("run", "train.steps=1", "--overwrite", reward={"functions": [then]}), 0)
                resumed = self.train("run", "train.steps=2", "--resume", reward={"functions": [now]})
                self.assert_refused(resumed, 2, "reward.functions", "other settings")
                self.assert_exit(self.train("run", "train.steps=2", "--resume", reward={"functions": [then]}), 0)

    def test_another_reward_file_of_the_same_name_is_detected_by_content(self):
        self.assert_exit(self.train("run", "train.steps=1"), 0)
        there = self.folder / "there"
        there.mkdir()
        now = {"functions": [f"python:{shutil.copy(self.reward, there)}:compute_score"]}
        moved = self.train("run", "train.steps=2", "--resume", reward=now)
        self.assert_exit(moved, 0)
        self.assertNotIn("differs from", moved.stdout)
        (self.folder / "other").mkdir()
        other = self.write("other/reward.py", self.reward.read_text().replace("/ 10", "/ 20"))
        changed = self.train("run", "train.steps=3", "--resume", reward={"functions": [f"python:{other}:compute_score"]})
        self.assert_exit(changed, 0)
        self.assertRegex(changed.stdout, f"reward file {other} differs from {there}/reward.py: sha256:[0-9a-f]+ when the run was last "
                                         "started, sha256:[0-9a-f]+ now")
        self.assertEqual(changed.stdout.count(f"reward file {other}"), 1)

    def test_another_adapter_of_the_same_name_is_not_a_moved_adapter(self):
        adapters = []
        for number, name in enumerate(("one", "two")):
            self.assert_exit(self.train(name, "train.steps=1", f"run.seed={number}", lora={"rank": 2}), 0)
            adapter = self.folder / name / "checkpoints" / support.checkpoints(self.folder / name)[-1] / "adapter"
            adapters.append(shutil.copytree(adapter, self.folder / f"in {name}" / "mine"))
        self.assert_exit(self.train("run", "train.steps=1", lora={"adapter": str(adapters[0])}), 0)
        moved = shutil.copytree(adapters[0], self.folder / "moved" / "mine")
        self.assert_exit(self.train("run", "train.steps=2", "--resume", lora={"adapter": str(moved)}), 0)
        self.assert_refused(self.train("run", "train.steps=3", "--resume", lora={"adapter": str(adapters[1])}), 2, "lora.adapter",
                            str(adapters[1]), "other weights than what the run was started from", str(moved))

    def test_another_model_of_the_same_name_is_not_a_moved_model(self):
        self.assert_exit(self.train("run", "train.steps=1"), 0)
        there = self.folder / "there" / self.model.name
        shutil.copytree(self.model, there)
        self.assert_exit(self.train("run", "train.steps=2", f"model.path={there}", "--resume"), 0)
        other = self.folder / "elsewhere" / self.model.name
        shutil.copytree(self.folder / "run" / "checkpoints" / support.checkpoints(self.folder / "run")[-1], other)
        self.assert_refused(self.train("run", "train.steps=3", f"model.path={other}", "--resume"), 2, "model.path", str(other), "other weights")


if __name__ == "__main__":
    support.main()
