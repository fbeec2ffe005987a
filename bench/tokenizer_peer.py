"""build/bench/bin/tokenizer compared with the Python package `tokenizers`, on one core each: processor time, alternating, fastest of three.

    scripts/python.sh bench/tokenizer_peer.py FOLDER TEXT...
"""

import os
import pathlib
import re
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402  (reads the environment)

PROGRAM = os.environ.get("KEEL_BENCH_TOKENIZER", "build/bench/bin/tokenizer")


def ours(folder, text):
    output = subprocess.run([PROGRAM, folder, text], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"encode ([0-9.]+) MB/s", output).group(1))


def theirs(folder, text):
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    lines = pathlib.Path(text).read_text("utf-8").splitlines(keepends=True)
    size = sum(len(line.encode()) for line in lines)
    start = time.process_time()
    tokenizer.encode_batch_fast(lines, add_special_tokens=False)
    return size / 1e6 / (time.process_time() - start)


folder, *texts = sys.argv[1:]
for text in texts:
    rounds = [(ours(folder, text), theirs(folder, text)) for _ in range(3)]
    a, b = (max(side) for side in zip(*rounds))
    print(f"{text}: Keel {a:.1f} MB/s, tokenizers {tokenizers.__version__} {b:.1f} MB/s, ratio {a / b:.2f}")
