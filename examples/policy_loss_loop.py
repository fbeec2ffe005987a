"""DPPO in a PyTorch loop: a small network learns from rewards to double a digit.

    . scripts/env.sh && scripts/python.sh examples/policy_loss_loop.py        (or any Python with `pip install .`)

Sampling and training are plain PyTorch; `keel.policy_loss` is the trust region. Tensors are padded [B, T] with a mask, as in
most trainers. It takes about ten seconds on one core and ends with a mean reward of at least 0.9.
"""

import argparse

import torch

import keel

DIGITS, STOP, START = 10, 10, 11
VOCABULARY, MAX_TOKENS, PROMPTS, SAMPLES = 12, 3, 16, 8
torch.set_num_threads(1)  # a second thread slows such a small network


class Network(torch.nn.Module):
    """Maps the question and the tokens so far to the logits of the next token."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 64)
        self.cell = torch.nn.GRU(64, 64, batch_first=True)
        self.head = torch.nn.Linear(64, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.cell(self.embedding(tokens))[0])


def sample(network, prompts):
    """Returns completions [B, T] of prompts [B], the log-prob of each sampled token, and the mask."""
    tokens, logps, mask = [], [], []
    tokens_so_far = torch.stack([prompts, torch.full_like(prompts, START)], 1)
    active = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(MAX_TOKENS):
        distribution = torch.distributions.Categorical(logits=network(tokens_so_far)[:, -1])
        token = distribution.sample()
        tokens.append(token)
        logps.append(distribution.log_prob(token))
        mask.append(active)
        active = active & (token != STOP)
        tokens_so_far = torch.cat([tokens_so_far, token[:, None]], 1)
    return torch.stack(tokens, 1), torch.stack(logps, 1), torch.stack(mask, 1)


def reward(prompt, tokens):
    """Returns the fraction of correct digits of the doubled number, the stop token included."""
    expected = [int(digit) for digit in str(2 * int(prompt))] + [STOP]
    return sum(got == right for got, right in zip(tokens.tolist(), expected)) / len(expected)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", default="dppo_tv")
    parser.add_argument("--steps", type=int, default=150)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    recent = []
    for step in range(arguments.steps):
        prompts = torch.randint(DIGITS, (PROMPTS,)).repeat_interleave(SAMPLES)
        with torch.no_grad():
            tokens, behavior_logp, mask = sample(network, prompts)
        rewards = torch.tensor([reward(prompt, row) for prompt, row in zip(prompts, tokens)])
        groups = torch.arange(PROMPTS).repeat_interleave(SAMPLES)
        advantages = keel.advantages("group_mean", rewards=rewards, groups=groups)
        for _ in range(4):  # several updates per batch: the policy moves away from the sampler, limited by the trust region
            inputs = torch.cat([torch.stack([prompts, torch.full_like(prompts, START)], 1), tokens[:, :-1]], 1)
            logp = torch.log_softmax(network(inputs)[:, 1:], -1).gather(-1, tokens[..., None])[..., 0]
            loss = keel.policy_loss(arguments.method, logp=logp, behavior_logp=behavior_logp, advantages=advantages, mask=mask,
                                    horizon=MAX_TOKENS)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        recent = (recent + [rewards.mean().item()])[-10:]
        if (step + 1) % 25 == 0:
            print(f"step {step + 1}: reward {rewards.mean():.2f}")
    print(f"mean reward {sum(recent) / len(recent):.2f} in the last {len(recent)} steps")


if __name__ == "__main__":
    main()
