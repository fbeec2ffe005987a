"""keel watch: live pages of runs over HTTP: access control, read-only, bounded memory, changing runs."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import time
import unittest

import support
from support import keel, start_train, wait_for
from watched import Server, require_server, write_run

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "browser"))
try:
    import made_runs
except ImportError:  # without pyarrow the test cannot write records
    made_runs = None

RISING = "0,24 60,12 120,0"
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW")
ALWAYS = {"x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "no-referrer",
          "cache-control": "no-store", "cross-origin-resource-policy": "same-origin"}


def only(state):
    (run,) = state["runs"]
    return run


class Requests(support.Test):
    """Requests to a server for two runs in a folder, which all these tests share."""

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        write_run(cls.place / "runs" / "one", done=True)
        write_run(cls.place / "runs" / "two words & <b>", steps=5)
        (cls.place / "secret.txt").write_text("SECRET")
        cls.server = Server(cls.place / "output", cls.place / "runs", "--port", "0")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.end() == 0  # a requested stop is a success

    def assert_guarded(self, headers):
        """The headers that every response has, once each."""
        names = [name for name, _ in headers]
        self.assertEqual(len(names), len(set(names)), names)
        self.assertEqual({**dict(headers), **ALWAYS}, dict(headers))
        policy = dict(headers)["content-security-policy"]
        self.assertRegex(policy, r"^default-src 'none'; .*; frame-ancestors 'none'$")
        self.assertNotRegex(policy, "unsafe|http|\\*")

    def test_the_page_of_a_folder_lists_its_runs(self):
        status, headers, body = self.server.ask()
        self.assertEqual(status, 200)
        self.assert_guarded(headers)
        self.assertEqual(dict(headers)["content-type"], "text/html; charset=utf-8")
        self.assertEqual(int(dict(headers)["content-length"]), len(body))
        text = body.decode()
        self.assertIn('<a href="?run=one">one</a>', text)
        self.assertIn('<a href="?run=two%20words%20%26%20%3Cb%3E">two words &amp; &lt;b&gt;</a>', text)
        self.assertNotIn("<b>\"", text)
        # Method, last reward and the rewards 0.1, 0.2, 0.3 as a curve of 120 by 24 pixels.
        self.assertIn(f'<td>dppo_tv</td><td class="reward">0.3</td><td><svg class="curve" width="120" height="24"', text)
        self.assertIn(f'<polyline points="{RISING}"/>', text)

    def test_chosen_runs_are_shown_as_their_report(self):
        status, headers, body = self.server.ask("/?run=one")
        self.assertEqual(status, 200)
        self.assert_guarded(headers)
        self.assertIn(b"<h1>one</h1>", body)
        self.assertIn("connect-src 'self'", dict(headers)["content-security-policy"])
        both = self.server.ask("/?run=one&run=two+words+%26+%3Cb%3E")[2]
        self.assertIn(b"2 runs side by side", both)
        self.assertIn(b"<h1>one</h1>", self.server.ask("/?run=one&run=one")[2])
        self.assertEqual(self.server.ask("/?" + "&".join(f"run={i}" for i in range(13)))[0], 400)

    def test_head_has_the_headers_and_no_body(self):
        _, wanted, body = self.server.ask("/?run=one")
        status, headers, nothing = self.server.ask("/?run=one", method="HEAD")
        self.assertEqual((status, nothing), (200, b""))
        self.assertEqual(dict(headers), dict(wanted))
        self.assertGreater(len(body), 5000)

    def test_the_state_has_the_progress_of_each_run(self):
        status, headers, body = self.server.ask("/state")
        self.assertEqual((status, dict(headers)["content-type"]), (200, "application/json"))
        self.assert_guarded(headers)
        one, two = json.loads(body)["runs"]
        self.assertEqual((one["name"], one["state"], one["phase"], one["step"]), ("one", "ended", "rl", 3))
        self.assertEqual((one["reward"], one["curve"]), ("0.3", RISING))
        self.assertEqual((two["state"], two["step"]), ("interrupted", 5))
        self.assertIn("--resume", two["text"])

    def test_another_host_is_refused_for_every_method_and_path(self):
        port = self.server.port
        hosts = ["evil.example", f"evil.example:{port}", "127.0.0.1", "localhost", f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}.evil.example",
                 f"127.0.0.1:{port} ,evil.example", f"x@127.0.0.1:{port}", f"0.0.0.0:{port}", f"[::1]:{port}", ""]
        for method in METHODS:
            for host in hosts if method in ("GET", "POST") else hosts[:2]:
                for target in ("/", "/state", "/none", f"http://127.0.0.1:{port}/"):
                    status, headers, body = self.server.ask(target, method, host)
                    self.assertIn(status, (403,) if method != "BREW" else (405,), (method, host, target))
                    self.assert_guarded(headers)
                    self.assertNotIn(b"run=", body)
        twice = self.server.ask("/", headers=["Host: evil.example"])
        self.assertEqual(twice[0], 403)
        self.assertEqual(self.server.ask("/", host=f"LOCALHOST:{port}")[0], 200)

    def test_only_get_and_head_are_allowed(self):
        for method in METHODS[2:]:
            status, headers, _ = self.server.ask("/", method)
            self.assertEqual((status, dict(headers)["allow"]), (405, "GET, HEAD"), method)
            self.assert_guarded(headers)
        body = "POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 30000\r\nExpect: 100-continue\r\n\r\n" % self.server.port
        self.assertEqual(self.server.send(body.encode() + b"x" * 30000)[0], 405)

    def test_unknown_paths_are_404(self):
        targets = ["/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "//etc/passwd", "/state/", "/state/../state", "/runs/one/config.yaml",
                   "/?run=..", "/?run=../secret.txt", "/?run=one%00", "/?run=one/", "/?run=", f"/?run={self.place}/runs/one",
                   "/state?run=none", "/index.html", "/favicon.ico", f"http://127.0.0.1:{self.server.port}/", "*"]
        for target in targets:
            status, headers, body = self.server.ask(target)
            self.assertEqual((status, b"SECRET" in body, b"seed" in body), (404, False, False), target)
            self.assert_guarded(headers)

    def test_invalid_requests_are_refused(self):
        host = f"Host: 127.0.0.1:{self.server.port}\r\n".encode()
        requests = {b"GET / HTTP/1.1\r\n" + host + b"X: " + b"y" * 20000 + b"\r\n\r\n": (400,),
                    b"GET / HTTP/1.1\r\n" + host + b"X: y\r\n" * 10000 + b"\r\n": (400,),
                    b"GET /" + b"y" * 20000 + b" HTTP/1.1\r\n" + host + b"\r\n": (400, 414, 0),
                    b"GET / HTTP/9.9\r\n" + host + b"\r\n": (400,),
                    b"GET\r\n\r\n": (400,),
                    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n": (400,),
                    b"GET / HTTP/1.1\r\n" + host + b"\0: x\r\n\r\n": (200, 400),
                    b"": (0,)}
        for request, wanted in requests.items():
            if not request:
                self.server.connect().close()
                continue
            status, headers, _ = self.server.send(request)
            self.assertIn(status, wanted, request[:80])
            if status:
                self.assert_guarded(headers)
        # Ranges, compression and keep-alive are not supported; such requests get the full page.
        status, headers, body = self.server.ask("/state", headers=["Range: bytes=0-1,3-4", "Accept-Encoding: br, gzip", "Connection: keep-alive"])
        self.assertEqual((status, json.loads(body)["runs"][0]["name"]), (200, "one"))
        self.assertEqual(dict(headers)["connection"], "close")
        self.assertNotIn("content-encoding", dict(headers))

    def test_slow_clients_are_disconnected_and_do_not_block_others(self):
        slow = [self.server.connect() for _ in range(20)]  # more clients than the server handles at once
        for client in slow:
            client.sendall(b"GET / HT")
        dripping = 0
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            quick = pool.submit(self.server.ask, "/state")
            while not quick.done():
                for client in slow:
                    try:
                        client.sendall(b"T")
                        dripping += 1
                    except OSError:
                        pass
                time.sleep(0.3)
        self.assertEqual(quick.result()[0], 200)
        self.assertGreater(dripping, 20)
        for client in slow:
            try:
                while client.recv(65536):
                    pass
            except ConnectionError:
                pass
            client.close()

    def test_a_hundred_at_a_time_are_all_answered(self):
        targets = ["/state", "/?run=one", "/", "/?run=one&run=two%20words%20%26%20%3Cb%3E"]
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            answers = list(pool.map(lambda i: self.server.ask(targets[i % 4])[0], range(100)))
        self.assertEqual(answers, 100 * [200])
        threads = len(os.listdir(f"/proc/{self.server.process.pid}/task"))
        self.assertLess(threads, 24)

    def test_pages_are_rendered_once_for_all_clients(self):
        versions = {re.search(rb'data-version="(\w+)"', self.server.ask("/?run=one")[2])[1] for _ in range(5)}
        self.assertEqual({version.decode() for version in versions}, {self.server.state("?run=one")["version"]})


class Places(support.Test):
    def setUp(self):
        super().setUp()
        self.run_folder = write_run(self.folder / "run")

    def serve(self, *arguments):
        server = Server(self.folder / f"output-{len(list(self.folder.iterdir()))}", *arguments)
        self.addCleanup(server.end)
        return server

    def test_the_url_of_another_address_has_a_token(self):
        server = self.serve(self.run_folder, "--host", "127.0.0.1", "--port", "0")
        token = server.path.strip("/")
        self.assertRegex(token, "^[0-9a-f]{32}$")
        wrong = ("0" if token[0] != "0" else "1") + token[1:]
        for path in ("/", "/state", f"/{wrong}/", f"/{wrong}/state", f"/{token[:-1]}/", f"/{token}", f"/{token}x/", "//", f"/?token={token}"):
            status, headers, body = server.ask(path)
            self.assertEqual(status, 403, path)
            self.assertNotIn(token.encode(), body + str(headers).encode())
        self.assertEqual(server.ask(f"/{token}/")[0], 200)
        self.assertEqual(server.ask(f"/{token}/state")[0], 200)
        self.assertEqual(server.ask(f"/{token}/", host="evil.example")[0], 403)
        self.assertEqual(server.ask(f"/{token}/../")[0], 404)

    def test_all_addresses_are_served_by_their_names(self):
        server = self.serve(self.run_folder, "--host", "0.0.0.0", "--port", "0")
        self.assertEqual(server.ask(server.path)[0], 200)
        self.assertEqual(server.ask(server.path, host=f"{socket.gethostname()}:{server.port}")[0], 200)
        self.assertEqual(server.ask(server.path, host=f"evil.example:{server.port}")[0], 403)
        self.assertIn(socket.gethostname().lower(), server.address)

    def test_a_used_port_is_reported_and_the_default_tries_the_next(self):
        first, second = self.serve(self.run_folder), self.serve(self.run_folder)
        self.assertEqual((first.path, second.path), ("/", "/"))
        self.assertGreater(second.port, first.port)
        refused = keel("watch", self.run_folder, "--port", first.port)
        self.assert_refused(refused, 2, f"--port: {first.port} is in use on 127.0.0.1", "--port 0")

    def test_without_free_ports_a_fix_is_printed(self):
        host = "127.0.0.2"  # also this machine, and no other test uses it
        with contextlib.ExitStack() as taken:
            for port in range(8335, 8355):
                holder = taken.enter_context(socket.socket())
                with contextlib.suppress(OSError):  # another process uses it
                    holder.bind((host, port))
                    holder.listen()
            self.assert_refused(keel("watch", self.run_folder, "--host", host), 2,
                                f"the ports 8335 to 8354 are all in use on {host}; `keel watch RUN --port 0` takes any that is free")
            self.assertTrue(self.serve(self.run_folder, "--host", host, "--port", "0").address)
        self.assertIn(self.serve(self.run_folder, "--host", host).port, range(8335, 8355))
        self.assert_refused(keel("watch", self.run_folder, "--host", "192.0.2.1"), 2, "is not an address of this machine")
        self.assert_refused(keel("watch", self.folder / "none"), 3, "is not a folder")


class Lives(support.Test):
    """Runs that change while they are watched."""

    def serve(self, *arguments):
        server = Server(self.folder / "output", *arguments, "--port", "0")
        self.addCleanup(server.end)
        return server

    def test_a_removed_and_recreated_run_is_shown_again(self):
        run = write_run(self.folder / "run", steps=3)
        server = self.serve(run)
        self.assertEqual(only(server.state())["state"], "interrupted")
        shutil.rmtree(run)
        self.assertIn("no such folder", only(server.wait_for(lambda state: only(state)["state"] == "gone"))["text"])
        self.assertEqual(server.ask("/")[0], 200)
        write_run(run, steps=7, run="two", done=True)
        state = only(server.wait_for(lambda state: only(state)["state"] == "ended"))
        self.assertEqual(state["step"], 7)
        self.assertIn("is another run now", state["text"])
        self.wait_for_page(server, "0.7")  # a page is rendered at most once per second
        for sentence in ("run: was removed", "run: is another run now"):
            self.assertIn(sentence, server.said())

    def test_rl_steps_count_from_one_and_rewards_follow_the_file(self):
        run = write_run(self.folder / "run", steps=3)
        sft = [{"phase": "sft", "step": step, "sft/loss": 1.0} for step in range(1, 501)]
        rl = [{"phase": "rl", "step": 500 + step, "reward/mean": step / 10} for step in range(1, 6)]

        def write(count, **last):
            rows = [*sft, *rl[:count - 1], {**rl[count - 1], **last}]
            (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

        write(3)
        server = self.serve(run)
        state = only(server.state())
        self.assertEqual((state["step"], state["reward"], state["curve"]), (3, "0.3", RISING))
        self.assertIn("RL step 3", state["text"])
        page = server.ask("/")[2].decode()
        self.assertIn("Steps count RL only", page)
        self.assertNotRegex(page, r">50[1-5]<|at step 50[0-9]")
        write(5)
        state = only(server.wait_for(lambda state: only(state)["step"] == 5))
        self.assertEqual((state["reward"], state["curve"].count(",")), ("0.5", 5))
        write(2, **{"reward/mean": 0.9})  # as --resume does, with another reward
        state = only(server.wait_for(lambda state: only(state)["step"] == 2))
        self.assertEqual((state["reward"], state["curve"]), ("0.9", "0,24 120,0"))

    def test_partial_and_broken_rows_do_not_stop_it(self):
        run = write_run(self.folder / "run", steps=3, done=True)
        server = self.serve(run)
        metrics = run / "metrics.jsonl"
        whole = metrics.read_text()
        server.ask("/")
        before = server.state()["version"]
        metrics.write_text(whole + '{"phase": "rl", "st')
        server.wait_for(lambda state: state["version"] != before)
        self.assertEqual(only(server.state())["step"], 3)
        self.assertNotIn(b"cannot be shown now", server.ask("/")[2])
        metrics.write_text("<script>alert(1)</script>\n" + whole)
        self.wait_for_page(server, "cannot be shown now: ")
        page = server.ask("/")[2].decode()
        self.assertIn("&lt;script&gt;alert(1)", page)
        self.assertNotIn("<script>alert(1)", page)

    def wait_for_page(self, server, text):
        until = time.monotonic() + support.HANG
        while text.encode() not in server.ask("/")[2]:
            self.assertLess(time.monotonic(), until, "the page never said: " + text)
            time.sleep(0.2)

    @unittest.skipUnless(made_runs, "pyarrow is not there; scripts/bootstrap.sh --tests installs it")
    def test_token_records_are_shown_live(self):
        run = write_run(self.folder / "run", steps=9)

        def record(step, *words):
            tokens = [made_runs.token(word, 0.5, 0.9, 1) for word in words]
            made_runs.write_records(run, step, made_runs.completion(step, 0, 1, step, 1.0, tokens))

        def shown():
            """The words of the recorded completions, and whether a file could not be read."""
            page = server.ask("/")[2].decode()
            data = re.search('<script type="application/json" id="records-0-data">(.*?)</script>', page)
            return (sorted(json.loads(data[1])["texts"]) if data else [], "Not read: " in page)

        def wait_until_shown(*wanted):
            until = time.monotonic() + support.HANG
            while shown() != wanted:
                self.assertLess(time.monotonic(), until, f"the page has {shown()}")
                time.sleep(0.2)

        server = self.serve(run)
        self.assertEqual(shown(), ([], False))
        record(3, "one", "two")
        wait_until_shown(["one", "two"], False)
        record(5, "three")
        record(7, "four")
        (run / "tokens" / "step-00000007.parquet").rename(run / "tokens" / "step-00000007.parquet.partial")  # the file is still being written
        wait_until_shown(["one", "three", "two"], False)
        (run / "tokens" / "step-00000007.parquet.partial").unlink()
        (run / "tokens" / "step-00000005.parquet").unlink()  # as --resume does
        record(3, "zero")
        wait_until_shown(["zero"], False)
        (run / "tokens" / "step-00000004.parquet").write_bytes(b"no Parquet")
        wait_until_shown(["zero"], True)

    def test_a_run_without_a_checkpoint_is_to_be_started_again(self):
        run = write_run(self.folder / "run")
        shutil.rmtree(run / "checkpoints")
        text = only(self.serve(run).state())["text"]
        self.assertIn(f"without a checkpoint; to start again: keel train {run}/config.yaml", text)
        self.assertNotIn("--resume", text)

    def test_new_runs_in_a_folder_are_added(self):
        (self.folder / "runs").mkdir()
        server = self.serve(self.folder / "runs")
        self.assertIn(b"The folder has no runs yet", server.ask("/")[2])
        before = server.state()["version"]
        write_run(self.folder / "runs" / "new")
        self.assertNotEqual(server.wait_for(lambda state: state["runs"])["version"], before)
        self.assertIn(b'href="?run=new"', server.ask("/")[2])
        shutil.rmtree(self.folder / "runs" / "new")  # a page that shows the run waits for it to return
        server.wait_for(lambda state: only(state)["state"] == "gone")
        self.assertEqual(server.ask("/?run=new")[0], 200)
        write_run(self.folder / "runs" / "new", done=True)
        server.wait_for(lambda state: only(state)["state"] == "ended")

    def test_watching_does_not_change_training(self):
        plain, run, reward = self.folder / "plain", self.folder / "watched", self.folder / "reward.py"
        # The reward program is killed with its descendants, but the server is not. After the first record the program waits until
        # a page with that record was requested, even on a busy machine.
        hold = self.folder / "hold"
        reward.write_text("import pathlib, time\n"
                          f"HOLD, TOKENS = pathlib.Path({str(hold)!r}), pathlib.Path({str(run / 'tokens')!r})\n"
                          "def reward(completions, **_):\n"
                          "    while HOLD.exists() and any(TOKENS.glob('*.parquet')):\n        time.sleep(0.02)\n"
                          "    return [float(len(text) % 7) for text in completions]\n")
        rewards = {"functions": json.dumps([f"python:{reward}"])}
        record = {"tokens": "every_step" if made_runs else "none"}
        self.assert_exit(support.train(plain, reward=rewards, record=record), 0)
        hold.touch()
        process = start_train(run, "--watch", "-q", reward=rewards, record=record)
        self.assertTrue(wait_for(process, lambda: "live report: " in process.output.read_text()))
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/\n", process.output.read_text())[1])
        seen, records = set(), set()

        def answer_to(target):
            with socket.create_connection(("127.0.0.1", port), timeout=support.HANG) as client:
                client.sendall(b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (target, port))
                return b"".join(iter(lambda: client.recv(65536), b"")).partition(b"\r\n\r\n")[2]

        def asked():
            try:
                seen.add(only(json.loads(answer_to(b"state")))["state"])
                if hold.exists() and made_runs:
                    records.update(re.findall(rb'id="records-0-data"', answer_to(b"")))
                if records:
                    hold.unlink(missing_ok=True)
            except ConnectionError:  # it has ended
                pass

        while wait_for(process, lambda: asked() or True):
            time.sleep(0.1)
        self.assertEqual(process.wait(), 0)
        self.assertIn("ended", seen)  # an open page is notified before the server ends
        self.assertEqual(bool(records), bool(made_runs))  # its token records are shown live
        self.assertLessEqual(seen, {"gone", "waiting", "live", "ended", "interrupted"})
        self.assertIsNone(support.difference(run, plain))
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()

    def test_the_server_of_killed_training_ends(self):
        run = self.folder / "killed"
        process = start_train(run, "--watch", train={"steps": 100000})
        self.assertTrue(wait_for(process, lambda: "live report: " in process.output.read_text()))
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/\n", process.output.read_text())[1])
        server = self.serve(run)
        self.assertIn(only(server.state())["state"], ("waiting", "live"))
        server.wait_for(lambda state: only(state)["state"] == "live")
        process.kill()
        process.wait()
        server.wait_for(lambda state: only(state)["state"] == "interrupted")
        self.assertIn("killed: interrupted", server.said())
        until = time.monotonic() + support.HANG
        with self.assertRaises(ConnectionRefusedError):
            while time.monotonic() < until:
                socket.create_connection(("127.0.0.1", port)).close()
                time.sleep(0.1)


if __name__ == "__main__":
    require_server()
    support.main()
