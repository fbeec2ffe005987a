"""The Python module's fused head on a GPU: tests/python/head_test.py with every tensor there."""

import os
import subprocess
import sys

import torch

if not torch.cuda.is_available():
    print("skipped: this torch or machine has no CUDA device")
    sys.exit(77)

script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python", "head_test.py")
sys.exit(subprocess.run([sys.executable, script], env={**os.environ, "KEEL_TEST_DEVICE": "cuda"}).returncode)
