"""The quickstart on a GPU, which it uses by default: it must learn by the margin that it learns on a CPU. Prints the seconds it took.

A run with run.device=cpu warns of the GPU."""

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
    output = subprocess.run([binary, "quickstart", f"run.dir={run}"], check=True, stdout=subprocess.PIPE, text=True).stdout
    seconds = time.monotonic() - begin
    assert output.startswith("device: cuda:0"), output
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    accuracy = [row["eval/accuracy"] for row in rows if row["phase"] == "eval"]
    rl = [row for row in rows if row["phase"] == "rl"]
    rl_seconds = sum(row["time/step"] for row in rl)
    print(f"quickstart on cuda: {seconds:.1f} s in all, RL {rl_seconds:.1f} s, accuracy {accuracy[0]:.3f} -> {accuracy[-1]:.3f}")
    assert accuracy[-1] >= 0.75, accuracy
    assert accuracy[-1] - accuracy[0] >= 0.35, accuracy
    # Reserved memory and CUDA itself come on top of the tensors; the allocator reserves blocks of 2 MiB.
    overhead = rl[-1]["memory/device_peak_bytes"] - rl[-1]["memory/peak_bytes"]
    assert 2**28 < overhead < 2**31, overhead

    on_cpu = [binary, "quickstart", "run.device=cpu", f"run.dir={folder}/cpu", "sft.steps=1", "train.steps=0", "eval.prompts=0"]
    result = subprocess.run(on_cpu, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert "run.device is cpu, but this machine has a GPU" in result.stdout, result.stdout
