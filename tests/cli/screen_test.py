"""Output on terminals of several widths, dumb terminals, without colours, into a pipe, and with --quiet."""

import re

import support
from support import keel
from terminal import on_terminal

COLOURS = re.compile("\x1b\\[[0-9;]*m")
REWRITTEN = re.compile("\r([^\r\n]*?)\x1b\\[K")


class Screen(support.Test):
    def command(self, name="run", **sections):
        return ["train", support.QUICKSTART, *support.settings(run={"dir": self.folder / name}, **sections)]

    def on_terminal(self, *command, **options):
        code, text = on_terminal(*command, **options)
        self.assertEqual(code, 0, text)
        return text

    def test_a_line_that_is_rewritten_fits_the_terminal(self):
        for columns in (80, 200):
            painted = self.on_terminal(*self.command(f"of_{columns}"), columns=columns)
            self.assertRegex(painted, COLOURS)
            text = COLOURS.sub("", painted)
            rewritten = REWRITTEN.findall(text)
            lines = [line.rpartition("\x1b[K")[2] for line in text.split("\n")]  # the lines that stay
            kept = [line for line in lines if line.startswith(("RL ", "SFT "))]
            self.assertGreater(len(rewritten), 8)  # SFT steps
            self.assertEqual([line[:6] for line in kept], ["RL 4/4"])
            self.assertLess(max(map(len, rewritten + kept)), columns)
            whole = [line for line in kept if re.fullmatch(r"RL \d/4  reward .*  divergence [\d.]+  length [\d.]+  mismatch [\d.e+-]+  [\d.]+ s", line)]
            self.assertEqual(len(whole), 1 if columns == 200 else 0, kept)  # about 110 columns
            head = lines[:next(i for i, line in enumerate(lines) if "self-test" in line)]
            self.assertLessEqual(max(map(len, head)), columns, head)
            chart = [line for line in text.splitlines() if "┤" in line or "┼" in line]
            self.assertLessEqual(max(map(len, chart), default=0), columns)
            log = (self.folder / f"of_{columns}" / "log.txt").read_text()
            self.assertEqual(len(re.findall(r"RL \d/4  reward .*  divergence [\d.]+  length [\d.]+  mismatch [\d.e+-]+  [\d.]+ s", log)), 4)

    def test_a_pipe_gets_plain_lines(self):
        result = keel(*self.command())
        self.assert_exit(result, 0)
        self.assertNotRegex(result.stdout + result.stderr, "[\x1b\r\b]")
        self.assertRegex(result.stdout, "(?m)^RL 4/4 ")
        self.assertLess(len(re.findall("(?m)^warm-up ", result.stdout)), 8)  # only some steps are printed

    def test_colours_need_a_colour_terminal_and_can_be_disabled(self):
        evaluate = ["eval", support.QUICKSTART, *support.eval_settings(run={"dir": self.folder / "run"})]
        for command in ([*self.command(), "--overwrite"], evaluate):
            plain = self.on_terminal(*command, NO_COLOR="1")
            self.assertNotRegex(plain, COLOURS)
            self.assertNotIn("\x1b", plain.replace("\x1b[K", ""))
            self.assertNotRegex(self.on_terminal(*command, TERM="dumb"), "[\x1b\r\b]")

    def test_quiet_runs_print_only_the_result(self):
        loud = keel(*self.command("loud"))
        self.assert_exit(loud, 0)
        piped = keel(*self.command("piped"), "--quiet")
        self.assert_exit(piped, 0)
        self.assertEqual(piped.stderr, "")
        for run, text in (("piped", piped.stdout), ("terminal", self.on_terminal(*self.command("terminal"), "-q"))):
            before, after, checkpoint = text.splitlines()
            self.assertRegex(before, r"^  before  \d\.\d{3}   ")
            self.assertRegex(after, r"^  after   \d\.\d{3}   ")
            self.assertTrue(checkpoint.startswith(f"  {self.folder / run}/checkpoints/step-000012 "), checkpoint)
            self.assertNotIn("\r", text)
            for line in (before, after):
                self.assertIn(line, loud.stdout)
            times = re.compile(r"\d+\.\d+ s$|^  (time|SFT|RL)  .*", re.M)
            texts = [times.sub("", (self.folder / name / "log.txt").read_text()).replace(name, "") for name in ("loud", run)]
            self.assertEqual(*(text.split() for text in texts))  # a terminal's width breaks the lines of settings

    def test_quiet_evaluations_print_their_metrics(self):
        run = self.folder / "run"
        self.assert_exit(keel(*self.command(), "-q"), 0)
        evaluate = ["eval", support.QUICKSTART, *support.eval_settings(run={"dir": run}), "--model", run]
        loud, quiet = keel(*evaluate), keel(*evaluate, "--quiet")
        self.assert_exit(quiet, 0)
        self.assertEqual((quiet.stdout, quiet.stderr), (loud.stdout, ""))
        self.assertIn("is a run", loud.stderr)

    def test_quiet_runs_print_warnings_and_errors(self):
        result = keel(*self.command(), "-q", "train.stepz=3")
        self.assert_refused(result, 2, "train.stepz")
        result = keel(*self.command(train={"steps": 20}), "-q", "reward.functions=[pattern:never]")
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, "(?m)^warning: .*all rewards of every prompt")


if __name__ == "__main__":
    support.main()
