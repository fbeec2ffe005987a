"""keel completion in real shells. The expected candidates come from the program's tables."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

import support

END = "\x07"  # a key bound to printing the line in each shell


class Typed:
    """An interactive shell on a pseudo-terminal. line() types text and returns the command line that results."""

    def __init__(self, command, cwd, *setup):
        self.ours, theirs = pty.openpty()
        environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "TERM": "dumb", "LC_ALL": "C.UTF-8", "COLUMNS": "200"}
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment, start_new_session=True)
        os.close(theirs)
        for line in setup:
            self.send(line + "\n")
        self.send("echo re''ady\n")
        self.until(r"(?m)^ready")

    def send(self, text):
        os.write(self.ours, text.encode())

    def until(self, pattern):
        """Returns the output up to and including a match of the pattern."""
        text, end = "", time.monotonic() + support.HANG
        while not (match := re.search(pattern, text)):
            if not select.select([self.ours], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{pattern} did not come: {text!r}")
            text += os.read(self.ours, 4096).decode(errors="replace").replace("\r\n", "\n")
        return text, match

    def line(self, typed):
        """Returns the command line after its tabs were completed, and everything that was printed."""
        self.send(typed + END)
        printed, match = self.until(r"<<(.*)>>")
        self.send("\x15")  # clears the line
        return match[1], printed

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


class Completion(support.Test):
    @classmethod
    def setUpClass(cls):
        cls.scripts = {}
        for shell in ("bash", "zsh", "fish"):
            result = support.keel("completion", shell)
            assert result.returncode == 0, result.stderr
            cls.scripts[shell] = result.stdout

    def setUp(self):
        super().setUp()
        for name in ("rows.jsonl", "two words.yaml", "mine.yaml"):
            (self.folder / name).write_text("")
        (self.folder / "runs" / "one").mkdir(parents=True)
        (self.folder / "keel.script").write_text("")

    def script(self, shell):
        file = self.folder / f"keel.{shell}"
        file.write_text(self.scripts[shell])
        return file

    def test_an_unknown_shell_is_refused(self):
        self.assert_refused(support.keel("completion", "csh"), 2, "csh")

    def test_every_command_and_setting_is_offered(self):
        commands = re.findall(r"(?m)^  ([a-z]+) ", support.keel("help").stdout.split("Subcommands:")[1])
        settings = re.findall(r"(?m)^  ([a-z_]+\.[a-z_0-9.]+=)", support.keel("help", "settings").stdout)
        self.assertGreater(len(commands), 12)
        self.assertGreater(len(settings), 100)
        for shell, script in self.scripts.items():
            for word in commands + settings:
                self.assertRegex(script, rf"(?m)^        '{re.escape(word)}[\t']", shell)

    CASES = [
        # typed text, completed line
        ("keel tr\t", "keel train "),
        ("keel exp\t", "keel export "),
        ("keel train mine.yaml run.prec\t", "keel train mine.yaml run.precision="),
        ("keel train run.pre\t", "keel train run.precision="),
        ("keel train mine.yaml run.precision=b\t", "keel train mine.yaml run.precision=bf16 "),
        ("keel train mine.yaml run.deterministic=t\t", "keel train mine.yaml run.deterministic=true "),
        ("keel quickstart objective.method=dppo_topk_t\t", "keel quickstart objective.method=dppo_topk_tv "),
        ("keel train mi\t", "keel train mine.yaml "),
        ("keel train mine.yaml run.dir=ru\t", "keel train mine.yaml run.dir=runs/"),
        ("keel train mine.yaml --expl\t", "keel train mine.yaml --explain "),
        ("keel export runs/one --tens\t", "keel export runs/one --tensorboard "),
        ("keel sft model=ru\t", "keel sft model=runs/"),
        ("keel export ru\t", "keel export runs/"),
        ("keel export mi\t", "keel export mi"),  # not a folder
        ("keel generate --device cu\t", "keel generate --device cuda "),
        ("keel generate --device=cu\t", "keel generate --device=cuda "),
        ("keel generate --device cuda --prec\t", "keel generate --device cuda --precision "),
        ("keel methods dppo_topk_k\t", "keel methods dppo_topk_kl "),
        ("keel reward rows.jsonl reward.pyth\t", "keel reward rows.jsonl reward.python="),
        ("keel reward rows.jsonl train.st\t", "keel reward rows.jsonl train.st"),  # loads only the section reward
        ("keel help data.eval_f\t", "keel help data.eval_files "),
        ("keel tokens runs/one --method dppo_topk_k\t", "keel tokens runs/one --method dppo_topk_kl "),
        ("keel completion fi\t", "keel completion fish "),
    ]

    def check(self, shell, cases):
        for typed, wanted in cases:
            with self.subTest(typed):
                self.assertEqual(shell.line(typed)[0].rstrip(), wanted.rstrip())

    def offered(self, shell, typed, *words):
        printed = shell.line(typed)[1]
        for word in words:
            self.assertRegex(printed, rf"(?<![\w.-]){re.escape(word)}(?![\w.])")

    def test_bash(self):
        shell = Typed(["bash", "--norc", "--noprofile", "-i"], self.folder, "PS1='$ '", "bind 'set bell-style none'",
                      "bind 'set show-all-if-ambiguous on'", "bind 'set page-completions off'", "bind 'set completion-query-items 0'",
                      "bind -x '\"\\C-g\": printf \"<<%s>>\" \"$READLINE_LINE\"'", f". {self.script('bash')}")
        self.addCleanup(shell.end)
        self.check(shell, self.CASES)
        self.check(shell, [
            ("OMP_NUM_THREADS=1 keel tr\t", "OMP_NUM_THREADS=1 keel train "),
            ("true; keel train run.pre\t", "true; keel train run.precision="),
            ("./build/keel tr\t", "./build/keel train "),
            ("keel train 'two\t", "keel train 'two words.yaml' "),
            ("keel train mine.yaml data.files='[ro\t", "keel train mine.yaml data.files='[rows.jsonl]'"),
            ("keel train mine.yaml data.files=[ro\t", "keel train mine.yaml data.files=[rows.jsonl] ")])
        self.offered(shell, "keel train mine.yaml run.precision=\t", "auto", "float32", "bf16", "fp16")
        self.offered(shell, "keel export --\t", "--csv", "--tensorboard", "--wandb", "--mlflow", "--metric", "--overwrite", "--help")
        self.offered(shell, "keel train m\t", "mine.yaml", "model.path=")  # a file or a setting
        shell.send("COMP_WORDBREAKS=${COMP_WORDBREAKS//=}\n")  # a common user setting
        self.check(shell, [case for case in self.CASES if "=" in case[1]])

    @unittest.skipUnless(shutil.which("zsh"), "zsh is missing")
    def test_zsh(self):
        shell = Typed(["zsh", "-f", "-i"], self.folder, "PS1='$ '; unsetopt beep zle_bracketed_paste prompt_sp; bindkey -e", "bindkey '^U' kill-whole-line",
                      "autoload -U compinit; compinit -u -D", "shown() { print -rn -- \"<<$BUFFER>>\" }; zle -N shown; bindkey '^G' shown",
                      f". {self.script('zsh')}")
        self.addCleanup(shell.end)
        self.check(shell, self.CASES)
        self.check(shell, [("keel train mine.yaml data.files=ro\t", "keel train mine.yaml data.files=\\[rows.jsonl\\]"),
                           ("keel train mine.yaml data.files='[ro\t", "keel train mine.yaml data.files=\\[rows.jsonl\\]"),
                           ("keel train two\t", "keel train two\\ words.yaml ")])
        self.offered(shell, "keel train mine.yaml run.precision=\t", "auto", "float32", "bf16", "fp16")
        self.offered(shell, "keel export --\t", "--csv", "--tensorboard", "--wandb", "--mlflow", "--metric", "--overwrite", "--help")

    @unittest.skipUnless(shutil.which("fish"), "fish is missing")
    def test_fish(self):
        def offers(line):
            result = subprocess.run(["fish", "--no-config", "-c", f"source {self.script('fish')}; complete -C {line!r}"], cwd=self.folder,
                                    env={**support.environment(), "HOME": str(self.folder)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            return [offer.split("\t")[0] for offer in result.stdout.splitlines()]
        for typed, wanted in self.CASES:
            with self.subTest(typed):
                word = typed.rstrip("\t").split(" ")[-1]
                wanted = wanted.rstrip().split(" ")[-1]
                self.assertEqual([offer for offer in offers(typed.rstrip("\t")) if offer.startswith(word)], [wanted] if wanted != word else [])
        self.assertEqual(offers("keel train mine.yaml run.precision="), [f"run.precision={type_}" for type_ in ("auto", "bf16", "float32", "fp16")])
        self.assertIn("data.files=[rows.jsonl]", offers("keel train mine.yaml data.files="))
        self.assertLessEqual({"--csv", "--tensorboard", "--wandb", "--mlflow", "--metric", "--overwrite", "--help"}, set(offers("keel export --")))


if __name__ == "__main__":
    support.main()
