"""`keel eval` of SmolLM2-135M-Instruct on problems of GSM8K: it runs end to end, and its scores match the
package math-verify on the same completions. It needs test.jsonl in $KEEL_GSM8K, else it is skipped."""

import json
import os
import pathlib
import subprocess
import tempfile

from packages import ROOT, count, skip, smollm2, use

KEEL = os.environ["KEEL_BINARY"]
PROBLEMS = count(4, 50)
# Accepted differences, explained in docs/math-verifier.md. With greedy decoding there are none among these 50.
EXPLAINED = set()


def main():
    data = pathlib.Path(os.environ.get("KEEL_GSM8K", ROOT.parent / "shared" / "data" / "gsm8k")) / "test.jsonl"
    if not data.exists():
        skip(f"GSM8K is not here ({data}); KEEL_GSM8K names its folder")
    gguf = smollm2()
    use("math-verify")
    from math_verify import parse, verify

    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "eval.json"
        config.write_text(json.dumps({
            "data": {"files": [str(data)]}, "reward": {"functions": ["math"]},
            "rollout": {"max_new_tokens": 160}, "eval": {"prompts": PROBLEMS, "temperature": 0}}))
        samples = pathlib.Path(folder) / "samples.jsonl"
        out = subprocess.run([KEEL, "eval", str(config), "--model", str(gguf), "--json", "--samples", str(samples)], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        rows = [json.loads(line) for line in samples.read_text().splitlines()]
    answers = [json.loads(line)["answer"] for line in data.read_text().splitlines()[:PROBLEMS]]
    assert len(rows) == PROBLEMS
    different = set()
    for row, answer in zip(rows, answers):
        gold = answer.split("####")[-1].strip()
        theirs = bool(verify(parse(gold), parse(row["completion"])))
        if theirs != (row["reward"] == 1):
            different.add(row["prompt_id"])
            print(f"problem {row['prompt_id']}: Keel {row['reward']}, math-verify {theirs}; gold {gold}; read as "
                  f"{row['answer']!r}; completion ends {row['completion'][-160:]!r}")
    (source,) = json.loads(out)["sources"].values()
    right = sum(row["reward"] for row in rows)
    assert abs(source["avg@1"]["mean"] - right / PROBLEMS) < 1e-9
    print(f"{PROBLEMS} problems, {right:.0f} right, {len(different)} judgements differ from math-verify's")
    assert different <= EXPLAINED, different


main()
