"""One side of bench/vs_loss: the same model and batch, and a loss with its gradients at each step.

    worker.py keel|trl|liger FOLDER cpu|cuda
"""

import json
import os
import resource
import sys
from importlib.metadata import version
from pathlib import Path

PROTOCOL = os.fdopen(os.dup(1), "w", buffering=1)  # libraries print to standard error
os.dup2(2, 1)

import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

DEVICE = sys.argv[3]
SEQUENCES, PROMPT, COMPLETION, CLIP = (4, 32, 128, 0.2) if DEVICE == "cpu" else (16, 512, 512, 0.2)


def make_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = dict(vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=9,
                 num_key_value_heads=3)
    if DEVICE != "cpu":
        shape = dict(vocab_size=151_936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                     num_key_value_heads=2)
    model = LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=False)).train()
    return model.to(DEVICE, torch.float32 if DEVICE == "cpu" else torch.bfloat16)


def make_batch(model: LlamaForCausalLM) -> dict:
    """Completions of a sampler that differs slightly from the model, so that some tokens are clipped."""
    torch.manual_seed(1)
    prompts, completions = (torch.randint(model.config.vocab_size, (SEQUENCES, n), device=DEVICE) for n in (PROMPT, COMPLETION))
    logp = []
    with torch.no_grad():
        for row in torch.cat([prompts, completions], 1).split(1):  # one at a time, to save memory for logits
            logits = model(row).logits[:, PROMPT - 1:-1].float()
            logp.append(torch.log_softmax(logits, -1).gather(-1, row[:, PROMPT:, None])[..., 0])
    logp = torch.cat(logp)
    return dict(prompt_ids=prompts, prompt_mask=torch.ones_like(prompts), completion_ids=completions,
                completion_mask=torch.ones_like(completions), behavior_logp=logp + 0.2 * torch.randn_like(logp),
                advantages=torch.randn(SEQUENCES, device=DEVICE))


def keel_loss(model, batch):
    import keel.hf
    return keel.hf.fused_policy_loss(model, batch, "ppo", {"low": CLIP, "high": CLIP}, aggregation="token_mean").loss


def trl_loss(model, batch):
    """GRPOTrainer's loss of one micro-batch: fused head, log-probabilities, entropies and clip."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    labels = ids.clone()
    labels[:, :PROMPT] = -100
    logp = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels, fused_lm_head=True).log_probs[:, -COMPLETION:]
    ratio, advantages = torch.exp(logp - batch["behavior_logp"]), batch["advantages"][:, None]
    return -torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages).mean()


def liger_loss(model, batch):
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    hidden = model.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).last_hidden_state[:, PROMPT - 1:-1]
    loss = LigerFusedLinearGRPOLoss(beta=0.0, use_ref_model=False, compiled=False, epsilon_low=CLIP, epsilon_high=CLIP, loss_type="bnpo")
    return loss(hidden, model.lm_head.weight, batch["completion_ids"], batch["completion_mask"], batch["advantages"],
                old_per_token_logps=batch["behavior_logp"])[0]


def held_bytes() -> int:
    if DEVICE != "cpu":
        return torch.cuda.memory_allocated()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def forget_peak() -> None:
    if DEVICE != "cpu":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    if DEVICE != "cpu":
        return torch.cuda.max_memory_allocated()
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024


def apart(kind: str, gradient: torch.Tensor, file: Path) -> dict:
    """The 2-norm of the difference of the head's gradients over that of Keel's. Of a blocked token PPO's loss has the clip's value and
    no gradient, so that losses say nothing."""
    if kind == "keel":
        torch.save(gradient, file)
        return {}
    other = torch.load(file)
    return {"gradient": ((gradient - other).norm() / other.norm()).item()}


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model, work = make_model(), {"keel": keel_loss, "trl": trl_loss, "liger": liger_loss}[kind]
    batch = make_batch(model)
    package = {"keel": "torch", "trl": "trl", "liger": "liger-kernel"}[kind]
    if kind == "trl":
        from trl.trainer.utils import add_fused_lm_head
        add_fused_lm_head(model, outputs=("log_probs", "entropy"))

    def step():
        work(model, batch).backward()
        if DEVICE != "cpu":
            torch.cuda.synchronize()

    step()
    facts = {"name": f"{package} {version(package)}", "apart": apart(kind, model.lm_head.weight.grad.float(), folder / "keel.pt")}
    for _ in range(2):
        step()  # allocates the gradients, as in training
    held = held_bytes()
    print("ready", json.dumps(facts), file=PROTOCOL)
    for _ in sys.stdin:
        forget_peak()
        step()
        print(json.dumps({"peak_bytes": peak_bytes() - held}), file=PROTOCOL)


if __name__ == "__main__":
    main()
