"""A small chat model and supervised rows for the tests of keel sft."""

import json

import support
from byte_model import write_model

TALKS = [[{"role": "user", "content": f"what is {a} + 1?"}, {"role": "assistant", "content": str(a + 1)}] for a in range(7)]


class Test(support.Test):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.folder / "model")
        self.rows = self.write("rows.jsonl", [{"messages": talk} for talk in TALKS])

    def write(self, name, rows):
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def sft(self, *settings, run="run", command="sft"):
        return support.keel(command, f"model={self.model}", "model.random_weights=true", f"run.dir={self.folder / run}", "run.threads=1", *settings)

    def refused(self, code, *settings):
        result = self.sft(*settings)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stderr
