"""What a run and `keel export` write for TensorBoard, MLflow and Weights & Biases, read by the tools themselves: every
value, step and time matches metrics.jsonl. `wandb sync` uploads the run to a server in a thread of this test."""

import csv
import gzip
import http.server
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import warnings

sys.path.append(str(pathlib.Path(__file__).parents[1] / "cli"))
import support  # noqa: E402
from packages import folder_of, skip, use  # noqa: E402

try:
    import numpy as np
    import pyarrow.parquet
except ImportError as missing:
    skip(missing)
use("charts")
warnings.simplefilter("ignore")  # of the packages
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

CLOCK = "time/clock"


def keel(*arguments):
    result = support.keel(*arguments, env=os.environ)
    assert result.returncode == 0, result.stderr
    return result.stdout


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def numbers(row):
    return {key: value for key, value in row.items() if key != "step" and isinstance(value, (int, float)) and not isinstance(value, bool)}


def by_step(rows):
    """Merges the rows of each step: an evaluation adds keys to the previous step."""
    steps = {}
    for row in rows:
        steps[row["step"]] = {**numbers(row), **steps.get(row["step"], {}), "last": row[CLOCK]}
    return steps


def exported(steps):
    """Returns the steps with one time per step, as in an export."""
    return {step: {**values, "last": values[CLOCK]} for step, values in steps.items()}


def curves(rows):
    """Returns (step, value, time) of every metric, each step once."""
    found = {}
    for row in rows:
        for name, value in numbers(row).items():
            curve = found.setdefault(name, [])
            if name != CLOCK and (not curve or curve[-1][0] != row["step"]):
                curve.append((row["step"], value, row[CLOCK]))
    del found[CLOCK]
    return found


def tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})


def text_of(event):
    """Returns the text that TensorBoard shows, without Markdown indentation."""
    return "\n".join(line.removeprefix("    ") for line in event.tensor_proto.string_val[0].decode().split("\n"))


def check_histograms(events, tokens):
    """Compares the histograms of every RL step with numpy on the token records."""
    events.Reload()
    assert set(events.Tags()["histograms"]) == {"trust_region/divergence_histogram", "ratio/histogram"}, events.Tags()["histograms"]
    for tag, column in (("trust_region/divergence_histogram", "divergence"), ("ratio/histogram", "ratio")):
        got = events.Histograms(tag)
        assert [event.step for event in got] == sorted(tokens), (tag, [event.step for event in got], sorted(tokens))
        for event in got:
            histogram, values = event.histogram_value, tokens[event.step][column].astype(float)
            values = values[np.isfinite(values)]
            assert histogram.num == len(values) == sum(histogram.bucket), (tag, event.step)
            assert (histogram.min, histogram.max) == (values.min(), values.max()), (tag, event.step)
            np.testing.assert_allclose([histogram.sum, histogram.sum_squares], [values.sum(), (values**2).sum()], rtol=1e-12)
            places = np.searchsorted(histogram.bucket_limit, values, side="left")  # (limit, next limit]
            assert list(np.bincount(places, minlength=len(histogram.bucket))) == list(histogram.bucket), (tag, event.step)
            assert histogram.bucket[0] > 0 and histogram.bucket[-1] > 0


def check_texts(events, tokens, samples):
    """Compares the most blocked tokens with the records, and the samples with samples.jsonl."""
    blocked = {}
    for step, columns in tokens.items():
        counts = {}
        for token, text, kept, advantage in zip(columns["token_id"], columns["token"], columns["kept"], columns["advantage"]):
            if not kept and advantage != 0:
                counts.setdefault(token, [text, 0, 0])[1 if advantage > 0 else 2] += 1
        if counts:
            rows = sorted(counts.items(), key=lambda entry: (-entry[1][1] - entry[1][2], entry[0]))[:10]
            blocked[step] = [(positive + negative, positive, negative, text) for _, (text, positive, negative) in rows]
    assert blocked, "the run blocks nothing, and shows nothing"
    tag = "trust_region/blocked_tokens/text_summary"
    got = {event.step: [(*map(int, line.split()[:3]), json.loads(line.split(None, 3)[3])) for line in text_of(event).split("\n")[1:]]
           for event in events.Tensors(tag)}
    assert got == blocked, (got, blocked)
    for phase in ("rl", "eval"):
        wanted = {}
        for row in samples:
            if row["phase"] == phase:
                wanted.setdefault(row["step"], []).append(row)
        texts = {event.step: text_of(event) for event in events.Tensors(f"samples/{phase}/text_summary")}
        assert set(texts) == set(wanted), (phase, set(texts) ^ set(wanted))
        for step, rows in wanted.items():
            for row in rows:
                assert f"{row['prompt']}\n--> {row['completion']}" in texts[step], (texts[step], row)
            assert texts[step].count("reward ") == len(rows), texts[step]
        assert events.SummaryMetadata(f"samples/{phase}/text_summary").plugin_data.plugin_name == "text"
    assert events.SummaryMetadata(tag).plugin_data.plugin_name == "text"


