"""The code reward against programs that try to get out, to stay, or to take the machine with them; each many times.

Once in the namespaces that the sandbox makes itself, and once in bubblewrap's.

An attack that the sandbox must stop with an error prints "contained" only after it has seen that error, and the reward
of that output is 1: so the attack did run, and did fail. An attack that must be cut off is worth 0.
"""

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

PRINTS = [{"input": "", "output": "contained"}]  # what tests ask of a program: to print this

# Must end with an error inside, which the program reports itself.
CONTAINED = {
    "a gigabyte of memory": """
try:
    x = bytearray(1 << 30)
except MemoryError:
    print("contained")
""",
    "writing outside": """
import os
tried = ["/escaped", "/usr/escaped", "/etc/escaped", "/root/escaped", "/home/escaped", "/dev/escaped", "/var/tmp/escaped", MARKER]
blocked = 0
for path in tried:
    try:
        open(path, "w").write("x")
    except OSError:
        blocked += 1
print("contained" if blocked == len(tried) else "escaped")
""",
    "reading the environment of process 1 and other secrets": """
import os
tried = ["/proc/1/environ", "/proc/self/environ", "/etc/shadow", "/etc/passwd", SECRET, os.path.dirname(SECRET)]
print("contained" if not any(os.path.exists(path) for path in tried) and "KEEL_SECRET" not in os.environ else "escaped")
""",
    "ptrace": """
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(0)
result = libc.ptrace(16, child, 0, 0)
os.kill(child, signal.SIGKILL)
print("contained" if result == -1 and ctypes.get_errno() == 1 else "escaped")
""",
    "connecting to this machine and to the metadata service": """
import socket
blocked = 0
for family, address in ((socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_INET, ("169.254.169.254", 80)), (socket.AF_INET6, ("::1", PORT))):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(2)
            s.connect(address)
    except OSError:
        blocked += 1
with socket.socket(socket.AF_UNIX) as s:
    try:
        s.connect(UNIX)
    except OSError:
        blocked += 1
print("contained" if blocked == 4 else "escaped")
""",
    "a link in /tmp": """
import os
os.symlink(SECRET, "/tmp/link")
os.symlink("/", "/tmp/root")
try:
    open("/tmp/link").read()
    print("escaped")
except OSError:
    print("contained" if not os.path.exists("/tmp/root" + os.path.dirname(SECRET)) else "escaped")
""",
    "a fork bomb": """
import os, time
children = 0
try:
    while children < 10000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except OSError:
    pass
print("contained" if children < 16 else "escaped")
""",
    "new namespaces, mounts and a way up by chroot": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
results = [libc.unshare(0x10000000), libc.unshare(0x20000), libc.mount(b"none", b"/tmp", b"tmpfs", 0, None), libc.chroot(b"/tmp"),
           libc.setns(0, 0), libc.umount2(b"/tmp", 2), libc.setuid(0)]
print("contained" if results == [-1] * 7 and os.getuid() != 0 else f"escaped {results}")
""",
    "changing the limits and the place in the queue of who keeps hold of it": """
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
answers = []
for ask in (lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)), lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
            lambda: resource.prlimit(1, resource.RLIMIT_FSIZE), lambda: resource.prlimit(os.getppid(), resource.RLIMIT_AS, (0, 0)),
            lambda: os.sched_setaffinity(1, {0}), lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
            lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19)):
    try:
        ask()
        answers.append("escaped")
    except PermissionError:
        answers.append("contained")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its own it may lower
os.sched_setaffinity(0, os.sched_getaffinity(0))
print("contained" if answers == ["contained"] * 8 else answers)
""",
    "memory outside processes": """
import os, socket
answers = []
for ask in (lambda: os.memfd_create("x"), lambda: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)):
    try:
        ask()
        answers.append("escaped")
    except PermissionError:
        answers.append("contained")
