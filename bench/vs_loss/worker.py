"""One side of bench/vs_loss: the same model and batch, and a loss with its gradients at each step.

    worker.py keel|trl|liger FOLDER
"""

import json
import os
import resource
import sys
from importlib.metadata import version
from pathlib import Path

PROTOCOL = os.fdopen(os.dup(1), "w", buffering=1)  # whatever libraries print goes to standard error
os.dup2(2, 1)

import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

SEQUENCES, PROMPT, COMPLETION, CLIP = 4, 32, 128, 0.2


def make_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=9, num_key_value_heads=3,
        tie_word_embeddings=False)).train()


def make_batch(model: LlamaForCausalLM) -> dict:
    """Completions whose sampler was a little off the model, so that the clip has something to do."""
    torch.manual_seed(1)
    prompts, completions = (torch.randint(49_152, (SEQUENCES, n)) for n in (PROMPT, COMPLETION))
    with torch.no_grad():
        logits = model(torch.cat([prompts, completions], 1)).logits[:, PROMPT - 1:-1]
        logp = torch.log_softmax(logits, -1).gather(-1, completions[..., None])[..., 0]
    return dict(prompt_ids=prompts, prompt_mask=torch.ones_like(prompts), completion_ids=completions,
                completion_mask=torch.ones_like(completions), behavior_logp=logp + 0.2 * torch.randn_like(logp),
                advantages=torch.randn(SEQUENCES))


def keel_loss(model, batch):
    import keel.hf
    return keel.hf.fused_policy_loss(model, batch, "ppo", {"low": CLIP, "high": CLIP}, aggregation="token_mean").loss


def trl_loss(model, batch):
    """What GRPOTrainer does of one micro-batch: its fused head, log-probabilities and entropies, and the clip on them."""
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
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_bytes() -> int:
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

    step()
    facts = {"name": f"{package} {version(package)}", "apart": apart(kind, model.lm_head.weight.grad, folder / "keel.pt")}
    for _ in range(2):
        step()  # gradients are there from now on, as in training
    held = held_bytes()
    print("ready", json.dumps(facts), file=PROTOCOL)
    for _ in sys.stdin:
        Path("/proc/self/clear_refs").write_text("5")
        step()
        print(json.dumps({"peak_bytes": peak_bytes() - held}), file=PROTOCOL)


if __name__ == "__main__":
    main()
