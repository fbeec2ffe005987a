"""PyTorch's side of bench/vs_head: the same rows with full logits or in chunks, and the difference of the results.

    torch_worker.py torch|liger FOLDER DEVICE
"""

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROTOCOL = os.fdopen(os.dup(1), "w", buffering=1)  # libraries print to standard error
os.dup2(2, 1)

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402


@dataclass
class Inputs:
    """The inputs written by Keel's side; `advantages` per sequence, `hidden` with the rows of all sequences in order."""

    hidden: torch.Tensor
    weight: torch.Tensor
    targets: torch.Tensor
    advantages: torch.Tensor

    def coefficient(self) -> torch.Tensor:
        rows = len(self.hidden)
        return (self.advantages / rows).repeat_interleave(rows // len(self.advantages))


def of_rows(inputs: Inputs, hidden: torch.Tensor, targets: torch.Tensor, coefficient: torch.Tensor) -> dict:
    """Plain PyTorch: all logits and autograd."""
    hidden = hidden.detach().requires_grad_()
    every_logp = torch.log_softmax(hidden @ inputs.weight.T, -1, dtype=torch.float32)
    logp = every_logp.gather(-1, targets[:, None]).squeeze(-1)
    with torch.no_grad():
        entropy = -every_logp.exp().mul_(every_logp).sum(-1)
        other_logp = torch.log(-torch.expm1(logp))
    loss = -(coefficient * logp).sum()
    del every_logp  # lets backward free it
    hidden_gradient, weight_gradient = torch.autograd.grad(loss, (hidden, inputs.weight))
    return {
        "logp": logp.detach(),
        "other_logp": other_logp,
        "entropy": entropy,
        "hidden_gradient": hidden_gradient.float(),
        "weight_gradient": weight_gradient.float(),
    }


def full_logits(inputs: Inputs) -> dict:
    return of_rows(inputs, inputs.hidden, inputs.targets, inputs.coefficient())


def in_chunks(inputs: Inputs) -> dict:
    """Liger's algorithm: computes loss and gradient sequence by sequence, while the logits are in memory."""
    rows = len(inputs.hidden) // len(inputs.advantages)
    weight_gradient = torch.zeros_like(inputs.weight, dtype=torch.float32, requires_grad=False)
    chunks = []
    parts = (x.split(rows) for x in (inputs.hidden, inputs.targets, inputs.coefficient()))
    for hidden, targets, coefficient in zip(*parts):
        chunks.append(of_rows(inputs, hidden, targets, coefficient))
        weight_gradient += chunks[-1].pop("weight_gradient")
    return {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]} | {
        "weight_gradient": weight_gradient
    }


def by_liger(inputs: Inputs) -> dict:
    """Liger's GRPO loss where the policy has not moved, so that a row's coefficient is what `coefficient` says. It
    gives neither log-probabilities nor entropies."""
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss

    # Only the arithmetic of the loss is compiled.
    loss_of = LigerFusedLinearGRPOLoss(beta=0.0, use_ref_model=False, compiled=False)
    sequences = len(inputs.advantages)
    hidden = inputs.hidden.view(sequences, -1, inputs.hidden.shape[-1]).detach().requires_grad_()
    targets = inputs.targets.view(sequences, -1)
    loss, _ = loss_of(hidden, inputs.weight, targets, torch.ones_like(targets), inputs.advantages)
    hidden_gradient, weight_gradient = torch.autograd.grad(loss, (hidden, inputs.weight))
    return {"hidden_gradient": hidden_gradient.flatten(0, 1).float(), "weight_gradient": weight_gradient.float()}


def liger_logp(inputs: Inputs) -> torch.Tensor:
    """The log-probabilities in its loss."""
    from liger_kernel.chunked_loss.fused_linear_ppo import LigerFusedLinearPPOBase

    with torch.no_grad():
        return LigerFusedLinearPPOBase.chunk_forward(inputs.hidden[None], inputs.weight, inputs.targets[None])[0]


def small_inputs(width: int, device: str) -> Inputs:
    hidden, weight = torch.randn(64, width, device=device), torch.randn(1024, width, device=device)
    return Inputs(hidden, weight, torch.randint(1024, (64,), device=device), torch.randn(1, device=device))


def with_types(inputs: Inputs, device: str, work: Callable) -> Inputs:
    """On a GPU matmuls are in bf16, as in Keel. Liger sums the weight's gradient in the weight's own type, and
    rounds the weight itself: it gets the float32 one."""
    if device != "cpu":
        inputs.hidden = inputs.hidden.bfloat16()
        if work is not by_liger:
            inputs.weight = inputs.weight.bfloat16()
    inputs.weight.requires_grad_()
    return inputs


def choose(peer: str, width: int, device: str) -> tuple[str, Callable]:
    """The peer's name and function, after a warm-up call."""
    name, work = f"plain torch {torch.__version__}", full_logits
    if peer == "liger":
        try:
            from importlib.metadata import version

            by_liger(with_types(small_inputs(width, device), device, by_liger))
            return f"liger-kernel {version('liger-kernel')} (no entropies)", by_liger
        except Exception as error:  # not installed, or unsupported device
            print(f"liger-kernel cannot be used: {error!r}", file=sys.stderr)
            name, work = "a stand-in of Liger's algorithm", in_chunks
    work(with_types(small_inputs(width, device), device, work))
    return name, work


def held_bytes(device: str) -> int:
    if device != "cpu":
        return torch.cuda.memory_allocated()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def forget_peak(device: str) -> None:
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(device: str) -> int:
    if device != "cpu":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def apart(mine: dict, theirs: dict) -> dict:
    """The max difference of statistics, and the relative 2-norm of the difference of gradients."""
    differences = {}
    for name, value in mine.items():
        other = theirs[name].to(value.device)
        if name.endswith("gradient"):
            differences[name] = ((value - other).norm() / other.norm()).item()
        else:
            differences[name] = (value - other).abs().max().item()
    return differences


def main() -> None:
    peer, folder, device = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    # Copies, since mapped files take memory only when read.
    loaded = {key: value.clone() for key, value in load_file(folder / "inputs.safetensors", device=device).items()}
    name, work = choose(peer, loaded["hidden"].shape[-1], device)
    facts = {"name": name}
    inputs = with_types(Inputs(**loaded), device, work)
    del loaded
    held = held_bytes(device)
    with contextlib.suppress(torch.OutOfMemoryError):  # reported as a result; the driver continues
        mine = work(inputs)
        if work is by_liger:
            mine["logp"] = liger_logp(inputs)
        facts["apart"] = apart(mine, load_file(folder / "keel.safetensors"))
        del mine
    print("ready", json.dumps(facts), file=PROTOCOL)
    for _ in sys.stdin:
        forget_peak(device)
        started = time.perf_counter()
        work(inputs)
        if device != "cpu":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes(device) - held}), file=PROTOCOL)


if __name__ == "__main__":
    main()
