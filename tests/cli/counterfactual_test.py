"""keel tokens and keel advise: predictions for other methods equal what those methods do in training, and their numbers follow from the
rows."""

import collections
import csv
import functools
import io
import json
import math
import pathlib
import re
import shlex
import shutil
import struct
import sys
import tempfile

import support
from support import keel, train
from terminal import on_terminal

try:
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    print(f"{error}; scripts/bootstrap.sh --tests installs it")
    sys.exit(77)

# One RL step of two updates. The sampler is noisy, so that pi and mu differ before the first update. Advantages and
# aggregation are set, since methods have different defaults.
RUN = {"sft": {"steps": 0, "noisy_steps": 0}, "optimizer": {"lr": 0.02}, "train": {"steps": 1}, "eval": {"prompts": 0},
       "reward": {"overlong_buffer": 30}, "checkpoint": {"every": 0}, "record": {"tokens": "every_step"},
       "rollout": {"samples_per_prompt": 4, "logit_noise": 0.5}}
ALIKE = {"advantage": "grpo", "aggregation": "token_mean"}

# The methods of the recorded runs, and the methods that need their extra columns.
TOP_K, PLAIN = "dppo_topk_tv:low=0.15,high=0.12,k=6", "dppo_tv:low=0.01,high=0.008"
CORRECTED, FULL_TV, FULL_KL = "minirl:low=0.01,high=0.02", "dppo_full_tv:low=0.02,high=0.01", "dppo_full_kl:low=0.002,high=0.001"
ANSWERED_BY = {
    TOP_K: ("dppo_topk_kl:low=0.01,high=0.01,k=6", "drpo_topk_kl:k=6", "dppo_topk_tv:support=replace_last,high=0.02,k=6", "drpo_topk_tv:k=6",
            "dppo_topk_kl:support=replace_last,high=0.001,k=6"),
    CORRECTED: ("tis:low=0.01,high=0.01", "icepop:low=0.01,high=0.01", "minirl_tis:ratio_cap=1.01", "mis:gap_high=1.1",
                "tis:level=sequence", "openrlhf:gate_low=0.9,gate_high=1.1"),
    FULL_TV: ("drpo_full_tv:delta=0.05", "dppo_full_tv:high=0.001"),
    FULL_KL: ("drpo_full_kl:delta=0.05", "dppo_full_kl:high=0.0001"),
}
# The other methods can be computed from any record. Parameters are set where the defaults would mask nothing. The first five cover every scope.
PARAMETERS = {"drpo": "delta=0.02", "gspo": "low=0.01,high=0.02", "dppo_kl": "high=0.001", "dppo_tv": "low=0.02,high=0.002", "grpo": "low=0.01,high=0.01",
              "ppo": "low=0.02,high=0.01,dual=1.1", "dr_grpo": "low=0.03,high=0.01", "minimal_mask": "delta=0.01"}
FIRST = ("drpo", "grpo_clip_higher", "gspo", "cppo", "m2po")


def other_rows():
    """Every method that needs no extra column, the chosen ones first."""
    elsewhere = {method.partition(":")[0] for base, methods in ANSWERED_BY.items() for method in (base, *methods)} - {"dppo_tv"}
    table = re.findall(r"(?m)^[* ] (\w+)", keel("methods").stdout)
    return [name + (":" + PARAMETERS[name] if name in PARAMETERS else "") for name in (*FIRST, *(set(table) - elsewhere - set(FIRST)))]


SHARED = pathlib.Path(tempfile.mkdtemp(prefix="keel_counterfactual_"))


def objective_of(method):
    """The settings that select a method given in the syntax of --method."""
    name, _, parameters = method.partition(":")
    listed = [parameter for parameter in parameters.split(",") if parameter]
    return {"method": name, "parameters": json.dumps(listed), **ALIKE}


