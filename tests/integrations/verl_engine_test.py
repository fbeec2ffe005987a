"""verl's own FSDP engine and training worker update a tiny model with Keel's methods, on a CPU: the same gradients as verl's own
dppo_tv, the same on 1, 2 and 4 processes, and in Ray workers. The longest of these tests; `make test-integrations` installs verl with
all its requirements and runs it."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib

from peers import ROOT, count, folder_of, run, skip

if not count(False, True):
    skip("make test-integrations runs it")
PYTHON = folder_of("verl-workers") / "bin" / "python"
if pathlib.Path(sys.executable).parent != PYTHON.parent:
    os.execv(PYTHON, [str(PYTHON), "-W", "ignore", __file__])
os.environ.update(VERL_USE_EXTERNAL_MODULES="verl_on_cpu", TOKENIZERS_PARALLELISM="false",
                  PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")  # Ray's workers set their own

import torch  # noqa: E402

torch.set_num_threads(1)  # this process is forked

import ray  # noqa: E402
import verl_on_cpu  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from tokenizers import Tokenizer, models  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: E402
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup  # noqa: E402
from verl.utils import tensordict_utils  # noqa: E402
from verl.workers.config import ActorConfig, FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig  # noqa: E402
from verl.workers.config import PolicyLossConfig, TrainingWorkerConfig  # noqa: E402
from verl.workers.engine_workers import TrainingWorker  # noqa: E402
from verl.workers.utils.losses import ppo_loss  # noqa: E402

import keel.verl  # noqa: E402

VOCABULARY, SEQUENCES, PROMPT, RATE = 61, 16, 3, 1e4
RUN = {"rollout_correction": {"bypass_mode": True}, "use_v1": True, "calculate_log_probs": True, "temperature": 1.0, "top_p": 1,
       "top_k": -1, "logprobs_mode": "processed_logprobs", "loss_agg_mode": "token-mean", "loss_scale_factor": None,
       "clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0, "tau_pos": 1.0, "tau_neg": 1.05}


def make_model(folder):
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True)
    LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w0", eos_token="w1", bos_token="w2").save_pretrained(folder)


def worker_config(folder):
    exact = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    return TrainingWorkerConfig(
        model_type="language_model",
        model_config=HFModelConfig(path=str(folder), use_remove_padding=False, enable_gradient_checkpointing=False,
                                   override_config={"attn_implementation": "eager"}),
        engine_config=FSDPEngineConfig(strategy="fsdp2", mixed_precision=exact, use_torch_compile=False, use_dynamic_bsz=False,
                                       micro_batch_size_per_gpu=2, infer_micro_batch_size_per_gpu=2, use_remove_padding=False),
        # The change of a weight is its gradient at this rate, large compared to rounding.
        optimizer_config=FSDPOptimizerConfig(lr=RATE, optimizer="SGD", weight_decay=0.0, clip_grad=1e9,
                                             override_optimizer_config={"momentum": 0.0}))


def actor_config(loss):
    if loss.startswith("keel_"):
        section, clip = keel.verl.PolicyLoss(loss_mode=loss, run=RUN), {}
    else:
        section, clip = PolicyLossConfig(loss_mode=loss), dict(clip_ratio_low=0.2, clip_ratio_high=0.2, clip_ratio_c=5.0)
    return ActorConfig(strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=2, policy_loss=section, **clip)


class Loss:
    """ppo_loss with its configuration, as verl's worker sets it; recreated in the process that calls it."""

    def __init__(self, loss):
        self.loss, self.config = loss, None

    def __call__(self, **arguments):
        self.config = self.config or actor_config(self.loss)
        return ppo_loss(config=self.config, **arguments)


def batch():
    """Responses of 1 to 12 tokens, the long ones first, so that ranks have very different counts."""
    torch.manual_seed(11)
    lengths = [12] * 5 + [7] * 4 + [2] * 4 + [1] * 3

    def jagged(make):
        return torch.nested.as_nested_tensor([make(n) for n in lengths], layout=torch.jagged)

    tokens = [torch.randint(3, VOCABULARY, (PROMPT + n,)) for n in lengths]
    signs = torch.randn(SEQUENCES)
    rows = iter(range(SEQUENCES))
    data = TensorDict({
        "input_ids": torch.nested.as_nested_tensor(tokens, layout=torch.jagged),
        "position_ids": jagged(lambda n: torch.arange(PROMPT + n)),
        "prompts": torch.nested.as_nested_tensor([t[:PROMPT] for t in tokens], layout=torch.jagged),
        "responses": torch.nested.as_nested_tensor([t[PROMPT:] for t in tokens], layout=torch.jagged),
        "response_mask": jagged(lambda n: torch.ones(n, dtype=torch.long)), "loss_mask": jagged(lambda n: torch.ones(n, dtype=torch.long)),
        # The random model gives each token a probability of about 1/61; some of these differ a lot.
        "old_log_probs": jagged(lambda n: -(4.1 * torch.rand(n)).clamp(min=0.05)),
        "advantages": jagged(lambda n: signs[next(rows)].expand(n).clone())}, batch_size=SEQUENCES)
    return data


def settled(data):
    tensordict_utils.assign_non_tensor(data, temperature=1.0, global_batch_size=SEQUENCES, mini_batch_size=SEQUENCES, epochs=1,
                                       calculate_entropy=False)
    return data


