"""The files of a finished run, and its output."""

import base64
import hashlib
import html.parser
import json
import math
import os
import re
import shutil
import subprocess

import support
from support import keel, train
from terminal import on_terminal

# The documented, stable names (docs/metrics.md) of an RL step.
RL_KEYS = """phase step updates
    reward/mean reward/std reward/zero_std_groups policy/entropy policy/kl_behavior
    trust_region/masked trust_region/masked_positive trust_region/masked_negative trust_region/masked_by_update trust_region/outside
    trust_region/divergence_mean trust_region/divergence_max trust_region/divergence_infinite
    mismatch/weights mismatch/abs_prob_mean mismatch/abs_prob_max ratio/mean ratio/max ratio/clamped
    completion/length_mean completion/length_max completion/truncated optimizer/grad_norm optimizer/grad_norm_max
    optimizer/grad_clipped optimizer/lr skipped_steps
    time/rollout time/reward time/train time/checkpoint time/checkpoint_write time/clock throughput/rollout_tokens_per_s throughput/train_tokens_per_s
    policy/prob_difference_max policy/prob_difference_min trust_region/bad_updates trust_region/divergence_histogram ratio/histogram
    memory/peak_bytes certificate/gain certificate/max_penalty certificate/average_penalty
    certificate/average_penalty_low certificate/bound certificate/standard_error certificate/improved
    certificate/divergence time/certificate""".split()
TOKEN_ARRAYS = ("tokens", "behavior_logp", "logp", "coefficient", "kept", "divergence", "threshold")


