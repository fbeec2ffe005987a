"""Token records read by pyarrow: every value of a row is what the objective read or computed, by the methods' formulas in float64. A run
leaves the same rows however it ended."""

import functools
import json
import pathlib
import shutil
import signal
import sys
import tempfile

import support
from support import read_jsonl, start_train, train, wait_for

try:
    import numpy as np
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    print(f"{error}; scripts/bootstrap.sh --tests installs it")
    sys.exit(77)

STEPS, EPOCHS, COMPLETIONS, PER_UPDATE = 4, 2, 16, 8
WARM_UP = 8

INTEGERS = ("step", "update", "prompt", "group", "rollout", "policy_version")
ALWAYS = ("log_mu", "log_pi", "divergence", "threshold", "ratio", "advantage", "coefficient", "weight")
WHERE_KNOWN = ("log_other_mu", "log_other_pi", "log_recomputed", "log_other_recomputed", "log_reference", "topk_tv", "topk_kl",
               "topk_tv_replace_last", "topk_kl_replace_last", "full_tv", "full_kl", "entropy", "entropy_mu", "choices")
TYPES = {**dict.fromkeys(INTEGERS, "int64"), "position": "int32", "token_id": "int32", "token": "string",
         **dict.fromkeys(ALWAYS + WHERE_KNOWN, "float"), "kept": "bool", "outside": "bool", "reward": "double"}


def files(run):
    return sorted((pathlib.Path(run) / "tokens").iterdir())


def rows(run):
    """All columns as arrays, with NaN for null."""
    table = pyarrow.concat_tables([pyarrow.parquet.read_table(path) for path in files(run)])
    return {name: table[name].to_numpy() for name in table.column_names}


def facts(path):
    metadata = pyarrow.parquet.read_schema(path).metadata
    assert metadata[b"keel.format"] == b"1"
    return json.loads(metadata[b"keel.step"])


def sections(**more):
    """Settings of a run with rewards that differ by length, and updates so large that some tokens are masked."""
    result = {"optimizer": {"lr": 0.02}, "train": {"steps": STEPS, "epochs": EPOCHS}, "eval": {"prompts": 0},
              "reward": {"overlong_buffer": 30}, "record": {"tokens": "every_step"}}
    for section, keys in more.items():
        result[section] = {**result.get(section, {}), **keys}
    return result


SHARED = pathlib.Path(tempfile.mkdtemp(prefix="keel_tokens_"))
METHODS = {"dppo_tv": {"delta": 0.02}, "dppo_kl": {"delta": 0.005}, "grpo": {}, "drpo": {"delta": 0.02}}


@functools.cache
def run_of(method, **more):
    """A run shared by several tests."""
    run = SHARED / method
    result = train(run, **sections(objective={"method": method, **METHODS.get(method, {})}, **more))
    assert result.returncode == 0, result.stderr
    return run


class Recorded(support.Test):
    def close(self, got, wanted, rtol=2e-5, atol=2e-7):
        np.testing.assert_allclose(np.asarray(got, np.float64), wanted, rtol=rtol, atol=atol)


