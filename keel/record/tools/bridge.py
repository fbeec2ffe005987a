"""Sends the metrics of a run to Weights & Biases or MLflow through the public API of the installed package.

Keel starts it as: python3 -c THIS FILE TOOL. It reads one JSON object per line and replies with one. The first opens
the run; the others are rows of metrics.jsonl; {"end": ...} is the last. A reader thread replies immediately, so
that training never waits for a server. Output of the package goes to standard error.
"""

import glob
import json
import os
import queue
import re
import shutil
import sys
import threading
import time

MAX_PARAMETERS, MAX_CHARACTERS = 100, 6000  # MLflow's limits for one call and for one parameter
CLOCK = "time/clock"  # seconds since 1970 at which a row was written


class TargetExists(Exception):
    """The target has an earlier export of the run, and `overwrite` is not set."""


class Wandb:
    package = "wandb"

    def __init__(self, wandb, run):
        folder = run["folder"]  # of an export; None: the defaults of wandb, including WANDB_MODE
        earlier = glob.glob(os.path.join(glob.escape(folder), "wandb", f"offline-run-*-{run['id']}")) if folder else []
        if earlier and not run["overwrite"]:
            raise TargetExists(earlier[0])
        for path in earlier:
            shutil.rmtree(path)
        if folder:
            os.makedirs(os.path.join(folder, "wandb"), exist_ok=True)
        self.run = wandb.init(project=os.environ.get("WANDB_PROJECT", "keel"), name=run["name"], group=run["group"],
                              config=run["settings"], id=run["id"], dir=folder, mode="offline" if folder else None,
                              settings=wandb.Settings(silent=True, console="off"))
        self.target = os.path.dirname(self.run.dir) if self.run.offline else self.run.url

    def log(self, step, seconds, values):
        self.run.log({**values, "_timestamp": seconds}, step=step)

    def end(self, status, seconds):
        self.run.finish(exit_code=0 if status == "finished" else 1)


class Mlflow:
    package = "mlflow"

    def __init__(self, mlflow, run):
        self.entities = mlflow.entities
        self.client = mlflow.MlflowClient(tracking_uri=run["folder"])
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "keel")
        experiment = self.client.get_experiment_by_name(name)
        experiment = experiment.experiment_id if experiment else self.client.create_experiment(name)
        earlier = self.client.search_runs([experiment], f"tags.`keel.run` = '{run['group']}'") if run["folder"] else []
        if earlier and not run["overwrite"]:
            raise TargetExists(f"{run['folder']}, run {earlier[0].info.run_id}")
        for old in earlier:
            self.client.delete_run(old.info.run_id)
        created = self.client.create_run(experiment, start_time=milliseconds(run["begin"]), run_name=run["name"],
                                         tags={"keel.run": run["group"], "mlflow.source.name": "keel"})
        self.id = created.info.run_id
        parameters = [mlflow.entities.Param(mlflow_name(key), text(value)) for key, value in (run["settings"] or {}).items()]
        for first in range(0, len(parameters), MAX_PARAMETERS):
            self.client.log_batch(self.id, params=parameters[first:first + MAX_PARAMETERS])
        self.target = f"{run['folder'] or mlflow.get_tracking_uri()}, experiment {name}, run {self.id}"

    def log(self, step, seconds, values):
        self.client.log_batch(self.id, metrics=[self.entities.Metric(mlflow_name(name), value, milliseconds(seconds), step)
                                                for name, value in values.items()])

    def end(self, status, seconds):
        if status != "running":
            self.client.set_terminated(self.id, "FINISHED" if status == "finished" else "KILLED", milliseconds(seconds))


def milliseconds(seconds):
    return round(1000 * seconds)


def mlflow_name(name):
    return re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))


def text(value):
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:MAX_CHARACTERS]


def send(tracker, row, sent):
    """Logs the metrics of a row. An evaluation has the step of the previous row; metrics in both are sent once."""
    if sent.get("step") != row["step"]:
        sent.update(step=row["step"], names=set())
    values = {name: value for name, value in row.items() if name not in ("step", CLOCK) and name not in sent["names"]
              and isinstance(value, (int, float)) and not isinstance(value, bool)}
    sent["names"].update(values)
    sent["time"] = row.get(CLOCK, time.time())
    tracker.log(row["step"], sent["time"], values)


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(**answer):
        print(json.dumps(answer), file=replies, flush=True)

    tool = {"wandb": Wandb, "mlflow": Mlflow}[sys.argv[1]]
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow refuses its file store without it
    try:
        module = __import__(tool.package)
        if getattr(module, "__file__", None) is None:  # a folder of this name, such as ./wandb of a run
            raise ImportError(f"No module named {tool.package!r}")
    except ImportError as error:
        return reply(error=f"{error}", missing=True)
    reply(ready=True)
    try:
        tracker = tool(module, json.loads(sys.stdin.readline()))
    except TargetExists as error:
        return reply(exists=f"{error}")
    except Exception as error:
        return reply(error=f"{type(error).__name__}: {error}")
    reply(target=tracker.target)
    rows, failures = queue.SimpleQueue(), []

    def read():
        for line in sys.stdin:
            rows.put(row := json.loads(line))
            if "end" in row:
                return
            reply(**({"error": failures[0]} if failures else {}))
        rows.put({"end": "stopped"})  # Keel was killed

    threading.Thread(target=read, daemon=True).start()
    sent = {"time": time.time()}
    try:
        while "end" not in (row := rows.get()):
            send(tracker, row, sent)
        tracker.end(row["end"], sent["time"])
        reply(target=tracker.target)
    except Exception as error:
        failures.append(f"{type(error).__name__}: {error}")
        while "end" not in rows.get():
            pass
        reply(error=failures[0])


main()
