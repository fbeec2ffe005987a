"""The quickstart on a GPU: it must learn by the margin that it learns on a CPU. Prints the seconds it took."""

import json
import os
import subprocess
import sys
import tempfile
import time

binary = os.environ["KEEL_BINARY"]
if " device cuda" not in subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout:
    print("skipped: this build or machine has no CUDA device")
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    run = os.path.join(folder, "run")
    begin = time.monotonic()
    subprocess.run([binary, "quickstart", "run.device=cuda", f"run.dir={run}"], check=True)
    seconds = time.monotonic() - begin
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    accuracy = [row["eval/accuracy"] for row in rows if row["phase"] == "eval"]
    rl = [row for row in rows if row["phase"] == "rl"]
    rl_seconds = sum(row["time/step"] for row in rl)
    print(f"quickstart on cuda: {seconds:.1f} s in all, RL {rl_seconds:.1f} s, accuracy {accuracy[0]:.3f} -> {accuracy[-1]:.3f}")
    assert accuracy[-1] >= 0.75, accuracy
    assert accuracy[-1] - accuracy[0] >= 0.35, accuracy
