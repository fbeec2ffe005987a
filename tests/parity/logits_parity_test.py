"""Folders written by Keel load in Hugging Face transformers and give the same logits, for several shapes."""

import os
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

tests = os.path.join(os.path.dirname(os.environ["KEEL_BINARY"]), "tests", "keel_tests")
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([tests, "--gtest_filter=LogitsParity.*"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "KEEL_PARITY_FOLDER": folder})
    names = sorted(os.listdir(folder))
    assert len(names) == 4, names
    for name in names:
        path = os.path.join(folder, name)
        expected = load_file(os.path.join(path, "expected.safetensors"))
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        with torch.no_grad():
            logits = model(expected["tokens"].unsqueeze(0)).logits[0]
        worst = (logits - expected["logits"]).abs().max().item()
        print(f"{name}: {tuple(logits.shape)} logits, largest difference {worst:.1e}, spread {logits.std():.2f}")
        assert worst < 1e-4, (name, worst)
        assert torch.equal(logits.argmax(-1), expected["logits"].argmax(-1)), name