def token_records(run):
    return {int(path.stem.removeprefix("step-")): {name: column.to_numpy(zero_copy_only=False) for name, column in
                                                   zip(table.column_names, table.columns)}
            for path in (run / "tokens").glob("*.parquet") for table in [pyarrow.parquet.read_table(path)]}


def check_tensorboard(events, wanted, config):
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(wanted), set(events.Tags()["scalars"]) ^ set(wanted)
    for name, curve in wanted.items():
        got = [(event.step, event.value, event.wall_time) for event in events.Scalars(name)]
        assert got == [(step, float32(value), time) for step, value, time in curve], (name, got, curve)
    (*_, text) = events.Tensors("config/text_summary")  # an open one also has the text from before the resumption
    assert text_of(text) == config.strip()
    assert events.SummaryMetadata("config/text_summary").plugin_data.plugin_name == "text"


def check_csv(file, steps):
    assert file.read_bytes().count(b"\r\n") == len(steps) + 1
    with open(file, newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {int(row["step"]): {name: float(value) for name, value in row.items() if name not in ("step", "phase") and value}
            for row in rows} == steps


def check_mlflow(store, steps, used, count=1):
    """Checks the newest of `count` runs."""
    from mlflow import MlflowClient
    client = MlflowClient(tracking_uri=str(store))
    experiment = client.get_experiment_by_name("keel")
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == count, runs
    run = max(runs, key=lambda run: run.info.start_time)
    assert (run.info.run_name, run.info.status, run.data.tags["keel.run"]) == ("run", "FINISHED", used["run.id"]), run
    assert run.data.params == {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                               for key, value in used.items()}
    names = {name for values in steps.values() for name in values} - {CLOCK, "last"}
    assert set(run.data.metrics) == {name.replace("@", "_at_") for name in names}
    for name in names:
        got = [(entry.step, entry.value, entry.timestamp)
               for entry in client.get_metric_history(run.info.run_id, name.replace("@", "_at_"))]
        assert [entry[:2] for entry in got] == [(step, values[name]) for step, values in steps.items() if name in values], name
        rows = {step: (round(1000 * values[CLOCK]), round(1000 * values["last"])) for step, values in steps.items()}
        assert all(time in rows[step] for step, _, time in got), (name, got)


class Server(http.server.BaseHTTPRequestHandler):
    """A minimal W&B server for `wandb sync`."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        answer = {}
        if self.path == "/graphql":
            request = json.loads(body)
            variables = request.get("variables") or {}
            if request.get("operationName") == "UpsertBucket":
                self.server.runs.append(variables)
                project = {"name": "keel", "entity": {"name": "me"}}
                answer = {"upsertBucket": {"inserted": True, "bucket": {
                    "id": "1", "name": variables["name"], "displayName": "run", "historyLineCount": 0, "project": project,
                    "summaryMetrics": "{}", "config": "{}", "tags": []}}}
            elif request.get("operationName") == "CreateRunFiles":
                here = "http://%s:%d/upload/" % self.server.server_address
                answer = {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": [
                    {"name": name, "uploadUrl": here + name} for name in variables["files"]]}}
            answer = {"data": answer}
        elif self.path.endswith("/file_stream"):
            self.server.streams.append(json.loads(body))
        reply = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_PUT = do_POST


def check_wandb(offline, steps, used, home):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.runs, server.streams = [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {**os.environ, "PYTHONPATH": str(folder_of("charts")), "HOME": str(home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
                   "WANDB_BASE_URL": "http://%s:%d" % server.server_address, "WANDB_API_KEY": 40 * "k", "WANDB_ERROR_REPORTING": "false"}
    result = subprocess.run([sys.executable, "-W", "ignore", "-m", "wandb", "sync", str(offline)], env=environment, cwd=home, capture_output=True,
                            text=True, timeout=600)
    server.shutdown()
    assert result.returncode == 0, result.stderr
    first = server.runs[0]
    assert (first["project"], first["displayName"], first["groupName"]) == ("keel", "run", used["run.id"]), first
    config = {key: entry["value"] for key, entry in json.loads(first["config"]).items() if key != "_wandb"}
    assert config == used, (config, used)
    files = [stream["files"] for stream in server.streams if stream.get("files")]
    lines = {entry["wandb-history.jsonl"]["offset"] + number: json.loads(line) for entry in files if "wandb-history.jsonl" in entry
             for number, line in enumerate(entry["wandb-history.jsonl"]["content"])}
    history = {row["_step"]: row for _, row in sorted(lines.items())}
    assert list(history) == list(steps)
    for step, values in steps.items():
        row = {key: value for key, value in history[step].items() if key not in ("_step", "_runtime", "_timestamp")}
        assert row == {name: value for name, value in values.items() if name not in (CLOCK, "last")}, (step, row, values)
        assert history[step]["_timestamp"] == values["last"]
    (*_, summary) = [json.loads(entry["wandb-summary.json"]["content"][-1]) for entry in files if "wandb-summary.json" in entry]
    last = {}
    for values in steps.values():
        last.update(values)
    del last[CLOCK], last["last"]
    assert {name: summary[name] for name in last} == last
    assert any(stream.get("exitcode") == 0 and stream.get("complete") for stream in server.streams), server.streams[-1]


def main():
    with tempfile.TemporaryDirectory(prefix="keel_charts_") as made:
        folder = pathlib.Path(made)
        run = folder / "run"
        watching = tensorboard(run / "tensorboard")  # opened while the run is in progress
        os.environ.update(PYTHONPATH=str(folder_of("charts")), HOME=made, PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
                          WANDB_MODE="offline", WANDB_DIR=made, WANDB_ERROR_REPORTING="false", MLFLOW_TRACKING_URI=str(folder / "live"))
        for steps, flags in ((4, ()), (16, ("--resume",))):
            result = support.train(run, *flags, train={"steps": steps}, eval={"every": 4, "samples": 4}, objective={"delta": 1e-4}, reward={"functions": "[length:5]"},
                                   record={"tensorboard": "true", "wandb": "true", "mlflow": "true", "tokens": "every_step"})
            assert result.returncode == 0, result.stderr
            rows, config = support.read_jsonl(run / "metrics.jsonl"), (run / "config.yaml").read_text()
            for events in (watching, tensorboard(run / "tensorboard")):
                check_tensorboard(events, curves(rows), config)
                check_histograms(events, token_records(run))
            check_texts(events, token_records(run), support.read_jsonl(run / "samples.jsonl"))
        targets = ("--tensorboard", folder / "tensorboard", "--wandb", folder / "exported", "--mlflow", folder / "mlflow")
        printed = keel("export", run, "--csv", folder / "run.csv", *targets)
        used = json.loads((run / "used.json").read_text())
        steps = by_step(rows)
        assert any("eval/pass@4" in values for values in steps.values())
        table = {step: {name: value for name, value in values.items() if name != "last"} for step, values in steps.items()}
        check_csv(folder / "run.csv", table)
        events = tensorboard(folder / "tensorboard")
        check_tensorboard(events, curves([{"step": step, **values} for step, values in table.items()]), config)
        check_histograms(events, token_records(run))
        check_texts(events, token_records(run), support.read_jsonl(run / "samples.jsonl"))
        check_mlflow(folder / "live", steps, used, count=2)  # one for each start of the run
        check_mlflow(folder / "mlflow", exported(steps), used)
        _, live = sorted((folder / "wandb").glob("offline-run-*"))
        (offline,) = (folder / "exported" / "wandb").glob("offline-run-*")
        check_wandb(live, steps, used, folder)
        check_wandb(offline, exported(steps), used, folder)
        for command in (f"wandb sync {offline}", f"MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {folder}/mlflow"):
            assert f"view it with: {command}\n" in printed, printed
        again = support.keel("export", run, *targets[2:], env=os.environ)
        assert again.returncode == 2 and "--overwrite" in again.stderr, again.stderr
        keel("export", run, *targets[2:], "--overwrite")
        check_mlflow(folder / "mlflow", exported(steps), used)
        assert len(list((folder / "exported" / "wandb").glob("offline-run-*"))) == 1
        print(f"{len(rows)} rows, {len(curves(rows))} metrics: TensorBoard, MLflow and Weights & Biases read what metrics.jsonl says")


if __name__ == "__main__":
    main()