class Links(html.parser.HTMLParser):
    """Everything that a page would load from elsewhere."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.tags = set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "data", "action", "srcset") and not (value or "").startswith(
                    ("#", "data:")):
                self.found.append((tag, name, value))


class Parts(html.parser.HTMLParser):
    """The content security policy of a page, its scripts and styles, and attributes that act as either."""

    def __init__(self, text):
        super().__init__()
        self.policy, self.inside, self.texts, self.inline = "", None, {"script": [], "style": []}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag in self.texts:
            self.inside = tag
            self.texts[tag].append("")
        self.inline += [name for name, _ in attributes if name.startswith("on") or name == "style"]

    def handle_endtag(self, tag):
        self.inside = None if tag == self.inside else self.inside

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside][-1] += data  # data may come in several pieces


class FinishedRun(support.Test):
    def setUp(self):
        super().setUp()
        self.run = self.folder / "run"
        self.result = train(self.run)
        self.assert_exit(self.result, 0)

    def test_closed_standard_streams_do_not_end_up_in_the_files(self):
        run = self.folder / "closed"
        command = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', support.KEEL, "train", support.QUICKSTART,
                   *support.settings(run={"dir": run})]
        self.assertEqual(subprocess.run(command, env=support.environment(), timeout=support.HANG).returncode, 0)
        self.assertEqual(len([row for row in support.read_jsonl(run / "metrics.jsonl") if row["phase"] == "rl"]), 4)

    def test_the_written_configuration_reproduces_the_run(self):
        again = keel("train", self.run / "config.yaml", "--explain")
        self.assert_exit(again, 0)
        measured = r"  time  .*\n .*\n|[0-9.]+ [KMG]iB available"  # measured on the machine
        self.assertEqual(re.sub(measured, "", again.stdout), re.sub(measured, "", train(self.run, "--explain").stdout))
        self.assertRegex(again.stdout, measured)
        # The run that this file describes is bitwise equal.
        self.assert_exit(keel("train", self.run / "config.yaml", f"run.dir={self.folder / 'again'}"), 0)
        self.assert_same_run(self.folder / "again", self.run)
        text = (self.run / "config.yaml").read_text()
        self.assertEqual((self.folder / "again" / "config.yaml").read_text(),
                         text.replace(str(self.run), str(self.folder / "again")))

    def test_metrics_have_every_documented_key_and_finite_numbers(self):
        def no_constant(text):
            self.fail(f"{text} is not JSON")

        rows = [json.loads(line, parse_constant=no_constant)
                for line in (self.run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([(r["phase"], r["step"]) for r in rows],
                         [("sft", s) for s in range(1, 9)] + [("eval", 8)] + [("rl", s) for s in range(9, 13)] +
                         [("eval", 12)])
        for row in rows:
            if row["phase"] == "rl":
                self.assertEqual([key for key in RL_KEYS if key not in row], [])
            for key, value in row.items():
                if key.endswith("histogram"):
                    self.assertEqual(sum(value["counts"]), value["count"], key)
                    self.assertEqual(sorted(set(value["limits"])), value["limits"], key)
                    self.assertLessEqual(value["min"] * value["count"], value["sum"])
                elif key == "trust_region/masked_by_update":  # two updates in a step
                    self.assertEqual(len(value), 2)
                    self.assertTrue(min(value) <= row["trust_region/masked"] <= max(value), (value, row["trust_region/masked"]))
                elif key not in ("phase", "certificate/divergence", "mismatch/weights", "trust_region/blocked_tokens"):
                    self.assertTrue(math.isfinite(value), (key, value))
        rl = [row for row in rows if row["phase"] == "rl"]
        self.assertEqual({row["certificate/divergence"] for row in rl}, {"binary_tv"})
        self.assertTrue(all(row["optimizer/grad_norm"] > 0 for row in rl))
        for row in rl:  # Theorem 3.2: the gain minus the smaller penalty
            penalty = min(row["certificate/max_penalty"], row["certificate/average_penalty"])
            self.assertAlmostEqual(row["certificate/bound"], row["certificate/gain"] - penalty, places=9)
        # 8 updates of SFT, then 2 per step; 26 words, so no entropy exceeds log 26.
        self.assertEqual([r["updates"] for r in rows if r["phase"] == "rl"], [10, 12, 14, 16])
        self.assertTrue(all(0 <= r["reward/mean"] <= 1 and 0 <= r["policy/entropy"] <= math.log(26) + 1e-6
                            for r in rows if r["phase"] == "rl"))

    def test_warns_about_steps_without_an_update(self):
        run = self.folder / "cut_off"
        # Single tokens, so few that none happens to be the stop token.
        result = train(run, train={"mask_truncated": "true", "prompts_per_step": 1, "sequences_per_update": 2},
                       rollout={"max_new_tokens": 1, "samples_per_prompt": 2})
        self.assert_exit(result, 0)
        output = " ".join((result.stdout + result.stderr).split())
        self.assertEqual(output.count("no update was made in the first 3 steps: every completion was truncated"), 1, output)
        self.assertEqual(output.count("no update was made in 4 of 4 steps: every completion was truncated"), 1, output)
        self.assertEqual(sum("no update was made" in line for line in (run / "log.txt").read_text().splitlines()), 2)
        self.assertNotIn("no update was made", self.result.stdout + self.result.stderr)

    def test_samples_have_one_value_per_token(self):
        rows = support.read_jsonl(self.run / "samples.jsonl")
        self.assertEqual([(r["phase"], r["step"]) for r in rows],
                         [("eval", 8)] * 3 + [("rl", s) for s in range(9, 13) for _ in range(2)] + [("eval", 12)] * 3)
        for row in rows:
            arrays = TOKEN_ARRAYS if row["phase"] == "rl" else ("tokens", "behavior_logp")
            self.assertEqual({len(row[name]) for name in arrays}, {len(row["tokens"])}, row["step"])
            self.assertGreater(len(row["tokens"]), 0)
            self.assertTrue(all(x <= 0 for x in row["behavior_logp"]))
            words = [t for t in row["tokens"] if not t.startswith("<")]
            self.assertEqual(" ".join(words), row["completion"])

    def test_checkpoints_match_their_manifests(self):
        self.assertEqual(support.checkpoints(self.run), ["step-000010", "step-000012"])  # the newest two
        for name in support.checkpoints(self.run):
            support.verify_checkpoint(self.run / "checkpoints" / name)
        self.assertEqual((self.run / "checkpoints" / "LATEST").read_text(), "step-000012\n")
        self.assertEqual(sorted(os.listdir(self.run)),
                         ["checkpoints", "config.yaml", "log.txt", "metrics.jsonl", "report.html", "samples.jsonl", "used.json"])

    def test_the_log_has_every_printed_line_and_every_step(self):
        log = (self.run / "log.txt").read_text().splitlines()
        progress = re.compile(r" \d+/\d+(, [\d,]+ tokens/s)?(, .* left)?$| left$")  # within a step; printed only on a slow machine
        rest = iter(log)
        self.assertEqual([line for line in self.result.stdout.splitlines() if not progress.search(line) and line not in rest], [])
        self.assertEqual([line.split("  ")[0] for line in log if line.startswith(("RL ", "SFT "))],
                         [f"SFT {step}" for step in range(1, 9)] + [f"RL {step}/4" for step in range(1, 5)])

    def test_the_log_of_a_quiet_run_has_its_settings_and_its_error(self):
        run, reward = self.folder / "failed", self.folder / "reward.py"
        reward.write_text("def reward(completions, **columns):\n    raise ValueError('no tea')\n")
        result = train(run, "--quiet", reward={"functions": json.dumps([f"python:{reward}"])}, sft={"steps": 0, "noisy_steps": 0})
        self.assert_exit(result, 5, "no tea")
        log = (run / "log.txt").read_text()
        (error,) = (line for line in result.stderr.splitlines() if line.startswith("keel: "))
        self.assertIn(error, log.splitlines())
        self.assertRegex(log, "(?m)^  method  ")

    def test_the_end_prints_time_speed_and_rewards(self):
        rows = support.read_jsonl(self.run / "metrics.jsonl")
        sft, rl = ([row for row in rows if row["phase"] == phase] for phase in ("sft", "rl"))
        tokens = sum(row["throughput/rollout_tokens_per_s"] * row["time/rollout"] for row in rl)
        speed = f"{round(tokens / sum(row['time/step'] for row in rl)):,}"
        self.assertRegex(self.result.stdout, "(?m)^  time    .*s, including loading and saving$")
        self.assertRegex(self.result.stdout, rf"(?m)^  SFT     8 steps, [\d.]+ m?s per step   "
                         rf"loss {sft[0]['sft/loss']:.3f} at step 1, {sft[-1]['sft/loss']:.3f} at step 8$")
        self.assertRegex(self.result.stdout, rf"(?m)^  RL      4 steps, [\d.]+ m?s per step, {speed} tokens/s   "
                         rf"reward {rl[0]['reward/mean']:.3f} at step 1, {rl[-1]['reward/mean']:.3f} at step 4$")
        resumed = train(self.run, "--resume", train={"steps": 6})
        self.assert_exit(resumed, 0)
        self.assertRegex(resumed.stdout, "(?m)^  time    .* since the run was resumed at step 12, including loading")
        self.assertRegex(resumed.stdout, rf"(?m)^  RL      2 steps, .* reward {rl[0]['reward/mean']:.3f} at step 1, [\d.]+ at step 6$")
        self.assertNotIn("SFT     ", resumed.stdout)

    def test_a_steps_line_separates_policy_change_and_sampler_mismatch(self):
        rows = {row["step"]: row for row in support.metrics(self.run) if row["phase"] == "rl"}
        lines = [line for line in (self.run / "log.txt").read_text().splitlines() if line.startswith("RL ")]
        self.assertEqual(len(lines), len(rows))
        for line, row in zip(lines, rows.values()):
            numbers = dict(re.findall(r"(\w+) ([\d.e-]+)", line))
            for name, key, digits in (("blocked", "trust_region/masked", 4), ("divergence", "trust_region/divergence_mean", 5)):
                self.assertEqual(numbers[name], f"{row[key]:.{digits}f}", line)
            self.assertEqual(numbers["mismatch"], f"{row['mismatch/abs_prob_mean']:.1e}", line)
            self.assertLess(line.index("  length"), 79, line)  # what a terminal of 80 columns shows
        self.assertGreater(max(row["trust_region/divergence_mean"] for row in rows.values()), 1e-4)

    def assert_self_contained(self, page):
        text = page.read_text(encoding="utf-8")
        links = Links()
        links.feed(text)
        self.assertLessEqual({"html", "svg", "table"}, links.tags)
        self.assertEqual(links.found, [])
        self.assertEqual(re.findall(r"@import|url\((?!#|['\"]?data:)", text), [])
        self.assertEqual([u for u in re.findall(r"https?://[\w./-]*", text) if not u.startswith("http://www.w3.org/")], [])
        parts = Parts(text)
        directives = dict(directive.strip().split(" ", 1) for directive in parts.policy.split(";"))
        self.assertEqual(directives.pop("default-src"), "'none'")
        self.assertEqual(parts.inline, [])
        for tag, texts in parts.texts.items():
            self.assertEqual(len(texts), 1, tag)
            digest = base64.b64encode(hashlib.sha256(texts[0].encode()).digest()).decode()
            self.assertEqual(directives.pop(f"{tag}-src"), f"'sha256-{digest}'")
        self.assertEqual(set(directives.values()), {"'none'"})  # and no directive that allows more

    def test_runs_of_one_name_are_labelled_by_their_folders(self):
        twin = self.folder / "twin" / self.run.name
        twin.parent.mkdir()
        shutil.copytree(self.run, twin)
        page = self.folder / "twins.html"
        self.assert_exit(keel("report", self.run, twin, "-o", page), 0)
        for folder in (self.run, twin):
            self.assertIn(f">{folder}<", page.read_text())

    def test_reports_of_one_run_and_of_two_need_nothing_else(self):
        self.assert_self_contained(self.run / "report.html")
        report = (self.run / "report.html").read_text()
        self.assertRegex(report, r"at step [1-4]\b")  # RL steps count from 1, although 8 SFT steps precede them
        self.assertNotRegex(report, r"step (9|1[0-2])\b")
        self.assert_exit(train(self.folder / "other", run={"seed": 1}, objective={"method": "grpo"}), 0)
        page = self.folder / "both.html"
        result = keel("report", self.run, self.folder / "other", "-o", page, "--curve", self.folder / "curve.svg")
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout, f"{page}\n")
        self.assert_self_contained(page)
        self.assertIn("other", page.read_text())
        self.assertTrue((self.folder / "curve.svg").read_text().startswith("<svg"))

    def test_output_to_a_pipe_is_plain_lines(self):
        for text in (self.result.stdout, self.result.stderr, (self.run / "log.txt").read_text()):
            self.assertNotIn("\x1b", text)
            self.assertNotIn("\r", text)
        self.assertEqual(self.result.stderr, "")
        self.assertIn(f"{self.run}/report.html", self.result.stdout)
        self.assertIn(f"{self.run}/checkpoints/step-000012", self.result.stdout)


class Terminal(support.Test):
    def output(self, term="xterm", **changes):
        """The output of a small run on a pseudo-terminal."""
        code, text = on_terminal("train", support.QUICKSTART, "--overwrite", *support.settings(run={"dir": self.folder / "run"}), TERM=term, **changes)
        self.assertEqual(code, 0, text)
        return text

    def test_has_colours_by_default_and_one_progress_line(self):
        colour = r"\x1b\[\d+m"
        plain = self.output(NO_COLOR="1")
        self.assertNotRegex(plain, colour)
        self.assertIn("\r", plain)
        coloured = self.output()
        self.assertRegex(coloured, colour)
        self.assertEqual(self.kept(re.sub(colour, "", coloured)), self.kept(plain))

    @staticmethod
    def kept(text):
        """The lines that stay on the screen, without times."""
        return [re.sub(r"\d+\.\d\d s", "", re.sub(r".*\x1b\[K", "", line)) for line in text.split("\n")
                if not line.startswith(("  time  ", "  SFT  ", "  RL  "))]

    def test_a_dumb_terminal_gets_plain_lines(self):
        self.assertNotIn("\x1b", self.output(term="dumb"))


class Version(support.Test):
    def test_names_the_commit_the_library_and_the_device(self):
        result = keel("--version")
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, r"^keel \d+\.\d+\.\d+ \(commit [0-9a-z-]+\), LibTorch 2\.\d+\.\d+\S*, device \S+")
        self.assertEqual(result.stdout.count("\n"), 1)


if __name__ == "__main__":
    support.main()
