"""keel chat, and the input and output of keel generate."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import support
from byte_model import trained_model
from terminal import on_terminal


GREEDY = ("--temperature", "0", "--max-new-tokens", "6")
NOISE = ("--temperature", "1", "--seed", "3", "--max-new-tokens", "6")  # differs for every prompt


class Chat(support.Test):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="keel_cli_")
        cls.addClassCleanup(folder.cleanup)
        cls.model = trained_model(pathlib.Path(folder.name))

    def chat(self, text, *options, model=None, sampling=GREEDY):
        return subprocess.run([support.KEEL, "chat", model or self.model, *sampling, *options], input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=support.environment())

    def generated(self, prompt, model=None, sampling=GREEDY):
        result = support.keel("generate", "--model", model or self.model, "--prompt", prompt, *sampling)
        self.assert_exit(result, 0)
        return result.stdout.removesuffix("\n")

    @staticmethod
    def rendered(*turns):
        """Renders the template with its generation prompt."""
        text = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns)
        return text + "<|im_start|>assistant\n"

    def test_remembers_the_conversation(self):
        first = self.generated(self.rendered(("user", "hi")))
        raw = support.keel("generate", "--model", self.model, "--prompt", self.rendered(("user", "hi")), "--temperature", "0",
                           "--max-new-tokens", "6", "--raw").stdout.removesuffix("\n")
        second = self.generated(self.rendered(("user", "hi"), ("assistant", raw), ("user", "and now?")))
        result = self.chat("hi\n\nand now?\n")
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout, f"{first}\n{second}\n")

    def test_resets_with_and_without_a_system_prompt(self):
        alone = self.generated(self.rendered(("user", "hi")))
        french = self.generated(self.rendered(("system", "French."), ("user", "hi")))
        result = self.chat("hi\n/reset\nhi\n/system French.\nhi\n/reset\nhi\n/what\n/exit\nnever read\n")
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout, "".join(f"{answer}\n" for answer in (alone, alone, french, french)))
        self.assertIn("/reset starts a new conversation", result.stderr)
        self.assertEqual(self.chat("hi\n", "--system", "French.").stdout, f"{french}\n")

    def test_chat_uses_the_settings_of_the_run(self):
        run = trained_model(self.folder, "data.system_prompt=French.")
        alone = self.generated(self.rendered(("user", "hi")), run, NOISE)
        french = self.generated(self.rendered(("system", "French."), ("user", "hi")), run, NOISE)
        english = self.generated(self.rendered(("system", "English."), ("user", "hi")), run, NOISE)
        self.assertEqual(len({alone, french, english}), 3)  # otherwise the test would prove nothing
        for system, answer, told in (((), french, True), (("--system", "English."), english, False), (("--system", ""), alone, False)):
            for result in (support.keel("generate", "--model", run, "--prompt", "hi", "--chat", *NOISE, *system),
                           self.chat("hi\n", *system, model=run, sampling=NOISE)):
                self.assert_exit(result, 0)
                self.assertEqual(result.stdout, f"{answer}\n")
                self.assertEqual("system prompt of the run (--system '' for none): French." in result.stderr, told, result.stderr)
        self.assertEqual(self.chat("/system English.\nhi\n", model=run, sampling=NOISE).stdout, f"{english}\n")

    def test_a_runs_completions_end_where_they_did_in_training(self):
        prompt = self.rendered(("user", "hi"))
        whole = self.generated(prompt, sampling=NOISE)
        stop = whole[len(whole) // 2]
        stopped = trained_model(self.folder / "stopped", f"rollout.stop_strings={json.dumps([stop])}")
        whole = self.generated(prompt, stopped, (*NOISE, "--stop", "never said"))
        self.assertIn(stop, whole)
        result = support.keel("generate", "--model", stopped, "--prompt", "hi", "--chat", *NOISE)
        self.assertEqual(result.stdout, whole.partition(stop)[0] + "\n")
        self.assertIn(f"stop strings of the run (--stop overrides): {json.dumps([stop])}", result.stderr)

    def test_messages_exclude_the_line_end(self):
        hi = self.generated(self.rendered(("user", "hi")))
        self.assertEqual(self.chat("hi\r\n/exit\r\nnever read\r\n").stdout, f"{hi}\n")
        for end in ("", "\n", "\r\n"):
            result = subprocess.run([support.KEEL, "generate", "--model", self.model, "--prompt", "-", "--chat", "--temperature", "0",
                                     "--max-new-tokens", "6"], input=f"hi{end}".encode(), stdout=subprocess.PIPE)
            self.assertEqual(result.stdout.decode().removesuffix("\n"), hi, repr(end))

    def test_a_signal_stops_while_waiting_for_a_line(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([support.KEEL, "chat", self.model, *GREEDY], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=support.environment()) as chat:
                chat.stdin.write("hi\n")
                chat.stdin.flush()
                self.assertTrue(chat.stdout.readline())  # the answer was printed: the program waits for the next line
                self.assertTrue(support.wait_for(chat, lambda: support.state_of(chat.pid) == "S"))
                chat.send_signal(number)
                chat.wait(support.HANG)

    def test_endless_or_unreadable_standard_input_is_refused(self):
        for command in (("chat", self.model), ("generate", "--model", self.model, "--prompt", "-")):
            for source, part in (("/dev/zero", "more than 16 MiB"), ("/", "cannot be read: Is a directory")):
                given = os.open(source, os.O_RDONLY)
                self.addCleanup(os.close, given)
                result = subprocess.run([support.KEEL, *command], stdin=given, capture_output=True, text=True, env=support.environment(), timeout=support.HANG)
                self.assert_exit(result, 3)
                self.assertRegex(result.stderr, f"keel: standard input.*{part}")

    def test_raw_text_is_unchanged(self):
        command = ["generate", "--model", self.model, "--prompt", "hi", "--temperature", "100", "--seed", "1", "-n", "64", "--max-new-tokens", "40"]
        texts = [json.loads(line)["text"] for line in support.keel(*command, "--json").stdout.removesuffix("\n").split("\n")]
        self.assertTrue(any("\0" in text for text in texts))
        result = subprocess.run([support.KEEL, *map(str, command), "--raw"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(result.stdout.decode(), "".join(f"{text}\n" for text in texts))

    def test_a_truncated_answer_is_reported(self):
        answer = json.loads(support.keel("generate", "--model", self.model, "--prompt", "hi", "--chat", "--temperature", "0",
                                         "--max-new-tokens", "6", "--json").stdout)
        self.assertEqual(answer["finish_reason"], "length")
        self.assertIn("cut off at 6 tokens (--max-new-tokens)", self.chat("hi\n").stderr)
        self.assertNotIn("cut off", self.chat("hi\n", "--stop", answer["text"]).stderr)

    def test_a_too_long_message_is_reported_and_dropped(self):
        result = self.chat("x" * 2000 + "\nhi\n")
        self.assert_exit(result, 0)
        self.assertIn("positions", result.stderr)
        self.assertEqual(result.stdout, self.generated(self.rendered(("user", "hi"))) + "\n")
        self.assert_exit(self.chat("x" * 2000 + "\n"), 3)  # no answer was generated

    def test_a_message_of_invalid_utf8_is_reported_and_dropped(self):
        result = subprocess.run([support.KEEL, "chat", self.model, *GREEDY], input=b"h\xff\nhi\n", capture_output=True, env=support.environment())
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.decode(), self.generated(self.rendered(("user", "hi"))) + "\n")
        self.assertIn("the message is not UTF-8 at its byte 2", result.stderr.decode())

    def test_chat_refuses_a_model_without_a_template(self):
        run = self.folder / "run"
        self.assert_exit(support.train(run, train={"steps": 0}), 0)
        result = support.keel("chat", run)
        self.assert_exit(result, 3)
        self.assertRegex(result.stderr, "keel: .* has no chat template.*keel generate, which continues plain text")

    def test_generate_reads_its_prompt_from_standard_input(self):
        prompt = self.rendered(("user", "a\nb"))
        result = subprocess.run([support.KEEL, "generate", "--model", self.model, "--prompt", "-", "--temperature", "0",
                                 "--max-new-tokens", "6"], input=prompt + "\n", stdout=subprocess.PIPE, text=True)
        self.assertEqual(result.stdout.removesuffix("\n"), self.generated(prompt))

    def on_a_terminal(self, *options, model=None, temperature=0):
        """The outputs of the same completion on a pseudo-terminal and through a pipe."""
        command = ["generate", "--model", model or self.model, "--prompt", "hi", "--temperature", temperature, "--max-new-tokens", "40", *options]
        code, text = on_terminal(*command, both=False)
        self.assertEqual(code, 0)
        return text, support.keel(*command).stdout

    def test_streaming_prints_the_same_text(self):
        grown, whole = self.on_a_terminal()
        self.assertEqual(grown, whole)

    def test_streaming_never_prints_the_start_of_a_stop_string(self):
        row = json.loads(support.keel("generate", "--model", self.model, "--prompt", "hi", "--temperature", "0", "--max-new-tokens", "40",
                                      "--json").stdout)
        grown, whole = self.on_a_terminal("--stop", row["text"][:8])  # The stop string has several tokens, which arrive one after another.
        self.assertEqual((grown, whole), ("\n", "\n"))

    def test_streaming_loses_nothing_when_a_token_changes_earlier_text(self):
        # With byte tokens, an invalid byte also invalidates those before it: A, then three replacement characters.
        model = self.folder / "model"
        shutil.copytree(self.model / "checkpoints" / "step-000001", model)
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        special = [token["content"] for token in tokenizer["added_tokens"]]
        names = [f"<0x{byte:02X}>" for byte in range(256)] + special
        tokenizer["model"].update(vocab={name: i for i, name in enumerate(names)}, byte_fallback=True)
        tokenizer["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
        tokenizer["pre_tokenizer"] = None
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        (model / "manifest.json").unlink()  # the manifest, which has its checksum
        changed = 0
        for seed in range(6):
            grown, whole = self.on_a_terminal("--seed", seed, model=model, temperature=1)
            changed += "\ufffd" in whole
            self.assertTrue(grown.endswith(whole), (grown, whole))
        self.assertGreater(changed, 0)


if __name__ == "__main__":
    support.main()
