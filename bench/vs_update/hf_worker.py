"""transformers' side of bench/vs_update: the update of a plain PyTorch loop, on the weights that Keel's side wrote.

    hf_worker.py SEQUENCES TOKENS FOLDER DEVICE
"""

import json
import os
import resource
import sys
import time

PROTOCOL = os.fdopen(os.dup(1), "w", buffering=1)  # libraries print to standard error
os.dup2(2, 1)
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch  # noqa: E402
import transformers  # noqa: E402

sequences, length = (int(word) for word in sys.argv[1:3])
folder, device = sys.argv[3:5]
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
# As in Keel: float32 master weights, and bf16 matmuls on a GPU.
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).train()
vocabulary = model.config.vocab_size
tokens = torch.tensor(
    [[3 + (i * 7919 + t * 31) % (vocabulary - 3) for t in range(length)] for i in range(sequences)], device=device
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, fused=True)


def update() -> float:
    with torch.autocast(device, dtype=torch.bfloat16, enabled=device != "cpu"):
        logits = model(tokens).logits[:, :-1]
    loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def peak_bytes() -> int:
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return torch.cuda.max_memory_allocated()


update()
print("ready", json.dumps({"transformers": transformers.__version__, "torch": torch.__version__}), file=PROTOCOL)
for _ in sys.stdin:
    started = time.perf_counter()
    loss = update()
    print(
        json.dumps({"seconds": time.perf_counter() - started, "loss": loss, "peak_bytes": peak_bytes()}), file=PROTOCOL
    )