class Columns(Recorded):
    def test_columns_types_and_step_metadata(self):
        run = run_of("dppo_tv")
        self.assertEqual([path.name for path in files(run)], [f"step-{WARM_UP + 1 + i:08d}.parquet" for i in range(STEPS)])
        file = pyarrow.parquet.ParquetFile(files(run)[0])
        self.assertEqual({field.name: str(field.type) for field in file.schema_arrow}, TYPES)
        self.assertEqual({name for name in TYPES if file.schema_arrow.field(name).nullable}, set(WHERE_KNOWN))
        self.assertEqual({file.metadata.row_group(0).column(i).compression for i in range(len(TYPES))}, {"ZSTD"})
        metadata = facts(files(run)[0])
        expected = {"method": "dppo_tv", "step": WARM_UP + 1, "updates": EPOCHS * COMPLETIONS // PER_UPDATE, "rollouts": COMPLETIONS,
                    "recorded_rollouts": COMPLETIONS, "whole_sequences": True, "whole_batch": True, "temperature": 1,
                    "aggregation": "seq_mean_token_sum_norm", "advantage": "group_mean", "top_k": 0, "kl_coefficient": 0,
                    "entropy_coefficient": -0.1}
        self.assertEqual({key: metadata[key] for key in expected}, expected)
        self.assertEqual({key: metadata["parameters"][key] for key in ("low", "high")}, {"low": 0.02, "high": 0.02})
        self.assertEqual(metadata["parameters"]["ratio_cap"], 5)
        # The texts of its prompts, as samples.jsonl has them.
        self.assertEqual(set(map(int, metadata["prompts"])), set(pyarrow.parquet.read_table(files(run)[0])["prompt"].to_pylist()))
        shown = {row["prompt"] for row in read_jsonl(run / "samples.jsonl") if row["step"] == WARM_UP + 1 and row["phase"] == "rl"}
        self.assertTrue(shown and shown <= set(metadata["prompts"].values()), (shown, metadata["prompts"]))

    def test_rows_are_those_that_the_metrics_count(self):
        for name in METHODS:
            run = run_of(name)
            held_back = 0
            for path, row in zip(files(run), (r for r in read_jsonl(run / "metrics.jsonl") if r["phase"] == "rl"), strict=True):
                table = pyarrow.parquet.read_table(path)
                t = {column: table[column].to_numpy() for column in table.column_names}
                self.assertEqual(set(t["step"]), {row["step"]})
                self.assertEqual(len(t["step"]), EPOCHS * round(row["completion/length_mean"] * COMPLETIONS))
                self.assertAlmostEqual(np.mean(~t["kept"]), row["trust_region/masked"], 12)
                self.assertAlmostEqual(np.mean(t["outside"]), row["trust_region/outside"], 12)
                for sign, key in ((1, "positive"), (-1, "negative")):
                    chosen = np.sign(t["advantage"]) == sign
                    share = np.mean(~t["kept"][chosen]) if chosen.any() else 0
                    self.assertAlmostEqual(share, row[f"trust_region/masked_{key}"], 12)
                self.assertEqual(np.max(t["ratio"]), np.float32(row["ratio/max"]))
                self.assertEqual(np.max(t["divergence"]), np.float32(row["trust_region/divergence_max"]))
                self.close(np.mean(t["entropy"], dtype=np.float64), row["policy/entropy"], rtol=1e-12)
                held_back += np.sum(t["outside"])
            self.assertGreater(held_back, 20, name)  # the test is not vacuous

    def test_completions_are_whole_and_in_order_in_every_epoch(self):
        t = rows(run_of("dppo_tv"))
        keys = np.stack([t["step"], t["update"], t["rollout"]], 1)
        begins = np.flatnonzero(np.any(keys[1:] != keys[:-1], 1)) + 1
        parts = np.split(np.arange(len(keys)), begins)
        self.assertEqual(len(parts), STEPS * EPOCHS * COMPLETIONS)  # contiguous, and once per epoch
        texts = {}
        for part in parts:
            np.testing.assert_array_equal(t["position"][part], np.arange(len(part)))
            ids = tuple(t["token_id"][part])
            self.assertEqual(texts.setdefault((t["step"][part[0]], t["rollout"][part[0]]), ids), ids)
        for step in set(t["step"]):
            of_step = t["step"] == step
            self.assertEqual(sorted(set(t["group"][of_step])), [0, 1, 2, 3])
            for update in set(t["update"][of_step]):
                self.assertEqual(len(set(t["rollout"][of_step & (t["update"] == update)])), PER_UPDATE)
        self.assertEqual(len(texts), STEPS * COMPLETIONS)

    def test_texts_are_decoded_by_the_tokenizer(self):
        run = run_of("dppo_tv")
        checkpoint = run / "checkpoints" / support.checkpoints(run)[-1]
        tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
        names = {number: text for text, number in tokenizer["model"]["vocab"].items()}
        t = rows(run)
        self.assertGreater(len(set(t["token_id"])), 10)
        for number, text in set(zip(t["token_id"], t["token"])):
            self.assertEqual(text.strip(" "), names[number])


