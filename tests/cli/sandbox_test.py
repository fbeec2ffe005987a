"""The code reward against programs that try to escape, to keep running, or to use up the machine; each many times. Runs once in the
sandbox's own namespaces and once in bubblewrap. A program that the sandbox must stop with an error prints "contained" only after it got
that error, and this output has the reward 1: so the attack was tried and failed. A program that must be killed has the reward 0."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import support

TIMES = support.count(2, 20)

PRINTS = [{"input": "", "output": "contained"}]  # the test asks the program to print this

PROGRAMS = support.sections(pathlib.Path(__file__).with_name("sandbox_programs.txt"))


def group(name):
    return {key.partition(": ")[2]: program for key, program in PROGRAMS.items() if key.startswith(name + ": ")}


CONTAINED, CUT_OFF, HELPERS = group("contained"), group("cut off"), group("helper")


class Namespaces(support.Test):
    WAY, PREFIX, PYTHON = "namespaces", (), sys.executable
    works = False  # checked once

    def setUp(self):
        super().setUp()
        self.require_sandbox()
        self.own = support.Descendants()
        if not type(self).works:
            self.check_that_it_works()
            type(self).works = True

    def check_that_it_works(self):
        probe = self.judge([{"completion": "print('contained')", "answer": PRINTS}], check=False)
        if probe.returncode == 2:
            self.assertIn("needs a sandbox", probe.stderr)
            raise unittest.SkipTest(probe.stderr)
        environment = support.environment(PATH=f"{os.path.dirname(self.PYTHON)}:{os.environ['PATH']}")
        doctor = subprocess.run([*self.PREFIX, support.KEEL, "doctor"], env=environment, capture_output=True, text=True, check=True)
        self.assertIn(f"sandbox      works, by {self.WAY}", doctor.stdout)

    def require_sandbox(self):
        pass

    def judge(self, rows, check=True, prefix=(), **options):
        """Returns the rewards of the rows or, with check=False, the result of the process. `prefix` is a command that starts it."""
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = {"functions": f'["code:seconds={options.pop("seconds", support.HANG)}"]', "python": self.PYTHON, "workers": 4, **options}
        command = [*self.PREFIX, *prefix, support.KEEL, "reward", str(path), *(f"reward.{key}={value}" for key, value in options.items())]
        result = subprocess.run(command, env=support.environment(KEEL_SECRET="secret"), timeout=support.HANG, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        if not check:
            return result
        self.assert_exit(result, 0)
        self.assert_nothing_runs()
        return [json.loads(line)["reward"] for line in result.stdout.splitlines()]

    def assert_rewards(self, reward, programs, answer, times=TIMES, **options):
        """Every program gets this reward every time; one call scores all of them, some in parallel."""
        rows = [{"completion": program, "answer": answer} for program in programs.values() for _ in range(times)]
        rewards = self.judge(rows, **options)
        for number, name in enumerate(programs):
            with self.subTest(name):
                self.assertEqual(rewards[number * times:(number + 1) * times], [reward] * times)

    def sandboxed(self):
        """The running test programs that this test started."""
        return self.own.running(b"-I\0-B\0")

    def assert_nothing_runs(self):
        """A killed process may need a moment to end; a survivor would stay."""
        until = support.time.monotonic() + support.HANG
        while survivors := self.sandboxed():
            self.assertLess(support.time.monotonic(), until, f"survivors: {survivors}")
            support.time.sleep(0.01)

    def test_attacks_that_must_fail_inside(self):
        secret, unix = self.folder / "secret.txt", self.folder / "unix"
        secret.write_text("secret")
        os.chmod(self.folder, 0o755)
        connected = []
        listener = socket.create_server(("127.0.0.1", 0))
        local = socket.socket(socket.AF_UNIX)
        local.bind(str(unix))
        local.listen()
        for server in (listener, local):
            threading.Thread(target=lambda s=server: connected.append(s.accept()), daemon=True).start()
        values = {"SECRET": str(secret), "UNIX": str(unix), "MARKER": str(self.folder / "escaped"), "PORT": listener.getsockname()[1]}
        head = "".join(f"{key} = {value!r}\n" for key, value in values.items())
        self.assert_rewards(1, {name: head + program for name, program in CONTAINED.items()}, PRINTS)
        self.assertEqual(connected, [])
        self.assertFalse((self.folder / "escaped").exists())

    def test_programs_that_must_be_killed(self):
        self.assert_rewards(0, CUT_OFF, PRINTS, times=support.count(1, 20), seconds=0.7)  # most of them keep a core busy

    def test_fake_results_are_not_accepted(self):
        self.assert_rewards(0, group("forged"), ["assert f(1) == 2", "assert f(2) == 3"])

    def test_a_detached_grandchild_is_killed(self):
        self.assert_rewards(1, {"a survivor": HELPERS["a survivor"]}, PRINTS)

    def test_programs_may_start_processes(self):
        row = {"completion": HELPERS["legitimate processes"], "answer": [{"input": "", "output": "285\n1"}]}
        self.assertEqual(self.judge([row]), [1])

    def test_an_interpreter_in_tmp_is_accessible(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            os.chmod(folder, 0o755)
            subprocess.run([self.PYTHON, "-m", "venv", "--without-pip", f"{folder}/venv"], check=True)
            row = {"completion": "import sys\nprint(sys.prefix)", "answer": [{"input": "", "output": f"{folder}/venv"}]}
            self.assertEqual(self.judge([row], python=f"{folder}/venv/bin/python"), [1])

    def test_missing_permissions_are_reported(self):
        row = {"completion": "print('contained')", "answer": PRINTS}
        (self.folder / "bwrap").write_text("#!/bin/sh\necho 'bwrap: not on my watch' >&2\nexit 1\n")
        os.chmod(self.folder, 0o755)
        for mode, words in ((0o644, "it is not installed"), (0o755, "not on my watch")):
            os.chmod(self.folder / "bwrap", mode)
            path = f"PATH={self.folder}"
            result = self.judge([row], check=False, prefix=[*self.setpriv("--bounding-set", "-sys_admin"), "/usr/bin/env", path])
            self.assert_refused(result, 2, "needs a sandbox", "unshare", "with bubblewrap", words)
            self.assertEqual(result.stdout, "")

    def test_the_sandbox_works_without_root(self):
        prefix = self.setpriv("--reuid", "1000", "--regid", "1000", "--clear-groups")
        os.chmod(self.folder, 0o755)
        python = "/usr/bin/python3"
        if not os.path.exists(python) or subprocess.run([*prefix, support.KEEL, "--version"], stdout=subprocess.DEVNULL).returncode != 0:
            self.skipTest("another user can read neither keel nor a Python here")
        names = ("a fork bomb", "a gigabyte of memory", "new namespaces, mounts and leaving a chroot",
                 "changing limits and scheduling of the processes outside")
        self.assert_rewards(1, {name: CONTAINED[name] for name in names}, PRINTS, prefix=prefix, python=python)

    def setpriv(self, *arguments):
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            self.skipTest("needs root and setpriv")
        return [shutil.which("setpriv"), *arguments]

    def test_killed_keel_leaves_nothing_running(self):
        path = self.folder / "rows.jsonl"
        path.write_text(json.dumps({"completion": CUT_OFF["children that keep running"], "answer": [{"input": "", "output": "x"}]}) + "\n")
        process = subprocess.Popen([*self.PREFIX, support.KEEL, "reward", str(path), 'reward.functions=["code:seconds=600"]',
                                    f"reward.python={self.PYTHON}"], stdout=subprocess.DEVNULL)
        self.assertTrue(support.wait_for(process, lambda: len(self.sandboxed()) > 4))
        process.kill()
        process.wait()
        self.assert_nothing_runs()


class Bubblewrap(Namespaces):
    works = False
    # Root drops its rights before bubblewrap mounts Python's folders, which other users must be able to read.
    WAY, PREFIX = f"bubblewrap ({shutil.which('bwrap')})", (sys.executable, "-c", HELPERS["run without unshare(2)"])
    PYTHON = "/usr/bin/python3"

    def require_sandbox(self):
        if shutil.which("bwrap") is None:
            self.skipTest("bubblewrap is not installed")
        if not os.path.exists(self.PYTHON):
            self.skipTest(f"there is no {self.PYTHON}")


if __name__ == "__main__":
    support.main()
