"""report.html in a real browser: clicks, filters, the reader of completions, hostile texts, the plane of pi and mu, and a page of 1,000
steps and 100,000 recorded tokens. This script creates the runs and the expected values; report.mjs checks the page."""

import json
import math
import pathlib
import random
import sys
import tempfile

import browser

browser.require_browser()
try:
    from made_runs import completion, token, write_records, write_run
except ImportError as error:
    print(f"{error}; scripts/bootstrap.sh --tests installs it")
    sys.exit(77)
from support import keel  # noqa: E402

HOSTILE = ["<script>window.hacked = 1</script>", "<img src=x onerror=\"window.hacked=1\">", "</script><b>bold</b>", "a\u202eb\u2066c",
           "nul\x00l", "x" * 1_000_000, "\x1b[31mred", "\u2028line", "é", "]]>&amp;\"'"]


HOSTILE_PROMPT = "".join(text for text in HOSTILE if len(text) < 100)


def report(page, *runs):
    """Writes the report of these runs; returns its path and the terminal output."""
    result = keel("report", *runs, "-o", page)
    if result.returncode:
        raise AssertionError(result.stdout + result.stderr)
    return page, result.stdout + result.stderr


def small_run(folder):
    """Two recorded steps, and a collapse: the gradient norm leaves its band at step 31, the reward at step 35."""
    def row(step):
        return {"reward/mean": 0.5 + 0.01 * step if step < 35 else 0.1, "policy/entropy": 0.9, "optimizer/grad_norm": 1 if step < 31 else 50,
                "trust_region/masked": 0.1, "trust_region/masked_positive": 0.12, "trust_region/masked_negative": 0.08,
                "trust_region/divergence_mean": 0.01, "mismatch/abs_prob_mean": 1e-6, "mismatch/abs_prob_max": 1e-4}

    samples = [{"phase": "rl", "step": step, "prompt": "1 + 1 =", "completion": f"two at {step}", "reward": 1, "finish": "stop"}
               for step in (1, 30, 31, 40)]
    run = write_run(folder / "small", 40, row, samples, **{"record.tokens": "sample"})
    for step in (11, 31):
        rows = []
        for update in (0, 1):
            moved = 0.3 * update
            rows += completion(step, update, 1, step * 10, 1.0, [
                token("so", 0.5, 0.5 + moved, 1), token(" ", 0.9, 0.9, 1), token("two", 0.25, 0.25 + moved / 2, 1), token("\n", 0.5, 0.5, 1)])
            rows += completion(step, update, 1, step * 10 + 1, 0.0, [
                token("so", 0.5, 0.5 - moved, -1), token("needle", 0.001, 0.001, -1, entropy=2.5)])
            rows += completion(step, update, 2, step * 10 + 2, 0.5, [token(text, 0.5, 0.5, 0.25) for text in HOSTILE])
        # the second one has no prompts, like files of older versions
        write_records(run, step, rows, **({"prompts": {"1": "1 + 1 =\n", "2": HOSTILE_PROMPT}} if step == 11 else {}))
    return run


def large_run(folder):
    """1,000 steps, of which 100 are recorded: 20 completions of 50 tokens each, 100,000 tokens."""
    draws = random.Random(7)
    words = [f" word{i}" for i in range(2000)]

    def row(step):
        return {"reward/mean": 0.5 + 0.3 * math.sin(step / 90) + draws.uniform(-0.1, 0.1), "policy/entropy": 1 + draws.uniform(-0.1, 0.1),
                "trust_region/masked": draws.uniform(0, 0.1), "trust_region/masked_positive": draws.uniform(0, 0.1),
                "trust_region/masked_negative": draws.uniform(0, 0.1), "trust_region/divergence_mean": draws.uniform(0, 0.02),
                "trust_region/divergence_max": draws.uniform(0.1, 0.9), "mismatch/abs_prob_mean": draws.uniform(1e-7, 2e-7),
                "mismatch/abs_prob_max": draws.uniform(1e-6, 1e-5), "completion/length_mean": 50, "optimizer/grad_norm": draws.uniform(1, 2),
                "completion/truncated": 0.1, "throughput/rollout_tokens_per_s": 1000, "time/rollout": 1, "time/step": 2}

    run = write_run(folder / "large", 1000, row, **{"record.tokens": "sample"})
    for step in range(1, 1000, 10):
        rows = []
        for rollout in range(20):
            advantage = draws.uniform(-1, 1)
            tokens = []
            for _ in range(50):
                mu = min(0.999, draws.random() ** 2 + 1e-6)
                pi = min(0.999999, max(1e-7, mu + draws.gauss(0, 0.1) * math.sqrt(mu * (1 - mu))))
                tokens.append(token(draws.choice(words), mu, pi, advantage, entropy=draws.uniform(0, 3)))
            rows += completion(step, rollout // 5, rollout // 4, step * 100 + rollout, draws.random(), tokens)
        write_records(run, step, rows, prompts={str(prompt): "a prompt of 2,000 letters " * 80 for prompt in range(5)})
    return run


def main():
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        small, large = small_run(folder), large_run(folder)
        plain = [write_run(folder / f"plain-{seed}", 30, lambda step: {"reward/mean": step / 30 + seed / 10}, **{"run.seed": seed})
                 for seed in (1, 2)]
        damaged = write_run(folder / "damaged", 30, lambda step: {"reward/mean": 0.5})
        write_records(damaged, 11, completion(11, 0, 1, 1, 1.0, [token("kept", 0.5, 0.5, 1)]))
        cut = damaged / "tokens" / "step-00000021.parquet"
        cut.write_bytes((damaged / "tokens" / "step-00000011.parquet").read_bytes()[:300])
        wanted = {"small": [small], "plain": plain[:1], "large": [large], "seeds": plain, "damaged": [damaged], "several": [small, plain[0], large]}
        pages = {name: report(folder / f"{name}.html", *runs) for name, runs in wanted.items()}
        if "step-00000021.parquet" not in pages["damaged"][1]:
            raise AssertionError(f"the damaged record is not named on the terminal: {pages['damaged'][1]}")
        size = pages["large"][0].stat().st_size
        print(f"the page of 1,000 steps and 100,000 tokens has {size / 1e6:.1f} MB")
        if size > 10e6:
            raise AssertionError("it has more than 10 MB")
        browser.run_script("report.mjs", json.dumps({name: page.as_uri() for name, (page, _) in pages.items()}))


if __name__ == "__main__":
    main()