@functools.cache
def run_of(method):
    run = SHARED / method.replace(":", "-")
    result = train(run, **RUN, objective=objective_of(method))
    assert result.returncode == 0, result.stderr
    return run


@functools.cache
def continued(method, stale):
    """The second step of a run that continues the checkpoint of PLAIN's first step. `stale`: its sampler is one step old and has no
    noise."""
    start, run = (SHARED / f"{name}{'-stale' if stale else ''}" for name in ("start", "continued-" + method.replace(":", "-")))
    rollout = {"samples_per_prompt": 4, "staleness": 1} if stale else RUN["rollout"]
    sections = {**RUN, "checkpoint": {"every": 1}, "rollout": rollout}
    if not start.exists():
        result = train(start, **sections, objective=objective_of(PLAIN))
        assert result.returncode == 0, result.stderr
    shutil.copytree(start, run)
    objective = objective_of(method)
    support.change_state(run / "checkpoints" / "step-000001",
                         config={"objective": {**objective, "parameters": json.loads(objective["parameters"])}, "run": {"dir": str(run)}})
    result = train(run, "--resume", **{**sections, "train": {"steps": 2}}, objective=objective)
    assert result.returncode == 0, result.stderr
    return run


def first_file(run):
    return sorted((run / "tokens").iterdir())[0]


def recorded(run, update=None):
    """The rows of all steps."""
    rows = [row for file in sorted((run / "tokens").iterdir()) for row in pyarrow.parquet.read_table(file).to_pylist()]
    return [row for row in rows if update in (None, row["update"])]


def rows_of_each(run, *methods, steps=":"):
    """Every row printed by keel tokens --each, as a dictionary."""
    result = keel("tokens", run, *(f"--method={method}" for method in methods), "--steps", steps, "--each", "-")
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout, newline="")))


def bits(number):
    """The bits of a float32, also of one in text; None for NaN and null."""
    if number is None or number == "":
        return None
    return struct.pack("<f", float(number))


