"""DPPO on a Hugging Face model in a plain PyTorch loop: a tiny Llama learns from rewards to double a digit.

    pip install torch transformers && pip install . && python examples/hf_loop.py

The loss starts from hidden states and never holds all logits. It takes about 20 seconds on one core and ends with a reward of at least 0.9.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import keel.hf

STOP, START, MAX_TOKENS, PROMPTS, SAMPLES = 10, 11, 3, 10, 16
torch.set_num_threads(1)  # a second thread slows such a small network
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=12, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                     eos_token_id=STOP, pad_token_id=STOP, bos_token_id=START, tie_word_embeddings=False))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def reward(digit, tokens):
    expected = [int(figure) for figure in str(2 * digit)] + [STOP]
    return sum(got == right for got, right in zip(tokens, expected)) / len(expected)


for step in range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 80)):
    digits = torch.arange(PROMPTS).repeat_interleave(SAMPLES)
    prompts = torch.stack([digits, torch.full_like(digits, START)], 1)
    with torch.no_grad():
        answers = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=True, top_k=0, max_new_tokens=MAX_TOKENS,
                                 min_new_tokens=MAX_TOKENS, eos_token_id=None)[:, 2:]
    mask = torch.cat([torch.ones_like(answers[:, :1]), (answers[:, :-1] != STOP).long().cumprod(1)], 1)  # up to the first stop token
    rewards = torch.tensor([reward(digit.item(), row.tolist()) for digit, row in zip(digits, answers)])
    groups = torch.arange(PROMPTS).repeat_interleave(SAMPLES)
    batch = dict(prompt_ids=prompts, prompt_mask=torch.ones_like(prompts), completion_ids=answers, completion_mask=mask,
                 advantages=keel.advantages("group_mean", rewards=rewards, groups=groups))
    batch["behavior_logp"] = keel.hf.log_probs(model, batch)
    for _ in range(4):  # several updates per batch: the policy moves away from the sampler, limited by the trust region
        out = keel.hf.fused_policy_loss(model, batch, method="dppo_tv", horizon=MAX_TOKENS, entropy_coefficient=0.02)
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: reward {rewards.mean():.2f}, blocked {(~out.decision.keep).float().mean():.1%}")
