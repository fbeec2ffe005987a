"""Runs test scripts that import the same large packages. Imports the packages once, then forks a child process for each script.

    scripts/python.sh tests/support/together.py GROUP SCRIPT...      as tests/CMakeLists.txt calls it

Exits with 1 if a script failed, with 77 if all were skipped, else with 0. KEEL_TEST_ONLY selects the scripts with this word in
their names. A script can also be run alone.
"""

import contextlib
import os
import pathlib
import resource
import runpy
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT / "tests" / "parity")
import packages  # noqa: E402

os.environ.setdefault("TQDM_DISABLE", "1")  # read when tqdm is imported
MODELS = ", ".join(f"{name}ForCausalLM" for name in ("Auto", "Llama", "Mistral", "Qwen2", "Qwen3", "Gemma2", "Gemma3"))
# Imports of each group. Nothing is computed before the forks, because a fork does not copy threads.
GROUPS = {"torch": "import torch",
          "transformers": f"import peft, safetensors.torch, tokenizers; from transformers import AutoTokenizer, PreTrainedTokenizerFast, {MODELS}",
          "trl": "import peft, trl.trainer.grpo_trainer, trl.trainer.sft_trainer",
          "verl": "import verl_package"}
LIMIT = packages.count(600, 3000)  # seconds of one script


def run(script):
    """Runs a script as the main program of this process."""
    signal.alarm(LIMIT)
    sys.argv, sys.path[0] = [script], str(pathlib.Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def main(group, *scripts):
    if group in packages.PYTHON and packages.is_there(group):
        packages.use(group)
    with contextlib.suppress(ImportError, SystemExit):  # the scripts report missing packages
        exec(GROUPS[group])
    codes, chosen = {}, [script for script in scripts if os.environ.get("KEEL_TEST_ONLY", "") in script]
    for script in chosen:
        start, name = time.monotonic(), pathlib.Path(script).resolve().relative_to(ROOT)
        print(f"== {name}", flush=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = os.fork()
        if child == 0:
            run(script)
            sys.exit(0)
        codes[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        result = {0: "passed", 77: "skipped", -signal.SIGALRM: f"did not end within {LIMIT} s"}.get(codes[name], f"FAILED with {codes[name]}")
        print(f"== {name}: {result}; {time.monotonic() - start:.1f} s, {used:.1f} s of CPU time", flush=True)
    failed = [f"{name}" for name, code in codes.items() if code not in (0, 77)]
    if failed:
        print(f"failed: {', '.join(failed)}")
    sys.exit(1 if failed else 77 if all(code == 77 for code in codes.values()) else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
