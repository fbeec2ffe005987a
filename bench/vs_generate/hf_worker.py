"""Hugging Face's side of bench/vs_generate: `generate` on the weights that Keel's side wrote.

    hf_worker.py SEQUENCES NEW_TOKENS FOLDER
"""

import json
import os
import sys
import time

PROTOCOL = os.fdopen(os.dup(1), "w", buffering=1)  # whatever libraries print goes to standard error
os.dup2(2, 1)
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch  # noqa: E402
import transformers  # noqa: E402

sequences, new_tokens, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
prompts = torch.tensor([[3 + (i * 7 + t * 5) % 50 for t in range(16)] for i in range(sequences)])
# No end of sequence: every completion has its full length, and no processor has to forbid it.
model.generation_config = transformers.GenerationConfig(
    do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=new_tokens, eos_token_id=None, pad_token_id=0
)


def sample() -> int:
    with torch.inference_mode():
        result = model.generate(prompts, attention_mask=torch.ones_like(prompts))
    return result[:, prompts.shape[1] :].numel()


sample()
print("ready", json.dumps({"transformers": transformers.__version__, "torch": torch.__version__}), file=PROTOCOL)
for _ in sys.stdin:
    started = time.perf_counter()
    tokens = sample()
    print(json.dumps({"seconds": time.perf_counter() - started, "tokens": tokens}), file=PROTOCOL)