class Decisions(Recorded):
    """Formulas from the papers (docs/methods.md), in float64, from a row's own values and the file's parameters."""

    def read(self, run):
        t = rows(run)
        log_mu, log_pi = t["log_mu"].astype(np.float64), t["log_pi"].astype(np.float64)
        self.assertTrue(np.all(log_mu <= 0) and np.all(log_pi <= 0))
        self.close(t["ratio"], np.exp(np.clip(log_pi - log_mu, -20, 20)))
        self.close(np.exp(t["log_other_mu"].astype(np.float64)), -np.expm1(log_mu), atol=1e-6)
        self.close(np.exp(t["log_other_pi"].astype(np.float64)), -np.expm1(log_pi), atol=1e-6)
        return facts(files(run)[0]), t, np.exp(log_mu), np.exp(log_pi), t["advantage"].astype(np.float64), np.exp(log_pi - log_mu)

    def assert_masked(self, t, blocked, distance, threshold, ratio, advantage):
        """Ignores tokens so near to the threshold that rounding decides."""
        clear = np.abs(distance - threshold) > 2e-6
        self.assertGreater(np.sum(blocked & clear), 10)
        np.testing.assert_array_equal(~t["kept"][clear], blocked[clear])
        np.testing.assert_array_equal(t["outside"], ~t["kept"])
        self.close(t["coefficient"], np.where(t["kept"], ratio * advantage, 0))

    def test_dppo_by_total_variation(self):
        metadata, t, mu, pi, advantage, ratio = self.read(run_of("dppo_tv"))
        low, high = metadata["parameters"]["low"], metadata["parameters"]["high"]
        self.close(t["divergence"], np.abs(pi - mu), atol=2e-6)
        self.close(t["threshold"], np.where(advantage > 0, high, low))
        blocked = ((advantage > 0) & (pi - mu > high)) | ((advantage < 0) & (pi - mu < -low))
        self.assert_masked(t, blocked, np.abs(pi - mu), t["threshold"], ratio, advantage)

    def test_dppo_by_kl_divergence(self):
        metadata, t, mu, pi, advantage, ratio = self.read(run_of("dppo_kl"))
        low, high = metadata["parameters"]["low"], metadata["parameters"]["high"]
        others = np.exp(t["log_other_mu"].astype(np.float64)) * (t["log_other_mu"].astype(np.float64) - t["log_other_pi"])
        divergence = mu * (t["log_mu"].astype(np.float64) - t["log_pi"]) + others
        self.close(t["divergence"], divergence, atol=2e-6)
        blocked = ((advantage > 0) & (pi > mu) & (divergence > high)) | ((advantage < 0) & (pi < mu) & (divergence > low))
        self.assert_masked(t, blocked, divergence, t["threshold"], ratio, advantage)

    def test_grpo(self):
        metadata, t, mu, pi, advantage, ratio = self.read(run_of("grpo"))
        low, high = metadata["parameters"]["low"], metadata["parameters"]["high"]
        blocked = ((advantage > 0) & (ratio > 1 + high)) | ((advantage < 0) & (ratio < 1 - low))
        self.assert_masked(t, blocked, ratio - 1, np.where(advantage > 0, high, -low), ratio, advantage)

    def test_drpo(self):
        metadata, t, mu, pi, advantage, ratio = self.read(run_of("drpo"))
        delta = metadata["parameters"]["delta"]
        self.assertTrue(t["kept"].all())
        self.close(t["coefficient"], ratio * advantage * (1 - np.sign(advantage) * (pi - mu) / delta), rtol=1e-4, atol=1e-4)
        clear = np.abs(np.abs(pi - mu) - delta) > 2e-6
        np.testing.assert_array_equal(t["outside"][clear], (np.abs(pi - mu) > delta)[clear])

    def test_top_k_methods_with_a_reference(self):
        run = self.folder / "run"
        objective = {"method": "dppo_topk_tv", "delta": 0.02, "parameters": '["k=4"]'}
        self.assert_exit(train(run, **sections(objective=objective, reference={"kl_coefficient": 0.5})), 0)
        metadata, t, mu, pi, advantage, ratio = self.read(run)
        self.assertEqual(metadata["top_k"], 4)
        np.testing.assert_array_equal(t["divergence"], t["topk_tv"])
        for union, last in (("topk_tv", "topk_tv_replace_last"), ("topk_kl", "topk_kl_replace_last")):
            self.assertTrue(0.1 < np.mean(t[union] == t[last]) < 1)  # where the token is among the top K
        self.assertTrue(np.all(t["topk_tv"] >= np.abs(pi - mu) - 2e-6))  # a finer partition has a larger divergence
        self.assertTrue(np.all(t["topk_tv"] <= np.sqrt(t["topk_kl"] / 2) + 2e-3))  # Pinsker's inequality
        self.assertTrue(np.isnan(t["full_tv"]).all())
        # The reference KL by k3: the gradient of -beta (e^d - 1 - d), d = log ref - log pi, is beta (e^d - 1).
        pull = metadata["kl_coefficient"] * np.expm1(t["log_reference"].astype(np.float64) - t["log_pi"])
        self.assertGreater(np.abs(pull).max(), 0.01)
        self.close(t["coefficient"], np.where(t["kept"], ratio * advantage, 0) + pull, atol=2e-6)

    def test_truncated_sampling(self):
        run = self.folder / "run"
        result = train(run, **sections(rollout={"top_k": 6, "min_p": 0.3}, reference={"kl_coefficient": 0.01},
                                       objective={"method": "dppo_tv", "delta": 0.02}))
        self.assertEqual(result.returncode, 0, result.stderr)
        t = rows(run)
        choices, one = t["choices"], t["choices"] == 1
        self.assertTrue(np.all((choices >= 1) & (choices <= 6) & (choices == np.round(choices))))
        self.assertTrue(np.sum(one) > 20 and np.sum(~one) > 20)
        for column in ("log_mu", "log_pi", "log_reference", "divergence", "entropy", "entropy_mu"):
            np.testing.assert_array_equal(t[column][one], 0, column)
            self.assertTrue(np.any(t[column][~one] != 0), column)
        for path, row in zip(files(run), (r for r in read_jsonl(run / "metrics.jsonl") if r["phase"] == "rl"), strict=True):
            table = pyarrow.parquet.read_table(path)
            more = table["choices"].to_numpy() > 1
            self.assertAlmostEqual(np.mean(more), row["trust_region/choices"], 12)
            if more.any():
                self.close(np.mean(table["divergence"].to_numpy()[more], dtype=np.float64), row["trust_region/divergence_mean"], rtol=1e-9)
        shown = support.keel("tokens", run).stdout
        self.assertIn("Truncated sampling chose from ", shown)
        summary = json.loads(support.keel("tokens", run, "--json").stdout)["own"]["choices"]
        self.assertAlmostEqual(summary["mean"], np.mean(choices), 9)
        self.assertAlmostEqual(summary["more_than_one"], np.mean(~one), 9)
        self.assertTrue(np.all(np.isnan(rows(run_of("dppo_tv"))["choices"])))
        self.assertNotIn("Truncated", support.keel("tokens", run_of("dppo_tv")).stdout)

    def test_methods_with_recomputed_log_probabilities(self):
        run = self.folder / "run"
        self.assert_exit(train(run, **sections(objective={"method": "minirl"}, rollout={"weights": "exact"})), 0)
        metadata, t, mu, pi, advantage, ratio = self.read(run)
        low, high = metadata["parameters"]["low"], metadata["parameters"]["high"]
        self.close(t["log_recomputed"], t["log_mu"].astype(np.float64), atol=1e-4)  # the sampler and the trainer are the same engine
        self.close(np.exp(t["log_other_recomputed"].astype(np.float64)), -np.expm1(t["log_recomputed"].astype(np.float64)), atol=1e-6)
        own = np.exp(t["log_pi"].astype(np.float64) - t["log_recomputed"])
        blocked = ((advantage > 0) & (own > 1 + high)) | ((advantage < 0) & (own < 1 - low))
        self.assert_masked(t, blocked, own - 1, np.where(advantage > 0, high, -low), ratio, advantage)

    def test_advantages_and_weights_follow_from_the_rows_of_the_whole_step(self):
        for name, weight in (("dppo_tv", lambda metadata, length: 1 / (PER_UPDATE * metadata["horizon"])),
                             ("grpo", lambda metadata, length: 1 / (PER_UPDATE * length))):
            run = run_of(name)
            metadata, t = facts(files(run)[0]), rows(run)
            rewards = dict(zip(zip(t["step"], t["group"], t["rollout"]), t["reward"]))
            lengths = {}
            for key in zip(t["step"], t["update"], t["rollout"]):
                lengths[key] = lengths.get(key, 0) + 1
            groups = {}
            for (step, group, _), reward in rewards.items():
                groups.setdefault((step, group), []).append(reward)
            wanted = np.array([weight(metadata, lengths[key]) for key in zip(t["step"], t["update"], t["rollout"])])
            self.close(t["weight"], wanted)
            mean, spread = (np.array([f(groups[key]) for key in zip(t["step"], t["group"])])
                            for f in (np.mean, lambda x: np.std(x, ddof=1)))
            centred = t["reward"] - mean
            advantage = centred if name == "dppo_tv" else np.where(spread > 0, centred / np.where(spread > 0, spread, 1), 0)
            self.close(t["advantage"], advantage, rtol=1e-4, atol=1e-5)

    def test_adaptive_thresholds_are_those_of_the_step(self):
        run = self.folder / "run"
        self.assert_exit(train(run, **sections(objective={"delta": 0.02, "parameters": '["target_kept=0.9"]'})), 0)
        metrics = [row for row in read_jsonl(run / "metrics.jsonl") if row["phase"] == "rl"]
        deltas = [row["trust_region/delta_high"] for row in metrics]
        self.assertGreater(len(set(deltas)), 1)
        self.assertEqual([facts(path)["parameters"]["high"] for path in files(run)], deltas)
        for path, delta in zip(files(run), deltas):
            table = pyarrow.parquet.read_table(path, columns=["threshold", "advantage"])
            self.assertEqual(set(table["threshold"].to_numpy()[table["advantage"].to_numpy() > 0]), {np.float32(delta)})


