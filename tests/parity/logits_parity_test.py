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
        logits = {}
        for dtype in ("float32", "bfloat16", "float16"):
            model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype)).eval()
            with torch.no_grad():
                logits[dtype] = model(expected["tokens"].unsqueeze(0)).logits[0].float()
        worst = (logits["float32"] - expected["float32"]).abs().max().item()
        print(f"{name}: {tuple(expected['float32'].shape)} logits, largest difference {worst:.1e}, "
              f"spread {logits['float32'].std():.2f}")
        assert worst < 1e-4, (name, worst)
        assert torch.equal(logits["float32"].argmax(-1), expected["float32"].argmax(-1)), name
        # In low precision both differ from float32 and from each other by rounding. Keel is rarely farther from
        # float32, because it computes RoPE and sums logits in float32.
        for dtype, unit in (("bfloat16", 2.0**-8), ("float16", 2.0**-11)):
            for of in (lambda x: x, lambda x: x.log_softmax(-1)):
                exact, theirs, ours = of(logits["float32"]), of(logits[dtype]), of(expected[dtype])
                limit = 6 * unit * exact.std().item()
                far = {key: (a - b).pow(2).mean().sqrt().item()
                       for key, a, b in (("ours", ours, exact), ("theirs", theirs, exact), ("apart", ours, theirs))}
                print(f"  {dtype}: " + ", ".join(f"{key} {value:.1e}" for key, value in far.items()), f"limit {limit:.1e}")
                assert 0 < far["ours"] < min(limit, 1.2 * far["theirs"]) and far["apart"] < limit, (name, dtype, far)
