"""The studies under examples/studies: the commands in their headers are valid, and their variants match the papers. The full form runs
all of them in a small size."""

import csv
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import support
import yaml

STUDIES = support.ROOT / "examples" / "studies"
# Two steps of a tiny network per variant.
SMALL = ["study.seeds=1", "study.last=1", "base.train.steps=2", "base.eval.prompts=4", "base.train.prompts_per_step=4",
         "base.train.sequences_per_update=8", "base.rollout.samples_per_prompt=4"]
TINY_NETWORK = ["base.model.hidden_size=16", "base.model.heads=2", "base.model.layers=1", "base.sft.steps=6", "base.sft.noisy_steps=2",
                "base.sft.stop_loss=0", "base.sft.batch=8"]


def study_commands(file):
    """The arguments of each `keel study` command in the header of a file."""
    return [shlex.split(line, comments=True)[2:] for line in re.findall(r"^#   (keel study .*)$", file.read_text(), re.MULTILINE)]


def objectives(name):
    """The method and the other objective settings of each variant."""
    variants = yaml.safe_load((STUDIES / f"{name}.yaml").read_text())["variants"]
    return {variant: dict(settings["objective"]) for variant, settings in variants.items()}


class StudyExamples(support.Test):
    def test_the_commands_in_the_headers_are_valid(self):
        files = sorted(STUDIES.glob("*.yaml"))
        self.assertGreaterEqual(len(files), 10)
        for file in files:
            commands = study_commands(file)
            sizes = set(yaml.safe_load(file.read_text()).get("sizes", {}))
            self.assertLessEqual(set() if file.stem == "real_model" else {"cpu", "gpu"}, sizes, file)
            self.assertEqual({words[words.index("--size") + 1] for words in commands if "--size" in words}, sizes, file)
            for words in commands:
                self.assertEqual(words[0], f"examples/studies/{file.name}")
                result = support.keel("study", *words, "--explain", cwd=support.ROOT)
                self.assert_exit(result, 0)
                if not any(word.startswith("study.dir=") for word in words):
                    size = f"-{words[words.index('--size') + 1]}" if sizes else ""
                    self.assertIn(f"folder: studies/{file.stem}{size}\n", result.stdout)

    def test_batches_are_shuffled_by_rollouts(self):
        for file in STUDIES.glob("*.yaml"):
            self.assertEqual(yaml.safe_load(file.read_text())["base"]["train"]["shuffle"], "rollouts", file)

    def test_the_variants_match_the_papers(self):
        self.assertEqual({each["method"] for each in objectives("stability").values()},
                         {"pg_is", "pg_tis", "grpo_clip_higher", "minirl", "spo", "dppo_tv", "dppo_kl", "dppo_topk_tv", "drpo"})
        centered = objectives("centering")
        for name in ("pg_tis", "grpo_clip_higher", "dppo_tv", "drpo"):
            self.assertEqual(centered.pop(f"{name}_centered"), {**centered[name], "centering": "exact"})
            self.assertEqual(centered.pop(name), objectives("stability")[name])
        self.assertEqual(centered, {})
        self.assertEqual([each["delta"] for each in objectives("drpo_delta").values() if each["method"] == "drpo"], [0.05, 0.15, 0.5, 1, 2.5, 12.5])
        thresholds = objectives("thresholds").values()
        self.assertEqual([each["delta"] for each in thresholds if each["method"] == "dppo_tv"], [0.05, 0.1, 0.15, 0.2, 0.3])
        self.assertEqual([each["delta"] for each in thresholds if each["method"] == "dppo_kl"], [0.01, 0.05, 0.1, 0.15])
        relaxed = [(each["method"], *each["parameters"]) for each in objectives("clipped_tokens").values() if "relax" in each["method"]]
        self.assertEqual(set(relaxed), {(f"grpo_relax_{side}", f"alpha={alpha}") for side in ("both", "high", "low") for alpha in (0.1, 0.3, 0.5, 0.7)})

    def test_the_sanity_test_selects_problems_solved_sometimes(self):
        sys.path.append(str(STUDIES))
        import chain_answer
        import solvable
        samples = self.folder / "samples.jsonl"
        solved = {"a": [True, False], "b": [False, False], "c": [True, True], "d": [False, True]}
        samples.write_text("".join(json.dumps({"prompt": prompt, "gold": 3, "solved": each}) + "\n" for prompt, some in solved.items() for each in some))
        self.assertEqual(solvable.sometimes_solved(samples), [{"prompt": "a", "answer": "3"}, {"prompt": "d", "answer": "3"}])
        self.assertEqual(chain_answer.chain_answer(["so 1 + 2 = 3 ; ANS 3", "ANS 3 ;", "3", "", "ANS 4"], ["3"] * 5), [1, 0, 0, 0, 0])

    def test_the_real_model_study_selects_problems_solved_at_least_once(self):
        sys.path.append(str(STUDIES))
        import gsm8k_easy
        rows, samples = self.folder / "rows.jsonl", self.folder / "samples.jsonl"
        rows.write_text("".join(json.dumps({"question": f"What is {n}?", "answer": f"#### {n}"}) + "\n" for n in range(3)))
        samples.write_text("".join(json.dumps({"prompt_id": n, "prompt": f"user: What is {n}?", "solved": solved}) + "\n"
                                   for n, solved in ((0, False), (0, True), (1, False), (2, True), (2, True))))
        easy, tried = gsm8k_easy.solved_rows(rows, samples)
        self.assertEqual(([json.loads(row)["answer"] for row in easy], tried), (["#### 0", "#### 2"], 3))

    def test_committed_tables_have_the_variants_of_their_files(self):
        for table in STUDIES.glob("results/*/runs.csv"):
            name = table.parent.name.split("-")[0]
            with open(table, newline="") as file:
                variants = {row["variant"] for row in csv.DictReader(file)}
            expected = set(objectives(name))
            if table.parent.name in ("mismatch_removed-gpu_c2", "mismatch_removed-gpu_c5"):  # the cap of DPPO, so the others did not run
                expected = {variant for variant in expected if variant.startswith("dppo_")}
            self.assertEqual(variants, expected, table)

    def test_all_studies_run(self):
        """The short form runs one study with a vocabulary of thousands. The full form runs all studies without a pretrained model, and
        the sanity test from its first command on."""
        place = pathlib.Path(shutil.copytree(STUDIES, self.folder / "examples" / "studies"))
        names = support.count(["divergences"], sorted(file.stem for file in STUDIES.glob("*.yaml") if file.stem != "real_model"))
        for name in names:
            size = "cpu_words" if name == "divergences" else "cpu"
            settings = SMALL + TINY_NETWORK
            if name == "sanity":
                made = subprocess.run([sys.executable, place / "solvable.py", "cpu", "--keel", support.KEEL, "sft.stop_loss=0.4"], cwd=self.folder)
                self.assertEqual(made.returncode, 0)
                settings = SMALL
            result = support.keel("study", f"examples/studies/{name}.yaml", "--size", size, "study.jobs=2", *settings, cwd=self.folder)
            self.assert_exit(result, 0)
            with open(self.folder / "studies" / f"{name}-{size}" / "runs.csv", newline="") as file:
                self.assertEqual([row["variant"] for row in csv.DictReader(file)], list(objectives(name)))
            self.assertIn("</svg>", (self.folder / "studies" / f"{name}-{size}" / "curves.svg").read_text())


if __name__ == "__main__":
    support.main()