class CpuWorker(TrainingWorker):
    """verl's training worker. The process group is created here, since verl's needs two backends."""

    def __init__(self, config):
        verl_on_cpu.register_engine()
        os.environ.setdefault("LOCAL_RANK", "0")
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo")
        super().__init__(config)


def weights_of(worker):
    return {name: value.full_tensor().clone() if hasattr(value, "full_tensor") else value.clone()
            for name, value in worker.engine.module.state_dict().items()}


def one_rank(rank, ranks, folder, loss, result):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_PORT=os.environ["KEEL_TEST_PORT"])
    worker = CpuWorker(worker_config(folder))
    worker.reset()
    before = weights_of(worker)
    worker.set_loss_fn(Loss(loss))
    share = tensordict_utils.chunk_tensordict(batch(), ranks)[rank] if ranks > 1 else batch()
    output = worker.train_mini_batch(settled(share))
    after = weights_of(worker)
    if rank == 0:
        torch.save(({name: (before[name] - after[name]) / RATE for name in before}, dict(tensordict_utils.get(output, "metrics"))), result)
    torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def gradients(folder, loss, ranks):
    """The change of every weight, and the metrics, after one update in verl's worker."""
    os.environ["KEEL_TEST_PORT"] = str(free_port())
    result = folder / f"{loss}-{ranks}.pt"
    torch.multiprocessing.start_processes(one_rank, (ranks, folder, loss, result), nprocs=ranks, start_method="fork")
    return torch.load(result, weights_only=False)


def off(got, want):
    assert got.keys() == want.keys()
    return max(((got[name] - want[name]).norm() / want[name].norm()).item() for name in want)


FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="keel-verl-"))


def verls_engine_trains_with_a_keel_method():
    theirs, _ = gradients(FOLDER, "dppo_tv", 1)
    ours, metrics = gradients(FOLDER, "keel_dppo_tv", 1)
    difference = off(ours, theirs)
    assert difference <= 1e-6, f"off from verl's own dppo_tv by {difference:.3g}"
    other, _ = gradients(FOLDER, "keel_drpo", 1)
    assert off(other, theirs) > 0.01
    masked = float(metrics["trust_region/masked"][0])
    assert 0 < masked < 1, metrics
    return f"off from its own dppo_tv by {difference:.2g}; blocked {masked:.2f}"


def gradients_are_the_same_on_1_2_and_4_processes():
    differences = []
    want, _ = gradients(FOLDER, "keel_dppo_tv", 1)
    for ranks in (2, 4):
        difference = off(gradients(FOLDER, "keel_dppo_tv", ranks)[0], want)
        assert difference <= 1e-6, f"on {ranks} processes: off by {difference:.3g}"
        differences.append(f"{difference:.2g}")
    return f"off by {' and '.join(differences)}"


def rays_workers_train_with_a_keel_method():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True,
             runtime_env={"env_vars": {name: os.environ[name] for name in ("PYTHONPATH", "VERL_USE_EXTERNAL_MODULES")}})
    try:
        pool = RayResourcePool(process_on_nodes=[2], use_gpu=False, max_colocate_count=1)
        group = RayWorkerGroup(pool, RayClassWithInitArgs(ray.remote(CpuWorker), config=worker_config(FOLDER)))
        group.reset()
        group.set_loss_fn(Loss("keel_dppo_tv"))
        output = group.train_mini_batch(settled(batch()))
        output = output.get() if hasattr(output, "get") and not isinstance(output, TensorDict) else output
        metrics = tensordict_utils.get(output, "metrics")
    finally:
        ray.shutdown()
    _, alone = gradients(FOLDER, "keel_dppo_tv", 2)
    assert "trust_region/masked" in metrics, sorted(metrics)
    assert abs(float(metrics["grad_norm"][0]) - float(alone["grad_norm"][0])) <= 1e-5 * float(alone["grad_norm"][0])
    return f"2 workers, gradient norm {float(metrics['grad_norm'][0]):.6g}"


def verl_loads_an_installed_keel_by_itself():
    """Through the entry point of pyproject.toml: `import verl` is enough."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        plugins = tomllib.load(file)["project"]["entry-points"]["verl.plugins"]
    installed = FOLDER / "site" / "keel-0.2.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: keel\nVersion: 0.2.0\n")
    (installed / "entry_points.txt").write_text("[verl.plugins]\n" + "".join(f"{name} = {module}\n" for name, module in plugins.items()))
    look = "import verl; from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as table; print('keel_dppo_tv' in table)"
    for policy, found in (("auto", "True"), ("none", "False")):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(installed.parent), os.environ["PYTHONPATH"])),
                       "VERL_USE_EXTERNAL_PLUGINS": policy}
        result = subprocess.run([sys.executable, "-W", "ignore", "-c", look], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        assert result.stdout.split()[-1] == found, (policy, result.stdout)


if __name__ == "__main__":
    make_model(FOLDER)
    failed = run([verl_loads_an_installed_keel_by_itself, verls_engine_trains_with_a_keel_method,
                  gradients_are_the_same_on_1_2_and_4_processes, rays_workers_train_with_a_keel_method])
    shutil.rmtree(FOLDER)
    sys.exit(failed)
