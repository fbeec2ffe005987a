#!/usr/bin/env python3
"""Makes the start of sanity.yaml: a network after SFT, and the problems that it solves sometimes.

    examples/studies/solvable.py cpu        # or gpu; `keel` on the PATH

Writes runs/sanity-cpu/start, the SFT run, and runs/sanity-cpu/solvable.jsonl, a row (prompt, answer) for each of the first held-out
problems that is solved in some of its samples and not in all.
"""

import argparse
import json
import pathlib
import subprocess

SHAPE = ["model.hidden_size=64", "model.heads=4", "model.initializer_range=0.05", "model.max_positions=128", "task.name=chains"]
SIZES = {
    # Settings of the sizes of the other studies; number of problems; samples per problem.
    "cpu": (["model.layers=2", "task.modulus=7", "task.steps=4", "task.words=12", "task.careful=3", "task.error=0.3",
             "sft.steps=1150", "sft.stop_loss=0.31", "sft.noisy_steps=150", "run.threads=1"], 160, 8),
    "gpu": (["model.layers=3", "task.modulus=13", "task.steps=6", "task.words=24", "task.careful=6", "task.error=0.2",
             "sft.steps=1200", "sft.noisy_steps=1200", "sft.batch=256", "sft.noisy_lr=[2e-3, 2e-4]"], 2000, 16),
}


def sometimes_solved(samples):
    """Returns rows (prompt, answer) of the problems in a samples file that are solved in some samples and not in all."""
    solved = {}
    for line in samples.read_text().splitlines():
        row = json.loads(line)
        solved.setdefault((row["prompt"], str(row["gold"])), []).append(row["solved"])
    return [{"prompt": prompt, "answer": answer} for (prompt, answer), some in solved.items() if any(some) and not all(some)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("settings", nargs="*", help="further settings of SFT, such as run.device=cuda")
    parser.add_argument("--keel", default="keel", help="the program")
    parser.add_argument("--folder", type=pathlib.Path, help="default: runs/sanity-SIZE")
    arguments = parser.parse_intermixed_args()
    own, problems, tries = SIZES[arguments.size]
    folder = arguments.folder or pathlib.Path("runs") / f"sanity-{arguments.size}"
    options = dict(setting.split("=", 1) for setting in (*SHAPE, *own, f"run.dir={folder / 'start'}", *arguments.settings))  # later settings override
    settings = [f"{name}={value}" for name, value in options.items()]
    subprocess.run([arguments.keel, "train", *settings, "train.steps=0", "eval.prompts=0", "--overwrite"], check=True)
    samples = folder / "samples.jsonl"
    subprocess.run([arguments.keel, "eval", folder / "start" / "config.yaml", f"eval.prompts={problems}", f"eval.samples={tries}",
                    "--samples", samples], check=True)
    rows = sometimes_solved(samples)
    (folder / "solvable.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows)} of {problems} problems are solved in some of {tries} samples and not in all: {folder / 'solvable.jsonl'}")


if __name__ == "__main__":
    main()