def answers(run, *arguments):
    result = keel("tokens", run, *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class AnswersAreWhatTrainingDoes(support.Test):
    """Trains a step with one method, then a second step from its checkpoint with another. The record of the second run has the true
    recomputed log-probs, at the weights at which the first method recorded its second step."""

    def compare(self, base, methods, stale=False):
        rows = [row for row in rows_of_each(continued(base, stale), *methods, steps="2:2") if row["update"] == "0"]
        self.assertGreater(len(rows), 50)
        for method in methods:
            real = [row for row in recorded(continued(method, stale), update=0) if row["step"] == 2]
            self.assertEqual(len(real), len(rows))
            differs = 0
            for then, row in zip(real, rows):
                for name in ("rollout", "position", "token_id"):
                    self.assertEqual(str(then[name]), row[name])
                for name in ("log_mu", "log_pi", "advantage", "weight"):
                    self.assertEqual(bits(then[name]), bits(row[name]), f"{method}: {name}")
                place = f"{method}: rollout {then['rollout']}, position {then['position']}"
                self.assertEqual(row[f"{method} kept"], str(then["kept"]).lower(), place)
                self.assertEqual(row[f"{method} outside"], str(then["outside"]).lower(), place)
                self.assertEqual(bits(row[f"{method} coefficient"]), bits(then["coefficient"]), place)
                differs += bits(row[f"{method} coefficient"]) != bits(row["coefficient"])
            self.assertGreater(differs, 0, f"{method} does what {base} does: the comparison would not see a mistake")

    def test_methods_on_records_without_extra_columns(self):
        self.compare(PLAIN, support.count(other_rows()[:5], other_rows()))

    def test_methods_on_records_with_extra_columns(self):
        for base, methods in ANSWERED_BY.items():
            self.compare(base, support.count(methods[:1], (*methods, PLAIN, "drpo:delta=0.02")), stale=base in (FULL_TV, FULL_KL))

    def test_every_method_is_compared_or_refused_by_name(self):
        """Without extra columns, keel tokens rejects the methods that need one."""
        result = keel("tokens", continued(PLAIN, False), "--method", "all", "--json")
        self.assert_exit(result, 0)
        refused = {method.partition(":")[0] for base, methods in ANSWERED_BY.items() for method in (base, *methods)} - {"dppo_tv"}
        text = keel("tokens", continued(PLAIN, False), "--method", "all").stdout
        reasons = dict(re.findall(r"not compared: (\w+): (needs the column \w+)", text))
        column = {"dppo_topk_tv": "topk_tv", "drpo_topk_tv": "topk_tv", "dppo_topk_kl": "topk_kl", "drpo_topk_kl": "topk_kl", "dppo_full_tv": "full_tv",
                  "drpo_full_tv": "full_tv", "dppo_full_kl": "full_kl", "drpo_full_kl": "full_kl"}
        self.assertEqual(reasons, {name: "needs the column " + column.get(name, "log_recomputed") for name in refused})
        answered = [each["name"] for each in json.loads(result.stdout)["methods"]]
        self.assertEqual(sorted(answered), sorted(method.partition(":")[0] for method in other_rows()))

    def test_the_runs_method_reproduces_its_decisions(self):
        for base in (PLAIN, TOP_K):
            for row in rows_of_each(run_of(base), base):
                self.assertEqual((row[f"{base} kept"], bits(row[f"{base} coefficient"])), (row["kept"], bits(row["coefficient"])))
            own, (again,) = (answers(run_of(base), "--method", base)[key] for key in ("own", "methods"))
            self.assertEqual((again["held_back"], again["outside"]), (own["held_back"], own["outside"]))
            self.assertEqual((again["weight_change"], again["cosine"], again["types"]), (0, 1, []))

    def test_roundings_of_a_gpu_are_no_differences(self):
        run = self.folder / "run"
        shutil.copytree(run_of(PLAIN), run)
        table = pyarrow.parquet.read_table(first_file(run))
        index = table.schema.get_field_index("coefficient")
        rounded = pyarrow.array([value * (1 + 1e-7) for value in table.column(index).to_pylist()], pyarrow.float32())
        pyarrow.parquet.write_table(table.set_column(index, table.schema.field(index), rounded), first_file(run))
        self.assertEqual(answers(run, "--method", PLAIN)["methods"][0]["types"], [])


class Reader(support.Test):
    def test_rows_equal_those_read_by_pyarrow(self):
        run = run_of(TOP_K)
        rows, wanted = rows_of_each(run), recorded(run)
        self.assertEqual(len(rows), len(wanted))
        for row, then in zip(rows, wanted):
            self.assertEqual(list(row), list(then))
            for name, value in then.items():
                if isinstance(value, float) and name != "reward" or value is None:
                    self.assertEqual(bits(row[name]), bits(value), name)
                elif isinstance(value, bool):
                    self.assertEqual(row[name], str(value).lower(), name)
                else:
                    self.assertEqual(type(value)(row[name]), value, name)


class Numbers(support.Test):
    """Compared with the same arithmetic in Python, from the rows."""

    def test_fractions_overlap_weight_change_and_token_texts(self):
        run, method = run_of(PLAIN), "grpo_clip_higher:low=0.1"
        said = answers(run, "--method", method, "--top", "1000")
        (answer,) = said["methods"]
        rows = rows_of_each(run, method)
        blocked = [row[f"{method} kept"] == "false" for row in rows]
        by_run = [row["kept"] == "false" for row in rows]
        advantages = [float(row["advantage"]) for row in rows]

        def share(flags, chosen):
            chosen = [flag for flag, a in zip(flags, advantages) if chosen(a)]
            return sum(chosen) / len(chosen)

        for key, chosen in (("all", lambda a: True), ("positive", lambda a: a > 0), ("negative", lambda a: a < 0)):
            self.assertAlmostEqual(answer["held_back"][key], share(blocked, chosen), 12)
            self.assertAlmostEqual(said["own"]["held_back"][key], share(by_run, chosen), 12)
        pairs = collections.Counter(zip(by_run, blocked))
        self.assertEqual([answer[f"held_back_by_{who}"] for who in ("both", "run_only", "method_only")],
                         [pairs[True, True], pairs[True, False], pairs[False, True]])
        self.assertTrue(all(pairs.values()) and len(pairs) == 4, pairs)
        u = [float(row["coefficient"]) * float(row["weight"]) for row in rows]
        v = [float(row[f"{method} coefficient"]) * float(row["weight"]) for row in rows]
        norm = lambda x: math.sqrt(math.fsum(each * each for each in x))
        self.assertAlmostEqual(answer["weight_change"], norm([b - a for a, b in zip(u, v)]) / norm(u), 6)
        self.assertAlmostEqual(answer["sum_change"], (math.fsum(v) - math.fsum(u)) / math.fsum(map(abs, u)), 6)
        self.assertAlmostEqual(answer["cosine"], math.fsum(a * b for a, b in zip(u, v)) / norm(u) / norm(v), 6)
        change = collections.defaultdict(float)
        for row, a, b in zip(rows, u, v):
            change[row["token"]] += abs(b - a)
        wanted = sorted((value for value in change.values() if value > 0), reverse=True)
        self.assertEqual(len(answer["types"]), len(wanted))
        for kind, value in zip(answer["types"], wanted):
            self.assertAlmostEqual(kind["change"], value, 6)
            self.assertAlmostEqual(change[kind["token"]], value, 6)
            self.assertEqual(kind["tokens"], sum(row["token"] == kind["token"] for row in rows))
            self.assertEqual(kind["held_back"], sum(flag for row, flag in zip(rows, blocked) if row["token"] == kind["token"]))

    def test_without_a_method_the_runs_decisions_are_summarised(self):
        run = run_of(PLAIN)
        kinds = {}
        for row in recorded(run):
            if not row["kept"]:
                kinds.setdefault((row["token"], 1 if row["advantage"] > 0 else -1), []).append(row)
        said = answers(run, "--top", "1000")["own"]["types"]
        self.assertEqual({(kind["token"], kind["sign"]): kind["outside"] for kind in said}, {key: len(rows) for key, rows in kinds.items()})
        for kind in said:
            rows = kinds[kind["token"], kind["sign"]]
            self.assertAlmostEqual(kind["mu"], sum(math.exp(row["log_mu"]) for row in rows) / len(rows), 9)
            self.assertAlmostEqual(kind["entropy"], sum(row["entropy"] for row in rows) / len(rows), 9)
        text = keel("tokens", run)
        self.assert_exit(text, 0)
        self.assertIn("Most often outside, A < 0", text.stdout)
        table = list(csv.DictReader(io.StringIO(keel("tokens", run, "--csv").stdout, newline="")))
        self.assertEqual(sum(int(row["outside"]) for row in table), sum(map(len, kinds.values())))

    def test_centered_runs_record_the_coefficients_of_sampled_tokens(self):
        run = SHARED / "centered"
        self.assert_exit(train(run, **RUN, objective={"method": "dppo_tv", "delta": 0.01, "centering": "topk"}), 0)
        self.assertEqual(json.loads(pyarrow.parquet.read_schema(first_file(run)).metadata[b"keel.step"])["centering"], "topk")
        self.assertEqual(answers(run, "--method", "dppo_tv:delta=0.01")["methods"][0]["weight_change"], 0)
        for command in ("tokens", "advise"):
            self.assertIn("What objective.centering=topk subtracts is not recorded", keel(command, run).stdout)
            self.assertNotIn("centering", keel(command, run_of(PLAIN)).stdout)

    def test_advice(self):
        run, rows = run_of(PLAIN), recorded(run_of(PLAIN))
        moves = [(row["advantage"], math.exp(row["log_pi"]) - math.exp(row["log_mu"])) for row in rows]

        def outside(high):  # low keeps its ratio to high
            return sum(a * d > 0 and abs(d) > (high if a > 0 else high * 1.25) for a, d in moves) / len(moves)

        result = keel("advise", run, "--thresholds", "0.01,0.003", "--thresholds=0.02", "--target", "0.1", "--json")
        self.assert_exit(result, 0)
        said = json.loads(result.stdout)
        self.assertEqual((said["method"], said["threshold"], said["target"]), ("dppo_tv", 0.008, 0.1))
        self.assertEqual([each["threshold"] for each in said["thresholds"]], [0.003, 0.01, 0.02])
        for each in said["thresholds"]:
            self.assertAlmostEqual(each["outside"]["all"], outside(each["threshold"]), 3)
        grid = [round(digits * 10.0**power, 6) for power in (-4, -3, -2, -1) for digits in (1, 1.3, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 7.9)]
        best = min((value for value in grid if outside(value) > 0), key=lambda value: abs(outside(value) - 0.1))
        self.assertAlmostEqual(said["recommended"], best)
        self.assertAlmostEqual(said["recommended_share"], outside(best), 3)
        again = answers(run, "--method", f"dppo_tv:low={best * 1.25:.3g},high={best}")
        self.assertEqual(again["methods"][0]["outside"]["all"], said["recommended_share"])
        text = keel("advise", run)
        self.assert_exit(text, 0)
        self.assertIn("\n  objective.method=dppo_tv objective.delta=null objective.delta_low=", text.stdout)
        self.assertIn("Tokens outside the region for thresholds of drpo (current threshold: 0.5)", keel("advise", run, "--method", "drpo").stdout)
        # A side without a limit stays without one.
        for parameters, sign, setting in (("low=null,high=0.3", 1, "[low=null]"), ("low=0.3,high=null", -1, "[high=null]")):
            result = keel("advise", run, "--method", f"dppo_tv:{parameters}", "--thresholds", "0.01", "--json")
            self.assert_exit(result, 0)
            said = json.loads(result.stdout)
            share = sum(a * sign > 0 and a * d > 0 and abs(d) > 0.01 for a, d in moves) / len(moves)
            self.assertGreater(share, 0)
            self.assertAlmostEqual(said["thresholds"][0]["outside"]["all"], share, 3)
            self.assertEqual(said["threshold"], 0.3)
            self.assertIsNotNone(said["recommended"])
            self.assertIn(setting, keel("advise", run, "--method", f"dppo_tv:{parameters}").stdout)

    def test_the_recommended_setting_is_valid(self):
        """The settings train with the recommended threshold for configurations with one threshold, two, or other parameters."""
        configurations = []
        for objective in ({"delta": 0.3}, {"method": "dppo_tv", "delta_low": 0.01, "delta_high": 0.008}, {"method": "ppo", "parameters": ["dual=3.0"]},
                          {"method": "dppo_tv", "ratio_cap": 5}, {"method": "minimal_mask", "anchor": "recomputed"}):
            configurations.append(self.folder / f"{len(configurations)}.json")
            configurations[-1].write_text(json.dumps({"train": {"steps": 1}, "objective": objective}))
        run = run_of(PLAIN)
        for method, meant in (("dppo_tv:low=0.02,high=0.01", ()), ("ppo:low=0.02,high=0.01,dual=1.5", ("dual = 1.5",)), ("drpo:delta=0.3", ()),
                              ("minimal_mask", ()), ("dppo_tv:low=null,high=0.3", ("low = none",)), ("", ("ratio_cap = ",))):
            result = keel("advise", run, *(["--method", method] if method else []))
            self.assert_exit(result, 0)
            typed = shlex.split(result.stdout.splitlines()[-1])  # the printed line, unchanged
            self.assertRegex(result.stdout.splitlines()[-2], r"^For 0\.50 % outside use this setting \(.* % outside\):$")
            decided = set()
            thresholds = {setting.split("=")[0]: setting.split("=")[1] for setting in typed if "delta" in setting.split("=")[0]}
            for configuration in configurations:
                explained = keel("train", configuration, "--explain", *typed)
                self.assert_exit(explained, 0)
                for key, value in thresholds.items():
                    name = key.removeprefix("objective.").removeprefix("delta_")
                    self.assertIn(f"{name} = {value}" if value != "null" else "", explained.stdout, typed)
                for words in (*meant, typed[0].removeprefix("objective.method=") + ": "):
                    self.assertIn(words, explained.stdout, typed)
                decided.add(re.search(r"^ *method +.*\n.*", explained.stdout, re.M)[0])
            self.assertEqual(len(decided), 1, decided)


class Refusals(support.Test):
    def refused(self, code, reason, *arguments):
        result = keel(*arguments)
        self.assert_exit(result, code)
        self.assertIn(reason, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_methods_without_the_needed_columns_are_refused(self):
        plain, sample = run_of(PLAIN), self.folder / "sample"
        more = {"record": {"tokens": "sample"}, "rollout": {**RUN["rollout"], "samples_per_prompt": 8}}
        self.assert_exit(train(sample, **{**RUN, **more}, objective=objective_of("dppo_tv")), 0)
        for method, reason in (("dppo_topk_tv", "dppo_topk_tv: needs the column topk_tv, which the record of step"),
                               ("dppo_full_kl", "needs the column full_kl"), ("tis", "needs the column log_recomputed"),
                               ("nothing", '--method: unknown method "nothing"'), ("dppo_tv:hgh=1", 'has no parameter "hgh"; did you mean high?'),
                               ("dppo_tv:high", "expected PARAMETER=VALUE"), ("drpo,drpo", '"drpo" twice'),
                               ("delta=0.1", "expected NAME, or NAME:PARAMETER=VALUE"), ("dppo_tv:delta=0.1,low=0.2", "sets low twice"),
                               ("dppo_tv:high=2", "a total variation is at most 1")):
            self.refused(2, reason, "tokens", plain, "--method", method)
        self.refused(2, "use k=6", "tokens", run_of(TOP_K), "--method", "dppo_topk_tv")
        self.refused(2, "m2po: decides on whole updates, but the record of step 1 has 16 of 32 completions", "tokens", sample, "--method", "m2po")
        self.refused(2, "has no threshold to choose", "advise", plain, "--method", "pg")
        result = keel("tokens", sample, "--method", "all")
        self.assert_exit(result, 0)
        self.assertIn("not compared: m2po: decides on whole updates", result.stdout)
        self.assertIn("not compared: tis: needs the column log_recomputed", result.stdout)

    def test_unreadable_runs_and_files_are_refused(self):
        self.refused(3, "no such folder", "tokens", self.folder / "none")
        self.refused(3, "has no token records", "tokens", self.folder)
        self.refused(2, "none of them in this range", "tokens", run_of(PLAIN), "--steps", "7:")
        self.refused(2, "expected the first and the last step", "tokens", run_of(PLAIN), "--steps", "a")
        run = self.folder / "run"
        shutil.copytree(run_of(PLAIN), run)
        file = first_file(run)
        table = pyarrow.parquet.read_table(file)
        sound = file.read_bytes()
        file.write_bytes(sound[:len(sound) // 2])
        self.refused(3, "damaged token record", "tokens", run)
        self.refused(3, "damaged token record", "advise", run)
        def with_facts(**changes):
            facts = {**json.loads(table.schema.metadata[b"keel.step"]), **changes}
            return table.replace_schema_metadata({**table.schema.metadata, b"keel.step": json.dumps(facts)})

        def without_rows(table):
            """A file of an older version, which has no row count."""
            facts = json.loads(table.schema.metadata[b"keel.step"])
            del facts["rows"]
            return table.replace_schema_metadata({**table.schema.metadata, b"keel.step": json.dumps(facts)})

        for reason, changed in (("it has no column log_mu", table.drop_columns("log_mu")),
                                ("(keel.step)", table.slice(0, len(table) - 1)),
                                ('has no valid "recorded_rollouts": 16 of 1 completions', with_facts(rollouts=1)),
                                ('has no valid "recorded_rollouts": 16 of 20 completions', with_facts(rollouts=20)),
                                ('has no valid "method": no method "dppo_tw"', with_facts(method="dppo_tw")),
                                ('has no valid "parameters": the method dppo_tv has no parameter "hgh"', with_facts(parameters={"hgh": 1})),
                                ('has no valid "parameters": ', with_facts(parameters={"high": "much"})),
                                ('has no valid "kl_estimator"', with_facts(kl_estimator="k4")),
                                ('has no valid "kl_estimator"', with_facts(kl_estimator=4)),
                                ("its column kept is int32; expected bool", table.set_column(28, "kept", table["kept"].cast("int32"))),
                                ('format "2" (expected 1)',
                                 table.replace_schema_metadata({**table.schema.metadata, b"keel.format": b"2"})),
                                ('has no valid "top_k"', table.replace_schema_metadata(
                                    {**table.schema.metadata, b"keel.step": table.schema.metadata[b"keel.step"].replace(b"top_k", b"tip_k")}))):
            pyarrow.parquet.write_table(changed, file)
            for command in (("tokens", run), ("tokens", run, "--method", "dppo_tv")):
                result = keel(*command)
                self.assert_refused(result, 3, reason, f"{file}: ")
                self.assertEqual(result.stdout, "")
            report = keel("report", run, "-o", self.folder / "damaged.html")
            self.assert_exit(report, 0)
            if "has no valid" not in reason:  # methods use these columns, and the report does not
                self.assertIn(f"warning: {file}", report.stderr)
                self.assertIn(reason, report.stderr)
        # A later step used another method.
        pyarrow.parquet.write_table(table, file)
        other = without_rows(with_facts(step=2, method="grpo", parameters={}))
        other = other.set_column(0, other.schema.field("step"), pyarrow.array([2] * len(other)))
        second = file.with_name("step-00000002.parquet")
        pyarrow.parquet.write_table(other, second)
        self.refused(3, f"{second}: its method is grpo, but that of step 1 is dppo_tv", "tokens", run)
        self.assertEqual([answers(run, "--steps", step)["own"]["method"] for step in ("1", "2")], ["dppo_tv", "grpo"])
        second.unlink()
        # A token may be any text; control characters must be escaped.
        tokens = pyarrow.array(["a\0b\n"] * len(table))
        pyarrow.parquet.write_table(table.set_column(8, table.schema.field("token"), tokens), file)
        self.assertEqual([row["token"] for row in rows_of_each(run)], ["a\0b\n"] * len(table))
        self.assertTrue(keel("tokens", run, "--csv").stdout.endswith("\n"))
        tokens = pyarrow.array(["\x1b[31m\n\u202e"] * len(table))
        pyarrow.parquet.write_table(table.set_column(8, table.schema.field("token"), tokens), file)
        for arguments in (("--csv",), ("--each", "-")):
            self.assertIn("\x1b[31m\n\u202e", keel("tokens", run, *arguments).stdout)
            code, text = on_terminal("tokens", run, *arguments)
            self.assertEqual(code, 0)
            self.assertIn("\\x1b[31m\\n\\u202e,", text)
            self.assertNotRegex(text, "\x1b|\u202e")
            self.assertTrue(text.endswith("\r\n"))
        file.rename(file.with_name(file.name + ".partial"))
        self.refused(3, "is being written; wait for the end of the step", "tokens", run)


if __name__ == "__main__":
    support.main()
