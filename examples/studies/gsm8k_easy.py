#!/usr/bin/env python3
"""Selects the problems of real_model.yaml: those of GSM8K that the start model solves at least once in 8 samples.

    examples/studies/gsm8k_easy.py SmolLM2-135M-Instruct.gguf gsm8k/train.jsonl gsm8k/test.jsonl run.device=cuda     # `keel` on the PATH

Writes runs/gsm8k-easy/train.jsonl and test.jsonl, the selected rows of GSM8K's files. It samples whole files at the temperature of the
study, and does not repeat a file that is done.
"""

import argparse
import json
import pathlib
import subprocess

# These settings equal those of real_model.yaml, because they decide which problems are solved.
SETTINGS = ["data.chat=always", "data.max_prompt_tokens=512", "reward.functions=[math]", "rollout.max_new_tokens=256", "eval.samples=8",
            "eval.temperature=0.7"]


def solved_rows(file, samples):
    """Returns the rows of a file with a solved sample; `keel eval` numbers prompts by their rows."""
    rows = file.read_text(encoding="utf-8").splitlines()
    solved = set()
    for line in samples.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        assert json.loads(rows[sample["prompt_id"]])["question"] in sample["prompt"], f"sample of another row than {sample['prompt_id']}"
        if sample["solved"]:
            solved.add(sample["prompt_id"])
    return [rows[number] for number in sorted(solved)], len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("train", type=pathlib.Path)
    parser.add_argument("test", type=pathlib.Path)
    parser.add_argument("settings", nargs="*", help="further settings, as run.device=cuda")
    parser.add_argument("--keel", default="keel", help="the program")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("runs/gsm8k-easy"))
    arguments = parser.parse_intermixed_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, file in (("train", arguments.train), ("test", arguments.test)):
        easy, samples = arguments.folder / f"{name}.jsonl", arguments.folder / f"{name}-samples.jsonl"
        if easy.exists():
            continue
        config = arguments.folder / f"{name}-eval.json"
        config.write_text(json.dumps({"data": {"eval_files": [str(file)]}}))
        subprocess.run([arguments.keel, "eval", config, "--model", arguments.model, "--samples", samples, *SETTINGS, *arguments.settings], check=True)
        rows, tried = solved_rows(file, samples)
        partial = easy.with_suffix(".partial")
        partial.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
        partial.rename(easy)
        print(f"{easy}: {len(rows)} of {tried} problems")


if __name__ == "__main__":
    main()