class Sampled(Recorded):
    def drawn(self, name, **more):
        run = self.folder / name
        more = {"record": {"tokens": "sample"}, "rollout": {"samples_per_prompt": 8}, "train": {"steps": 11}, **more}
        self.assert_exit(train(run, **sections(**more)), 0)
        return run

    def choice(self, run):
        t = rows(run)
        return sorted(set(zip(t["step"], t["rollout"])))

    def test_a_sample_is_whole_completions_by_the_seed(self):
        run = self.drawn("run", objective={"delta": 0.02})
        choice = self.choice(run)
        self.assertEqual([step for step, _ in choice], [WARM_UP + 1] * 16 + [WARM_UP + 11] * 16)
        places = [tuple(sorted(rollout % (2 * COMPLETIONS) for s, rollout in choice if s == step)) for step in sorted({s for s, _ in choice})]
        self.assertGreater(len(set(places)), 1)  # another choice in every step
        # The chosen rows are bitwise equal to those of the full record.
        everything, some = rows(self.drawn("all", objective={"delta": 0.02}, record={"tokens": "all"})), rows(run)
        wanted = set(choice)
        chosen = np.array([key in wanted for key in zip(everything["step"], everything["rollout"])])
        for name in TYPES:
            np.testing.assert_array_equal(some[name], everything[name][chosen], name)
        metadata = facts(files(run)[0])
        self.assertEqual([metadata[k] for k in ("whole_sequences", "whole_batch", "recorded_rollouts", "rollouts")], [True, False, 16, 32])
        self.assertEqual(self.choice(self.drawn("two threads", train={"steps": 1}, run={"threads": 2})), choice[:16])
        self.assertNotEqual(self.choice(self.drawn("another seed", train={"steps": 1}, run={"seed": 7})), choice[:16])

    def test_a_sample_is_at_most_all_completions(self):
        run = self.drawn("run", rollout={})
        self.assertEqual([path.name for path in files(run)], ["step-00000009.parquet", "step-00000019.parquet"])
        self.assertTrue(facts(files(run)[0])["whole_batch"])

    def test_a_record_changes_nothing_else(self):
        plain = self.folder / "plain"
        self.assert_exit(train(plain, **sections(objective={"delta": 0.02}, record={"tokens": "none"})), 0)
        self.assert_same_run(run_of("dppo_tv"), plain)
        self.assertFalse((plain / "tokens").exists())

    def test_completions_without_an_update_are_not_sampled(self):
        run = self.drawn("run", train={"steps": 11, "mask_truncated": "true"})
        rl = [row for row in read_jsonl(run / "metrics.jsonl") if row["phase"] == "rl"]
        for path, row in zip(files(run), (rl[0], rl[10]), strict=True):
            metadata = facts(path)
            self.assertEqual(metadata["rollouts"], round(2 * COMPLETIONS * (1 - row["completion/masked"])))
            table = pyarrow.parquet.read_table(path)
            self.assertEqual(len(set(table["rollout"].to_pylist())), min(16, metadata["rollouts"]))


