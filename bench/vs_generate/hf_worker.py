"""Hugging Face's side of bench/vs_generate: `generate` on the weights that Keel's side wrote.

    hf_worker.py SEQUENCES PROMPT_TOKENS NEW_TOKENS FOLDER DEVICE
"""

import json
import os
import sys
import time

PROTOCOL = os.fdopen(os.dup(1), "w", buffering=1)  # libraries print to standard error
os.dup2(2, 1)
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch  # noqa: E402
import transformers  # noqa: E402

sequences, prompt_tokens, new_tokens = (int(word) for word in sys.argv[1:4])
folder, device = sys.argv[4:6]
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
dtype = torch.float32 if device == "cpu" else torch.bfloat16
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().to(device)
prompts = torch.tensor(
    [[3 + (i * 7 + t * 5) % 50 for t in range(prompt_tokens)] for i in range(sequences)], device=device
)
# No EOS token, so every completion has its full length without a logits processor.
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