print("contained" if answers == ["contained"] * 2 else answers)
""",
    "more disk than it may have": """
try:
    with open("/tmp/large", "wb") as file:
        for _ in range(1 << 10):
            file.write(bytes(1 << 20))
    print("escaped")
except OSError:
    print("contained")
""",
}
CONTAINED["more disk than it may have"] = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + CONTAINED["more disk than it may have"]

# Must be killed from outside: reward 0, whatever they print.
CUT_OFF = {
    "a loop that ignores SIGTERM": "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nprint('contained', flush=True)\nwhile True: pass\n",
    "taking back the wish to die with its parent": "import ctypes\nctypes.CDLL(None).prctl(1, 0)\nprint('contained', flush=True)\nwhile True: pass\n",
    "ending process 1, and all others": "import os, signal\nprint('contained', flush=True)\nfor s in range(1, 65):\n    for p in (1, -1):\n        try: os.kill(p, s)\n        except OSError: pass\nwhile True: pass\n",
    "ten gigabytes of output": "import sys\nprint('contained', flush=True)\nfor _ in range(10 << 10): sys.stdout.write('x' * (1 << 20))\n",
    "children that stay and work": "import os\nprint('contained', flush=True)\nfor _ in range(6):\n    if os.fork() == 0: break\nwhile True: os.getpid()\n",
    "sleeping for ever with its output closed": "import os, time\nprint('contained', flush=True)\nos.close(1)\ntime.sleep(1000)\n",
}

# Must not pass: the tests are a function's.
FORGED = {
    "leaving before the tests": "import os\nos._exit(0)\n",
    "an exit that looks like success": "raise SystemExit(0)\n",
    "printing what a success might look like": "print('0\\n1\\npassed\\ncontained')\n",
}

# Legitimate programs do this, too.
POOL = """
import multiprocessing
def square(x):
    return x * x
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(sum(pool.map(square, range(10))))
    queue = multiprocessing.Queue()
    queue.put(1)
    print(queue.get())
"""

# Ends well itself, and leaves a grandchild behind that has left its session and closed everything.
SURVIVOR = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        while True:
            time.sleep(0.01)
    os._exit(0)
print("contained")
"""


# Starts a program that may not make namespaces by unshare(2), while bubblewrap, which uses clone(2), still may: as on a
# machine that grants them to bubblewrap alone. The filter: load the architecture's number of the call, refuse unshare.
NO_UNSHARE = """
import ctypes, os, platform, struct, sys
number = {"x86_64": 272, "aarch64": 97}[platform.machine()]
code = b"".join(struct.pack("HBBI", *line) for line in
                ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
memory = ctypes.create_string_buffer(code)
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(memory)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filter, 0, 0) != 0:
    sys.exit("no filter")
os.execv(sys.argv[1], sys.argv[1:])
"""


