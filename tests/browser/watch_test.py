"""`keel watch` in a real browser during a training run: the page follows the run and shows its end."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import browser  # noqa: I001  it makes what follows known
import packages
import support
from watched import Server, require_server, write_run

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=\"window.hacked=2\">\u202egnp"


def main():
    browser.require_browser()
    require_server()
    if importlib.util.find_spec("pyarrow") is None:
        packages.skip("pyarrow is not there; scripts/bootstrap.sh --tests installs it")
    with tempfile.TemporaryDirectory(prefix="keel_watch_") as folder:
        runs = pathlib.Path(folder) / "runs"
        runs.mkdir()
        write_run(runs / "<img src=x onerror='window.hacked=3'>", done=True,
                  samples=[{"prompt": HOSTILE, "completion": HOSTILE, "tokens": [HOSTILE, "b"], "reward": 1.0}])
        server = Server(pathlib.Path(folder) / "watch.output", runs, "--port", "0")
        run = runs / "live"
        command = [support.KEEL, "train", support.QUICKSTART, *support.settings(
            run={"dir": run}, train={"steps": 300}, eval={"prompts": 4}, checkpoint={"every": 0}, record={"tokens": "sample"})]
        # It stops before it begins: the script continues and stops it.
        training = subprocess.Popen(["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        support.wait_for(training, lambda: support.state_of(training.pid) == "T")
        try:
            browser.run_script("watch.mjs", server.address, training.pid, run / "metrics.jsonl")
            code = training.wait(support.HANG)
        finally:
            training.kill()
            training.wait()
            ended = server.end()
        if code != 0 or ended != 0 or "live: ended" not in server.said():
            print(f"the training ended with {code}, the server with {ended}; it said:\n{server.said()}")
            sys.exit(1)


main()