class Interrupted(Recorded):
    SETTINGS = {"train": {"steps": 10}, "objective": {"delta": 0.02}}

    def test_a_killed_and_resumed_run_leaves_the_same_rows(self):
        whole, run = self.folder / "whole", self.folder / "run"
        self.assert_exit(train(whole, **sections(**self.SETTINGS)), 0)
        process = start_train(run, **sections(**self.SETTINGS))
        later = run / "tokens" / "step-00000013.parquet"
        self.assertTrue(wait_for(process, later.exists))
        process.send_signal(signal.SIGKILL)
        process.wait()
        shutil.copy(later, run / "tokens" / "step-00000099.parquet")
        (run / "tokens" / "step-00000014.parquet.partial").write_text("half of it")
        (run / "tokens" / "notes.txt").write_text("mine")
        self.assert_exit(train(run, "--resume", **sections(**self.SETTINGS)), 0)
        self.assertEqual((run / "tokens" / "notes.txt").read_text(), "mine")
        (run / "tokens" / "notes.txt").unlink()
        self.assertEqual(support.tree(run / "tokens"), support.tree(whole / "tokens"))
        self.assert_same_run(run, whole)

    def test_linked_records_are_untouched(self):
        run, other = self.folder / "run", self.folder / "other"
        self.assert_exit(train(run, **sections(train={"steps": 1})), 0)
        (run / "tokens").rename(other)
        (run / "tokens").symlink_to(other)
        shutil.copy(next(other.iterdir()), other / "step-00000099.parquet")
        before = support.tree(other)
        result = train(run, "--resume", **sections(train={"steps": 2}))
        self.assert_exit(result, 3)
        self.assertIn("is a link", result.stderr)
        self.assertEqual(support.tree(other), before)
        (run / "tokens").unlink()
        self.assert_exit(train(run, "--resume", **sections(train={"steps": 2})), 0)

    def test_an_overwrite_removes_only_the_records(self):
        run = self.folder / "run"
        self.assert_exit(train(run, **sections(train={"steps": 1})), 0)
        (run / "tokens" / "notes.txt").write_text("mine")
        self.assert_exit(train(run, "--overwrite", **sections(train={"steps": 1}, record={"tokens": "none"})), 0)
        self.assertEqual(support.tree(run / "tokens"), {"notes.txt": b"mine"})

    def test_an_unwritable_path_stops_the_run(self):
        whole, run = self.folder / "whole", self.folder / "run"
        self.assert_exit(train(whole, **sections()), 0)
        self.assert_exit(train(run, **sections(train={"steps": 1})), 0)
        (run / "tokens").rename(run / "mine")
        (run / "tokens").write_text("in the way")
        self.assert_refused(train(run, "--resume", **sections()), 4, "tokens", "step-000009; steps lost after it: 1", "--resume")
        self.assertEqual((run / "tokens").read_text(), "in the way")
        (run / "tokens").unlink()
        (run / "mine").rename(run / "tokens")
        self.assert_exit(train(run, "--resume", **sections()), 0)
        self.assert_same_run(run, whole)

    def test_a_full_disk_stops_the_run_and_leaves_no_partial_file(self):
        run = self.folder / "run"
        result = train(run, prefix=["prlimit", "--fsize=12000"],
                       **sections(sft={"steps": 0, "noisy_steps": 0}, checkpoint={"every": 0}, record={"samples_per_step": 0}))
        self.assert_refused(result, 4, "step-00000001.parquet", "File too large", "ulimit -f")
        self.assertEqual(support.tree(run / "tokens"), {})

    def test_records_follow_a_moved_folder(self):
        run, moved = self.folder / "run", self.folder / "moved"
        process = start_train(run, **sections(train={"steps": 60}))
        self.assertTrue(wait_for(process, (run / "tokens" / "step-00000010.parquet").exists))
        run.rename(moved)
        self.assertEqual(process.wait(), 0)
        steps = [row["step"] for row in read_jsonl(moved / "metrics.jsonl") if row["phase"] == "rl"]
        self.assertEqual([path.name for path in files(moved)], [f"step-{step:08d}.parquet" for step in steps])
        self.assertFalse(run.exists())


if __name__ == "__main__":
    try:
        support.main()
    finally:
        shutil.rmtree(SHARED, ignore_errors=True)