class Namespaces(support.Test):
    WAY, PREFIX, PYTHON = "namespaces", (), sys.executable
    works = False  # seen once

    def setUp(self):
        super().setUp()
        self.require_way()
        self.own = support.Descendants()
        if not type(self).works:
            self.see_that_it_works()
            type(self).works = True

    def see_that_it_works(self):
        probe = self.judge([{"completion": "print('contained')", "answer": PRINTS}], check=False)
        if probe.returncode == 2:
            self.assertIn("needs a sandbox", probe.stderr)
            raise unittest.SkipTest(probe.stderr)
        environment = support.environment(PATH=f"{os.path.dirname(self.PYTHON)}:{os.environ['PATH']}")
        doctor = subprocess.run([*self.PREFIX, support.KEEL, "doctor"], env=environment, capture_output=True, text=True, check=True)
        self.assertIn(f"sandbox      works, by {self.WAY}", doctor.stdout)

    def require_way(self):
        pass

    def judge(self, rows, check=True, prefix=(), **options):
        """The rewards of the rows, or, with check=False, how the program ended; `prefix` is a program that starts it."""
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = {"functions": f'["code:seconds={options.pop("seconds", 5)}"]', "python": self.PYTHON, "workers": 4, **options}
        command = [*self.PREFIX, *prefix, support.KEEL, "reward", str(path), *(f"reward.{key}={value}" for key, value in options.items())]
        result = subprocess.run(command, env=support.environment(KEEL_SECRET="secret"), timeout=600, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        if not check:
            return result
        self.assert_exit(result, 0)
        self.assert_nothing_runs()
        return [json.loads(line)["reward"] for line in result.stdout.splitlines()]

    def assert_worth(self, reward, programs, answer, times=TIMES, **options):
        """Every program gets this reward every time; all are scored in one call, some in parallel."""
        rows = [{"completion": program, "answer": answer} for program in programs.values() for _ in range(times)]
        rewards = self.judge(rows, **options)
        for number, name in enumerate(programs):
            with self.subTest(name):
                self.assertEqual(rewards[number * times:(number + 1) * times], [reward] * times)

    def sandboxed(self):
        """Processes that run a program under test and come from this test."""
        return self.own.running(b"-I\0-B\0")

    def assert_nothing_runs(self):
        """Who was killed may take a moment to be gone; a survivor would stay."""
        for _ in range(1000):
            if not self.sandboxed():
                return
            support.time.sleep(0.01)
        self.fail(f"survivors: {self.sandboxed()}")

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
        self.assert_worth(1, {name: head + program for name, program in CONTAINED.items()}, PRINTS)
        self.assertEqual(connected, [])
        self.assertFalse((self.folder / "escaped").exists())

    def test_programs_that_must_be_killed(self):
        self.assert_worth(0, CUT_OFF, PRINTS, times=support.count(1, 20), seconds=0.7)  # most of them keep a processor busy

    def test_fake_results_are_not_accepted(self):
        self.assert_worth(0, FORGED, ["assert f(1) == 2", "assert f(2) == 3"])

    def test_a_detached_grandchild_is_killed(self):
        self.assert_worth(1, {"a survivor": SURVIVOR}, PRINTS)

    def test_programs_may_start_processes(self):
        row = {"completion": POOL, "answer": [{"input": "", "output": "285\n1"}]}
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
        names = ("a fork bomb", "a gigabyte of memory", "new namespaces, mounts and a way up by chroot",
                 "changing the limits and the place in the queue of who keeps hold of it")
        self.assert_worth(1, {name: CONTAINED[name] for name in names}, PRINTS, prefix=prefix, python=python)

    def setpriv(self, *arguments):
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            self.skipTest("needs root and setpriv")
        return [shutil.which("setpriv"), *arguments]

    def test_killed_keel_leaves_nothing_running(self):
        path = self.folder / "rows.jsonl"
        path.write_text(json.dumps({"completion": CUT_OFF["children that stay and work"], "answer": [{"input": "", "output": "x"}]}) + "\n")
        process = subprocess.Popen([*self.PREFIX, support.KEEL, "reward", str(path), 'reward.functions=["code:seconds=600"]',
                                    f"reward.python={self.PYTHON}"], stdout=subprocess.DEVNULL)
        self.assertTrue(support.wait_for(process, lambda: len(self.sandboxed()) > 4))
        process.kill()
        process.wait()
        self.assert_nothing_runs()


class Bubblewrap(Namespaces):
    works = False
    # Root gives its rights away before bubblewrap shows Python's folders, which must be open to others.
    WAY, PREFIX = f"bubblewrap ({shutil.which('bwrap')})", (sys.executable, "-c", NO_UNSHARE)
    PYTHON = "/usr/bin/python3"

    def require_way(self):
        if shutil.which("bwrap") is None:
            self.skipTest("bubblewrap is not installed")
        if not os.path.exists(self.PYTHON):
            self.skipTest(f"there is no {self.PYTHON}")


if __name__ == "__main__":
    support.main()
