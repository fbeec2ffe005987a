"""Synthetic run folders: metrics, samples and token records with known values."""

import json
import math

import pyarrow
import pyarrow.parquet

INTEGERS = ("step", "update", "prompt", "group", "rollout", "policy_version")
NUMBERS = ("log_mu", "log_pi", "log_other_mu", "log_other_pi", "log_recomputed", "log_other_recomputed", "log_reference", "topk_tv",
           "topk_kl", "topk_tv_replace_last", "topk_kl_replace_last", "full_tv", "full_kl", "divergence", "threshold", "ratio",
           "advantage", "coefficient", "weight")
SCHEMA = pyarrow.schema([*((name, pyarrow.int64()) for name in INTEGERS), ("position", pyarrow.int32()), ("token_id", pyarrow.int32()),
                         ("token", pyarrow.string()), *((name, pyarrow.float32()) for name in NUMBERS), ("kept", pyarrow.bool_()),
                         ("outside", pyarrow.bool_()), ("entropy", pyarrow.float32()), ("entropy_mu", pyarrow.float32()),
                         ("reward", pyarrow.float64())])
HIGH, LOW = 0.2, 0.15


def token(text, mu, pi, advantage, entropy=0.5, **more):
    """A token with the decision of dppo_tv for the thresholds HIGH (A > 0) and LOW."""
    threshold = HIGH if advantage > 0 else LOW
    blocked = advantage * (pi - mu) > 0 and abs(pi - mu) > threshold
    return {"token": text, "token_id": sum(map(ord, text[:8])) % 50000, "log_mu": math.log(mu), "log_pi": math.log(pi),
            "divergence": abs(pi - mu), "threshold": threshold, "ratio": pi / mu, "advantage": advantage, "kept": not blocked,
            "outside": blocked, "coefficient": 0 if blocked else advantage * pi / mu, "weight": 0.03125, "entropy": entropy, **more}


def completion(step, update, prompt, rollout, reward, tokens):
    """The rows of a completion."""
    own = {"step": step, "update": update, "prompt": prompt, "group": prompt, "rollout": rollout, "policy_version": step, "reward": reward}
    return [{**own, "position": position, **row} for position, row in enumerate(tokens)]


def write_records(run, step, rows, method="dppo_tv", **more):
    facts = {"method": method, "parameters": {"low": LOW, "high": HIGH, "ratio_cap": None, "k": 20, "divergence": "binary_tv",
                                              "anchor": "behavior", "support": "union"},
             "step": step, "updates": 2, "recorded_rollouts": len({row["rollout"] for row in rows}), "rows": len(rows),
             "whole_sequences": True, "whole_batch": False, **more}
    schema = SCHEMA.with_metadata({"keel.format": "1", "keel.step": json.dumps(facts)})
    columns = {name: [row.get(name) for row in rows] for name in SCHEMA.names}
    (run / "tokens").mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), run / "tokens" / f"step-{step:08}.parquet", compression="zstd")


def write_run(run, steps, row, samples=(), **settings):
    """A folder with an RL row for each step, `row(step)`, and used.json."""
    run.mkdir(parents=True)
    with open(run / "metrics.jsonl", "w", encoding="utf-8") as file:
        for step in range(1, steps + 1):
            file.write(json.dumps({"phase": "rl", "step": step, "updates": 2 * step, **row(step)}) + "\n")
    with open(run / "samples.jsonl", "w", encoding="utf-8") as file:
        for sample in samples:
            file.write(json.dumps(sample) + "\n")
    used = {"objective.method": "dppo_tv", "run.seed": 1, "run.dir": str(run), **settings}
    (run / "used.json").write_text(json.dumps(used))
    (run / "config.yaml").write_text("objective:\n  method: dppo_tv\n")
    return run
