"""A signal stops the program, whatever it waits for: every wait would take longer than support.HANG. A run saves its last complete step and
resumes to the same bits. A command without state leaves complete files and a message."""

import fcntl
import http.server
import json
import os
import pty
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import support

# The first calls return at once; the call with the slow marker never returns.
SLOW = '''
import pathlib, time
def reward(prompts, completions, **columns):
    if "slow" in prompts[0]:
        pathlib.Path("MARK").touch()
        time.sleep(1000)
    return [1.0] * len(completions)
'''

# Scores by the text alone. From the ninth call on (in the third step) it hangs as long as the file "hang" exists.
JUDGE = '''
import json, os, pathlib, sys, time
FOLDER = pathlib.Path(__file__).parent
def reward(completions, **columns):
    calls = sum(1 for name in os.listdir(FOLDER) if name.startswith("call-"))
    (FOLDER / f"call-{calls}-{os.getpid()}-{time.monotonic_ns()}").touch()
    if calls >= 8 and (FOLDER / "hang").exists():
        (FOLDER / "mark").touch()
        time.sleep(1000)
    return [float(len(completion) % 3) for completion in completions]
if __name__ == "__main__":  # the same as a program
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"id": request["id"], "rewards": reward(request["completions"])}), flush=True)
'''


class Judge(http.server.BaseHTTPRequestHandler):
    """The same function as a server."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self.server.reward(request["completions"])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def has_signal(process, masks, number):
    """Whether the signal is in one of these masks of /proc/PID/status."""
    try:
        with open(f"/proc/{process.pid}/status") as status:
            found = [int(line.split()[1], 16) for line in status if line.startswith(masks)]
    except OSError:
        return False
    return any(mask >> (number - 1) & 1 for mask in found)


def has_begun(process):
    """Whether the program runs and the loader has finished: the program catches signals."""
    return has_signal(process, "SigCgt:", signal.SIGTERM)


def waits_for_reader(process):
    """Whether the process waits in a write to a full pipe."""
    with open(f"/proc/{process.pid}/wchan") as function:
        return "pipe_write" in function.read()


def is_pending(process, number):
    return has_signal(process, ("SigPnd:", "ShdPnd:"), number)


class Interrupt(support.Test):
    def setUp(self):
        super().setUp()
        self.mark = self.folder / "mark"

    def start(self, *arguments):
        return self.ended_with_the_test(support.begin(arguments))

    def load(self, *arguments, **options):
        """The same without the preloaded server, as a user starts the program."""
        return self.ended_with_the_test(subprocess.Popen(
            [support.KEEL, *map(str, arguments)], env=support.environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **options))

    def ended_with_the_test(self, process):
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def stop(self, process, *numbers):
        """Sends the signals; the process must end."""
        for number in numbers:
            support.wait_for(process, lambda: not is_pending(process, number))  # otherwise two would be one
            process.send_signal(number)
        process.output, process.errors = process.communicate(timeout=support.HANG)
        return process

    def interrupted(self, number, *arguments):
        """Starts the program and sends the signal when the slow call has begun."""
        self.mark.unlink(missing_ok=True)
        process = self.start(*arguments)
        self.assertTrue(support.wait_for(process, self.mark.exists), "it ended by itself")
        return self.stop(process, number)


class Commands(Interrupt):
    def setUp(self):
        super().setUp()
        self.reward = self.folder / "slow.py"
        self.reward.write_text(SLOW.replace("MARK", str(self.mark)))

    def test_rewards_computed_before_the_signal_are_printed(self):
        rows = [{"prompt": f"p{i}" if i < 3 else "slow", "completion": "c", "answer": "1"} for i in range(6)]
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU):
            process = self.interrupted(number, "reward", path, f'reward.functions=["python:{self.reward}"]', "reward.workers=1",
                                       "reward.timeout=5000")
            self.assertEqual(process.returncode, 75, process.errors)
            self.assertIn("keel: stopped before it was done", process.errors)
            printed = [json.loads(line) for line in process.output.splitlines()]
            self.assertEqual([(row["prompt"], row["reward"]) for row in printed], [("p0", 1), ("p1", 1), ("p2", 1)])

    def test_an_evaluation_writes_nothing(self):
        start = support.train(self.folder / "start", train={"steps": 0}, sft={"steps": 5, "noisy_steps": 1}, eval={"prompts": 0},
                              model={"hidden_size": 16, "heads": 2})
        self.assert_exit(start, 0)
        data = self.folder / "data.jsonl"
        data.write_text("".join(json.dumps({"prompt": "<bos> 1 =", "answer": "1"}) + "\n" for _ in range(6)))
        self.reward.write_text(self.reward.read_text().replace('"slow" in prompts[0]', "True"))
        samples = self.folder / "samples.jsonl"
        process = self.interrupted(signal.SIGTERM, "eval", support.QUICKSTART, "--samples", samples, "--model",
                                   self.folder / "start" / "checkpoints" / support.checkpoints(self.folder / "start")[-1],
                                   f'data.eval_files=["{data}"]', f'reward.functions=["python:{self.reward}"]',
                                   "rollout.max_new_tokens=8", "reward.timeout=5000", "sft.steps=0", "run.threads=1")
        self.assertEqual(process.returncode, 75, process.errors)
        self.assertEqual(process.output, "")
        self.assertFalse(samples.exists())


class Runs(Interrupt):
    def setUp(self):
        super().setUp()
        (self.folder / "judge.py").write_text(JUDGE)
        self.run, self.whole = self.folder / "run", self.folder / "whole"
        self.hang = self.folder / "hang"

    def settings(self, run, function, **more):
        sections = {"run": {"dir": run}, "reward": {"functions": json.dumps([function]), "timeout": 5000, "workers": 1, "python": sys.executable},
                    "eval": {"prompts": 0}, "checkpoint": {"every": 100}, **more}
        return ["train", support.QUICKSTART, *support.settings(**sections)]

    def train(self, run, function, *flags, **more):
        result = support.keel(*self.settings(run, function, **more), *flags)
        self.assert_exit(result, 0)

    def forget_calls(self):
        for path in self.folder.glob("call-*"):
            path.unlink()
        self.mark.unlink(missing_ok=True)

    def stop_in_third_step(self, function, *numbers, **more):
        self.forget_calls()
        self.hang.touch()
        process = self.start(*self.settings(self.run, function, **more))
        self.assertTrue(support.wait_for(process, self.mark.exists), "it ended by itself")
        self.stop(process, *numbers)
        self.hang.unlink()
        self.assertEqual(process.returncode, 75, process.errors)
        self.assertIn("interrupted at step 10; saved", process.output)  # 8 of SFT, 2 of RL
        support.verify_checkpoint(self.run / "checkpoints" / "step-000010")
        return process

    def test_waiting_for_rewards_is_interrupted_and_the_step_done_again_to_the_same_bits(self):
        judge = self.folder / "judge.py"
        scope = {"__file__": str(judge), "__name__": "judge"}
        exec(JUDGE, scope)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Judge)
        server.reward, server.daemon_threads = scope["reward"], True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        functions = [f"python:{judge}", f"exec:{sys.executable} {judge}", f"http://127.0.0.1:{server.server_port}/"]
        self.forget_calls()
        self.train(self.whole, functions[0])
        for function in functions:
            with self.subTest(function):
                self.stop_in_third_step(function, signal.SIGTERM)
                self.train(self.run, function, "--resume")
                self.assert_same_run(self.run, self.whole)
                shutil.rmtree(self.run)

    def test_a_background_sampler_is_interrupted_too(self):
        """Its batch is sampled and scored again."""
        judge, behind = f"python:{self.folder / 'judge.py'}", {"rollout": {"staleness": 1}}
        self.forget_calls()
        self.train(self.whole, judge, **behind)
        self.stop_in_third_step(judge, signal.SIGTERM, **behind)
        self.train(self.run, judge, "--resume", **behind)
        self.assert_same_run(self.run, self.whole)

    def test_a_saved_step_is_not_saved_again(self):
        """The background save of the third step already has the final state."""
        saved = self.run / "checkpoints" / "step-000010" / "manifest.json"
        written = []

        def note():
            if self.mark.exists() and saved.exists():
                written.append(saved.stat().st_ino)
            return bool(written)

        self.forget_calls()
        self.hang.touch()
        process = self.start(*self.settings(self.run, f"python:{self.folder / 'judge.py'}", checkpoint={"every": 1}))
        self.assertTrue(support.wait_for(process, note), "it ended by itself")
        self.stop(process, signal.SIGTERM)
        self.assertEqual(process.returncode, 75, process.errors)
        self.assertIn(f"interrupted at step 10; saved {saved.parent}\n", process.output)
        self.assertEqual(saved.stat().st_ino, written[0])

    def test_every_signal_stops_the_run_and_repeated_kernel_signals_count_once(self):
        for numbers in ((signal.SIGINT,), (signal.SIGHUP,), (signal.SIGUSR1,), (signal.SIGXCPU, signal.SIGXCPU, signal.SIGXCPU)):
            with self.subTest(numbers):
                self.stop_in_third_step(f"python:{self.folder / 'judge.py'}", *numbers)
                shutil.rmtree(self.run)

    def test_missing_and_silent_reward_servers(self):
        """Also covers the pauses between retries: a missing server accepts the first connections and closes them."""
        for is_missing in (True, False):
            server = socket.create_server(("127.0.0.1", 0))
            self.addCleanup(server.close)
            server.settimeout(support.HANG)
            process = self.start(*self.settings(self.run, f"http://127.0.0.1:{server.getsockname()[1]}/"))
            connection = server.accept()[0]  # RL has begun, and the program calls the server
            self.addCleanup(connection.close)
            if is_missing:
                server.close()
                connection.close()
            self.stop(process, signal.SIGTERM)
            self.assertEqual(process.returncode, 75, process.errors)
            self.assertEqual(support.checkpoints(self.run)[-1], "step-000008")
            shutil.rmtree(self.run)

    def test_tests_of_programs_that_take_long(self):
        data = self.folder / "data.jsonl"
        data.write_text(json.dumps({"prompt": "<bos> 1 =", "answer": ["import time\ntime.sleep(1000)"]}) + "\n")
        self.assert_exit(support.train(self.folder / "start", train={"steps": 0}, eval={"prompts": 0}), 0)
        config = {"model": {"path": str(self.folder / "start" / "checkpoints" / support.checkpoints(self.folder / "start")[-1])},
                  "data": {"files": [str(data)]}, "reward": {"functions": ["code:seconds=3600"], "python": sys.executable},
                  "rollout": {"samples_per_prompt": 2, "max_new_tokens": 8}, "objective": {"method": "dppo_tv"}, "eval": {"prompts": 0},
                  "train": {"steps": 100, "prompts_per_step": 3}, "run": {"dir": str(self.run), "threads": 1}}
        (self.folder / "config.json").write_text(json.dumps(config))
        process = self.start("train", self.folder / "config.json")
        own = support.Descendants(process.pid)
        self.assertTrue(support.wait_for(process, lambda: self.run.exists() and own.running(b"-I\0-B\0")), "it ended by itself")
        self.stop(process, signal.SIGTERM)
        self.assertEqual(process.returncode, 75, process.errors)
        # The last complete step: texts that are not programs are scored at once, so several steps may be complete.
        self.assertIn(support.checkpoints(self.run), [[f"step-{step:06}"] for step in range(100)])

    def test_a_second_signal_exits_at_once(self):
        """The exit code is 75 if there is a checkpoint, which must stay valid."""
        self.forget_calls()
        self.hang.touch()
        process = self.start(*self.settings(self.run, f"python:{self.folder / 'judge.py'}", checkpoint={"every": 1}))
        self.assertTrue(support.wait_for(process, self.mark.exists))
        self.stop(process, signal.SIGTERM, signal.SIGINT)
        self.assertEqual(process.returncode, 75, process.errors)
        support.verify_checkpoint(self.run / "checkpoints" / support.checkpoints(self.run)[-1])

    def test_in_the_first_evaluation(self):
        self.hang.touch()
        for i in range(8):
            (self.folder / f"call-{i}").touch()
        process = self.start(*self.settings(self.run, f"python:{self.folder / 'judge.py'}", eval={"prompts": 10}))
        self.assertTrue(support.wait_for(process, self.mark.exists), "it ended by itself")
        self.stop(process, signal.SIGTERM)
        self.assertEqual(process.returncode, 75, process.errors)
        self.assertEqual(support.checkpoints(self.run)[-1], "step-000008")
        self.hang.unlink()
        self.train(self.run, f"python:{self.folder / 'judge.py'}", "--resume", eval={"prompts": 10})

    def test_in_the_first_moments(self):
        """Either nothing was written and the signal ends the program, or there is a run that can be resumed, or the run ended before the
        signal."""
        self.train(self.whole, "task")
        endings = set()
        for i in range(0, 24, support.count(5, 1)):
            shutil.rmtree(self.run, ignore_errors=True)
            process = self.load(*self.settings(self.run, "task"))
            if i % 2 == 0:  # as soon as the run folder exists
                support.wait_for(process, self.run.exists, pause=0)
            else:
                support.wait_for(process, lambda: has_begun(process))
                time.sleep(0.03 * max(0, i - 5))  # at any moment; the first time, it still loads
            self.stop(process, signal.SIGTERM)
            endings.add(process.returncode)
            if process.returncode == 75:
                self.train(self.run, "task", "--resume")
            if process.returncode in (0, 75):
                self.assert_same_run(self.run, self.whole)
            else:
                self.assertEqual(process.returncode, -signal.SIGTERM, process.errors)
                self.assertIn("keel: stopped before it began; nothing was written", process.errors)
                self.assertFalse(self.run.exists())
        self.assertLessEqual({75, -signal.SIGTERM}, endings)

    def test_while_the_system_still_loads_the_program(self):
        process = self.load(*self.settings(self.run, "task"), preexec_fn=lambda: os.nice(19))  # keeps this test from sending the signal too late
        self.assertTrue(support.wait_for(process, lambda: has_begun(process), pause=0))
        self.stop(process, signal.SIGTERM, signal.SIGALRM)  # the alarm, as if loading took longer than the program waits
        self.assertIn(process.returncode, (75, -signal.SIGTERM), process.errors)  # the program may have reached the end by itself
        self.assertIn("keel: stopped before it began; nothing was written", process.errors)
        self.assertFalse(self.run.exists())

    def test_while_a_reward_function_gets_ready(self):
        (self.folder / "late.py").write_text(f"import pathlib, time\npathlib.Path({str(self.mark)!r}).touch()\ntime.sleep(1000)\n")
        process = self.start(*self.settings(self.run, f"python:{self.folder / 'late.py'}"))
        self.assertTrue(support.wait_for(process, self.mark.exists), "it ended by itself")
        self.stop(process, signal.SIGHUP)
        self.assertEqual(process.returncode, -signal.SIGHUP, process.errors)
        self.assertIn("nothing was written", process.errors)
        self.assertFalse(self.run.exists())

    def test_while_a_resumed_run_gets_ready(self):
        """The run can still be resumed, and this is printed, unless the program was still loading."""
        self.train(self.run, "task", checkpoint={"every": 2})
        endings = []
        while len(endings) < 4 or 75 not in endings:  # each later than the one before
            process = self.load(*self.settings(self.run, "task", checkpoint={"every": 2}, train={"steps": 500}), "--resume")
            support.wait_for(process, lambda: has_begun(process))
            time.sleep(0.2 * len(endings))
            self.stop(process, signal.SIGTERM)
            endings.append(process.returncode)
            self.assertIn(process.returncode, (75, -signal.SIGTERM))
        self.train(self.run, "task", "--resume", checkpoint={"every": 2}, train={"steps": 6})

    def test_closed_outputs_do_not_block_the_stop(self):
        """The outputs are full pipes, as with a suspended terminal or a blocked reader. A second signal ends the program at once."""
        both = (signal.SIGTERM, signal.SIGINT)
        cases = [(("stdout", "stderr"), both), (("stdout", "stderr"), both[:1]), (("stderr",), both[:1]), (("stdout",), both[:1])]
        for stuck, signals in cases[:support.count(2, 4)]:
            with self.subTest(stuck=stuck, signals=signals):
                self.forget_calls()
                shutil.rmtree(self.run, ignore_errors=True)
                reader, writer = os.pipe()
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
                outputs = {name: writer if name in stuck else subprocess.DEVNULL for name in ("stdout", "stderr")}
                process = subprocess.Popen([support.KEEL, *map(str, self.settings(self.run, "task", train={"steps": 100000}))],
                                           env=support.environment(), stdin=subprocess.DEVNULL, **outputs)
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
                for end in (reader, writer):
                    self.addCleanup(os.close, end)
                self.assertTrue(support.wait_for(process, (self.run / "config.yaml").exists), "it ended by itself")
                with open(f"/proc/self/fd/{writer}", "wb", 0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as pipe:
                    while pipe.write(b"x"):
                        pass
                self.assertTrue(support.wait_for(process, lambda: "stdout" not in stuck or waits_for_reader(process)), "it ended by itself")
                saved = support.checkpoints(self.run)
                for number in signals:
                    process.send_signal(number)
                process.wait(support.HANG)
                if len(signals) == 2:
                    self.assertEqual(support.checkpoints(self.run), saved)
                else:
                    self.assertEqual(process.returncode, 75)
                    support.verify_checkpoint(self.run / "checkpoints" / support.checkpoints(self.run)[-1])

    def test_blocked_and_ignored_signals_of_the_parent(self):
        """A signal mask with SIGTERM is removed, reward programs are awaited, and alarms of other code are ignored."""
        def prepare():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGALRM])
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)

        self.forget_calls()
        self.hang.touch()
        process = self.load(*self.settings(self.run, f"python:{self.folder / 'judge.py'}"), preexec_fn=prepare)
        self.assertTrue(support.wait_for(process, self.mark.exists), "it ended by itself")
        process.send_signal(signal.SIGALRM)
        self.assertTrue(support.wait_for(process, lambda: not is_pending(process, signal.SIGALRM)))
        self.stop(process, signal.SIGTERM)
        self.assertEqual(process.returncode, 75, process.errors)
        (self.folder / "rows.jsonl").write_text(json.dumps({"prompt": "p", "completion": "c", "answer": "1"}) + "\n")
        process = self.load("reward", self.folder / "rows.jsonl", f'reward.functions=["exec:{sys.executable} -c exit(3)"]',
                             preexec_fn=prepare)
        errors = process.communicate(timeout=support.HANG)[1]
        self.assertEqual(process.returncode, 5, errors)
        self.assertIn("3", errors)

    def test_a_terminal_that_is_closed(self):
        self.forget_calls()
        self.hang.touch()
        child, terminal = pty.fork()
        if child == 0:
            os.execve(support.KEEL, [support.KEEL, *map(str, self.settings(self.run, f"python:{self.folder / 'judge.py'}"))],
                      support.environment(TERM="xterm"))
        deadline = time.monotonic() + support.HANG
        while not self.mark.exists() and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.01)[0]:  # a thread that waits in read() would keep the terminal open
                os.read(terminal, 65536)
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 75)
        self.assertEqual(support.checkpoints(self.run)[-1], "step-000010")

    def test_nohup_is_respected(self):
        process = self.load(*self.settings(self.run, "task"), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertTrue(support.wait_for(process, self.run.exists))
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=support.HANG)
        self.assertEqual(process.returncode, 0)

    def test_a_cpu_time_limit_stops_the_run(self):
        """The kernel sends SIGXCPU every second until the hard limit kills the process."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (3, 30))
        process = self.load(*self.settings(self.run, "task", train={"steps": 100000}), preexec_fn=limit)
        process.communicate(timeout=support.HANG)
        self.assertEqual(process.returncode, 75)
        support.verify_checkpoint(self.run / "checkpoints" / support.checkpoints(self.run)[-1])


if __name__ == "__main__":
    support.main()
