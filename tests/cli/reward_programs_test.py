"""Reward programs and files: extra output, changed files, and leftover processes."""

import hashlib
import json
import os
import subprocess
import sys
import time

import support


class KilledKeel(support.Test):
    def test_leaves_no_worker_and_no_descendant(self):
        """Not even a child in its own session: the process between Keel and the worker notices that Keel has ended."""
        path = self.folder / "daemon.py"
        path.write_text("""
import os, subprocess, sys
def reward(completions, **columns):
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(os.path.join(os.path.dirname(__file__), "processes"), "w") as note:
        note.write(f"{os.getpid()} {child.pid} .")
    child.wait()
""")
        rows, note = self.folder / "rows.jsonl", self.folder / "processes"
        rows.write_text(json.dumps({"prompt": "p", "completion": "c"}) + "\n")
        process = subprocess.Popen([support.KEEL, "reward", str(rows), f'reward.functions=["python:{path}"]', f"reward.python={sys.executable}"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(support.wait_for(process, lambda: note.exists() and note.read_text().endswith(".")))
        started = [int(number) for number in note.read_text().split()[:2]]
        self.assertTrue(all(map(self.runs, started)))
        process.kill()
        process.wait()
        until = time.monotonic() + support.HANG
        while any(map(self.runs, started)):
            self.assertLess(time.monotonic(), until, "survivors")
            time.sleep(0.01)

    def runs(self, number):
        return support.state_of(number) != "Z"


# Replies without "id", and prints an extra line before the first reply, or after the first one when the file argv[2] is there.
STRAY = """
import json, os, sys, time
for number, line in enumerate(sys.stdin):
    rewards = [float(c) for c in json.loads(line)["completions"]]
    if number == 0 and sys.argv[1] == "before":
        print(json.dumps({"rewards": [0.5] * len(rewards)}), flush=True)
    print(json.dumps({"rewards": rewards}), flush=True)
    if sys.argv[1] == "after":
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.01)
        print(json.dumps({"rewards": [0.5] * len(rewards)}), flush=True)
        os.remove(sys.argv[2])
"""

# Ends its process at the first call, after the file NEW has replaced it.
CHANGED = """
import os
def reward(completions, **columns):
    if os.path.exists("NEW"):
        os.replace("NEW", __file__)
        os._exit(1)
    return [1.0] * len(completions)
"""


class WithoutProc(support.Test):
    def test_programs_are_refused_by_what_is_missing(self):
        hidden = ["unshare", "-m", "sh", "-c", 'umount -l /proc && exec "$0" "$@"']
        if os.geteuid() != 0 or subprocess.run([*hidden, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("needs root and unshare")
        rows, file = self.folder / "rows.jsonl", self.folder / "reward.py"
        rows.write_text(json.dumps({"prompt": "p", "completion": "def f(x): return x", "answer": ["assert f(2) == 2"]}) + "\n")
        file.write_text("def reward(completions, **columns): return [1.0] * len(completions)\n")
        for function in ("code", f"python:{file}", "exec:cat"):
            result = subprocess.run([*hidden, support.KEEL, "reward", rows, f'reward.functions=["{function}"]',
                                     f"reward.python={sys.executable}"], env=support.environment(), capture_output=True, text=True)
            self.assert_refused(result, 2, "keel: the rewards code, python: and exec: need /proc, which is not mounted")


class ProgramsThatAreNotToBeTrusted(support.Test):
    def refuse(self, *functions, **options):
        data = "".join(json.dumps({"prompt": f"p{i}", "completion": str(i), "answer": "3"}) + "\n" for i in range(6))
        (self.folder / "rows.jsonl").write_text(data)
        options = {"python": sys.executable, "functions": json.dumps(functions), "workers": 1, **options}
        result = support.keel("reward", self.folder / "rows.jsonl", *(f"reward.{key}={value}" for key, value in options.items()))
        self.assert_exit(result, 5)
        return result.stderr

    def test_extra_output_lines_do_not_shift_rewards(self):
        program, slow, called = self.folder / "stray.py", self.folder / "slow.py", self.folder / "called"
        program.write_text(STRAY)
        slow.write_text(f"import os, time\ndef reward(completions, **columns):\n    open({str(called)!r}, 'w').close()\n"
                        f"    while os.path.exists({str(called)!r}):\n        time.sleep(0.01)\n    return [0.0] * len(completions)\n")
        self.assertIn("printed more than one line", self.refuse(f"exec:{sys.executable} {program} before"))
        text = self.refuse(f"exec:{sys.executable} {program} after {called}", f"python:{slow}")
        self.assertIn("sent a reply without a request", text)
        self.assertIn("the wrong completions", text)

    def test_a_file_that_is_changed_while_it_is_in_use_ends_the_run(self):
        file, new = self.folder / "reward.py", self.folder / "new.py"
        file.write_text(CHANGED.replace("NEW", str(new)))
        for on_error in ("stop", "skip"):
            new.write_text("def reward(completions, **columns): return [9.0] * len(completions)\n")
            before, after = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (file, new))
            text = self.refuse(f"python:{file}", on_error=on_error)
            for part in (str(file), "was changed during the run", before, after, "uses the new version"):
                self.assertIn(part, text)
            file.write_text(CHANGED.replace("NEW", str(new)))


if __name__ == "__main__":
    support.main()
