"""DPPO on a Hugging Face model in a plain PyTorch loop: a tiny Llama learns, from rewards alone, to answer a digit with its double.

    pip install torch transformers && pip install . && python examples/hf_loop.py

The loss begins at the hidden states and never holds all logits. About 20 seconds on one core; the last line says a reward of 0.9 or more.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import keel.hf

STOP, START, LONGEST, PROMPTS, SAMPLES = 10, 11, 3, 10, 16
torch.set_num_threads(1)  # a network this small gains nothing from a second one, and waits for it
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=12, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                     eos_token_id=STOP, pad_token_id=STOP, bos_token_id=START, tie_word_embeddings=False))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def reward(digit, tokens):
    wanted = [int(figure) for figure in str(2 * digit)] + [STOP]
    return sum(got == right for got, right in zip(tokens, wanted)) / len(wanted)


for step in range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 80)):
    digits = torch.arange(PROMPTS).repeat_interleave(SAMPLES)
    prompts = torch.stack([digits, torch.full_like(digits, START)], 1)
    with torch.no_grad():
        answers = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=True, top_k=0, max_new_tokens=LONGEST,
                                 min_new_tokens=LONGEST, eos_token_id=None)[:, 2:]
    there = torch.cat([torch.ones_like(answers[:, :1]), (answers[:, :-1] != STOP).long().cumprod(1)], 1)  # up to the first stop
    rewards = torch.tensor([reward(digit.item(), row.tolist()) for digit, row in zip(digits, answers)])
    groups = torch.arange(PROMPTS).repeat_interleave(SAMPLES)
    batch = dict(prompt_ids=prompts, prompt_mask=torch.ones_like(prompts), completion_ids=answers, completion_mask=there,
                 advantages=keel.advantages("group_mean", rewards=rewards, groups=groups))
    batch["behavior_logp"] = keel.hf.log_probs(model, batch)
    for _ in range(4):  # updates on one batch: the policy moves away from the one that sampled, and the region holds it
        out = keel.hf.fused_policy_loss(model, batch, method="dppo_tv", horizon=LONGEST, entropy_coefficient=0.02)
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: reward {rewards.mean():.2f}, blocked {(~out.decision.keep).float().mean():.1%}")
