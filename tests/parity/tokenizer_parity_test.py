"""Tokenizer folders written by Keel's tests, judged by Hugging Face's libraries (tokenizer_parity.py)."""

import os
import subprocess
import sys
import tempfile

tests = os.path.join(os.path.dirname(os.environ["KEEL_BINARY"]), "tests", "keel_tests")
judge = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer_parity.py")
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([tests, "--gtest_filter=*Tokenizer*:*Chains*"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "KEEL_PARITY_FOLDER": folder})
    names = sorted(os.listdir(folder))
    assert names, "no folder was written"
    for name in names:
        result = subprocess.run([sys.executable, judge, os.path.join(folder, name)])
        if result.returncode != 0:
            sys.exit(result.returncode)
