"""Helpers of the `keel watch` tests: a running server, fake run folders, and raw HTTP."""

import json
import pathlib
import re
import signal
import socket
import sys
import time

from support import HANG, keel, start


def write_run(folder, steps=3, run="one", done=False, samples=()):
    """Writes a folder like a run's: rows, samples, used.json and a newest checkpoint."""
    folder = pathlib.Path(folder)
    checkpoint = folder / "checkpoints" / f"step-{steps:06}"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("run:\n  seed: 1\n")
    (folder / "used.json").write_text(json.dumps({"objective.method": "dppo_tv", "run.id": run}))
    rows = [{"phase": "rl", "step": step, "reward/mean": step / 10} for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "samples.jsonl").write_text("".join(json.dumps({"phase": "rl", "step": 1, **sample}) + "\n" for sample in samples))
    (checkpoint / "state.json").write_text(json.dumps({"state": {"phase": "done" if done else "rl"}}))
    (checkpoint.parent / "LATEST").write_text(checkpoint.name + "\n")
    return folder


def require_server():
    """Skips the test if this build cannot serve pages, after checking that the error has a fix."""
    said = keel("watch", "nowhere").stderr
    if "cannot serve pages" in said:
        assert "-DKEEL_WATCH=ON" in said and "keel report RUN" in said, said
        print(said)
        sys.exit(77)


class Server:
    """`keel watch` of some folders; `address` is the printed one."""

    def __init__(self, output, *arguments):
        self.process = start(output, "watch", *arguments)
        self.address = None
        while self.address is None:
            found = re.search(r"http://(\[[^]]+\]|[^:/\s]+):(\d+)(/\S*)", self.said())
            if found:
                self.address, self.host, self.port, self.path = found[0], found[1], int(found[2]), found[3]
            elif self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode}: {self.said()}")
            else:
                time.sleep(0.01)

    def said(self):
        return self.process.output.read_text()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(HANG)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANG)

    def send(self, request):
        """Sends bytes and reads the whole response: (status, headers with lower-case names, body); status 0 if the server only closed."""
        with self.connect() as client:
            try:
                client.sendall(request)
                answer = b"".join(iter(lambda: client.recv(65536), b""))
            except ConnectionError:
                return 0, [], b""
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1]) if lines[0] else 0
        return status, [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines[1:])], body

    def ask(self, target="/", method="GET", host=None, headers=()):
        host = f"127.0.0.1:{self.port}" if host is None else host
        lines = [f"{method} {target} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers]
        return self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def state(self, query=""):
        """The state that the page's script gets."""
        status, _, body = self.ask(f"{self.path}state{query}")
        assert status == 200, (status, body)
        return json.loads(body)

    def wait_for(self, condition, seconds=HANG):
        """Returns the state once the condition is true for it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            state = self.state()
            if condition(state):
                return state
            time.sleep(0.05)
        raise AssertionError(f"it never held; at last: {state}; it said: {self.said()}")
