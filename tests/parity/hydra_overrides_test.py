"""`keel import` parses Hydra overrides, as in verl scripts, to the same values as Hydra."""

import json
import os
import random
import subprocess

import yaml

from packages import count, use

use("verl")
import omegaconf  # noqa: E402
from hydra._internal import config_loader_impl as hydra_loader  # noqa: E402
from hydra.core.override_parser.overrides_parser import OverridesParser  # noqa: E402
from hydra.core.override_parser.types import Sweep  # noqa: E402
from hydra.errors import HydraException  # noqa: E402

KEEL = os.environ["KEEL_BINARY"]
WORDS = "data.apply_chat_template_kwargs"  # a setting that accepts any value and is returned as name=JSON
NEEDED = ["algorithm.adv_estimator=grpo", "data.train_files=rows.parquet", "actor_rollout_ref.model.path=model", "actor_rollout_ref.rollout.n=4"]
hydra = OverridesParser.create()

VALUES = [
    "{enable_thinking:False}", '{enable_thinking: false, x: "a b"}', "{a: {b: [1, {c: d}]}}", "{a b: c d , e : f}", "{}", "[]", "[[1,2],[3]]",
    "[a,b]", "'[a,b]'", "null", "NULL", "None", "''", '""', "", "true", "TrUe", "FALSE", "yes", "off", "3", "-4", "+2", "1_000", "1e5", "1e-6",
    ".5", "5.", "-1.5E+3", "1_0.5", "010", "0x10", "1.5.2", "1e", "1_", "a b", "  a b ", r"a\,b", r"a\=b", r"a\b", r"\ a\ ", '"a=b"', "'it\\'s'",
    '"a\\"b"', r'"a\\b"', r'"a\nb"', r"'\\'", r'"a\\\"b"', "hdfs://x/y", "[hdfs://x/y, /a/b-c_1.0%20+$HOME*@?|]", "a:b", "{a:b:c}", "-", "--x",
    "['console','wandb']", '["console","wandb"]', "['a,b', \"c:d\"]", r'["a\nb"]', "[true,TRUE,Null,1e-6]", "{a: '', b: null}",
    "{1: x, null: y}", "[{a: 1}, {b: [c]}]", r"{\{x: 1}", "{a:True,b:TRUE,c:nUlL}", "[ ]", "{ }", "{a: 'true', b: \"1\"}"]
NO_VALUES = ["a,b", "1e-6,1e-5", "choice(1,2)", "range(1,3)", "{a}", "{a:1", "[a", "{a:}", "[a,,b]", "[a,]", "{a:1,}", "[1,2]x", "{a:1}{b:2}",
             "'it''s'", '"', "[a, 'b'c]", "x(1)", "a[1]"]


def run_import(*settings):
    return subprocess.run([KEEL, "import", *NEEDED, *settings], capture_output=True, text=True)


def read(values):
    """Returns the values of v0, v1, ... that `keel import` parses, or the error."""
    result = run_import(*(f"+{WORDS}.v{i}={value}" for i, value in enumerate(values)))
    if result.returncode:
        assert result.returncode == 2, result.stderr
        return result.stderr
    words = dict(word.split("=", 1) for word in yaml.safe_load(result.stdout)["data"]["chat_template_kwargs"])
    return [json.loads(words[f"v{i}"]) for i in range(len(values))]


def of_hydra(value):
    return json.loads(json.dumps(hydra.parse_override(f"a={value}").value()))  # with keys as strings, as in JSON


def check_values(values):
    got = read(values)
    assert isinstance(got, list), got
    for value, ours in zip(values, got):
        want = of_hydra(value)
        assert ours == want and type(ours) is type(want), f"{value}: got {ours!r}, want {want!r}"


def check_no_values():
    for value in NO_VALUES:
        try:
            parsed = hydra.parse_override(f"a={value}").value()
            assert isinstance(parsed, Sweep), f"Hydra reads {value} as {parsed!r}"
        except HydraException:
            pass
    for value in random.Random(3).sample(NO_VALUES, count(3, len(NO_VALUES))):
        got = read([value])
        assert f"{WORDS}.v0={value}" in got, f"{value}: {got}"


def random_value(random_number, depth=0):
    kind = random_number.randrange(8 if depth < 3 else 6)
    if kind == 6:
        return "[" + ", ".join(random_value(random_number, depth + 1) for _ in range(random_number.randrange(4))) + "]"
    if kind == 7:
        return "{" + ",".join(f"k{i}: {random_value(random_number, depth + 1)}" for i in range(random_number.randrange(4))) + "}"
    signs = {0: "0123456789._e-+", 1: "truefalsnl", 2: "abz019_- /.$%*@?|", 3: "\\,[]{}:= (", 4: "'\"\\a", 5: "a '\\\""}[kind]
    text = "".join(random_number.choice(signs) for _ in range(random_number.randrange(1, 7)))
    return {3: "".join("\\" + c for c in text), 4: "'" + text.replace("'", "\\'") + "'"}.get(kind, text)


def check_random_values():
    """Random values that Hydra accepts are equal; most random values are accepted."""
    random_number = random.Random(17)
    taken = []
    while len(taken) < count(200, 20000):
        value = random_value(random_number)
        try:
            parsed = of_hydra(value)
        except (HydraException, TypeError, ValueError):  # invalid, or a sweep
            continue
        is_finite = "Infinity" not in json.dumps(parsed) and "NaN" not in json.dumps(parsed)
        if is_finite and "${" not in value:
            taken.append(value)
    for begin in range(0, len(taken), 200):
        check_values(taken[begin:begin + 200])


def check_other_forms():
    """++ sets like +, ~ removes, and mappings are merged. References and config groups are errors."""
    def words(*settings):
        result = run_import(*settings)
        return yaml.safe_load(result.stdout)["data"]["chat_template_kwargs"] if result.returncode == 0 else result.stderr

    assert words(f"++{WORDS}={{a: 1}}", f"++{WORDS}.a=2") == ["a=2"]
    assert words(f"+{WORDS}={{a: 1, b: 2}}", f"~{WORDS}.b") == ["a=1"]
    assert "has no trainer.logger" in words("~trainer.logger")
    named_values = [("1", "2"), ("1", "1.0"), ("[a, b]", "[b,a]"), ("x", "null"), ("{x: 1}", "{x: 1}"), ("1", "1"), ("[a, b]", "[a,b]"), ("x", "'x'"),
                    ("x", "y"), ("x", ""), ("true", "false")]
    for there, named in named_values[:count(5, len(named_values))]:
        composed, removed = {"m": {"a": 0, "b": of_hydra(there)}}, True
        try:
            hydra_loader.ConfigLoaderImpl._apply_overrides_to_config([hydra.parse_override(f"~m.b={named}")], omegaconf.OmegaConf.create(composed))
        except HydraException:
            removed = False
        got = words(f"+{WORDS}={{a: 0}}", f"+{WORDS}.b={there}", f"~{WORDS}.b={named}")
        assert got == ["a=0"] if removed else "has another value" in got, (there, named, removed, got)
    for before, after in (("{a: 1, b: {c: 2, d: [3]}}", "{b: {d: [4], e: 5}, f: null}"), ("{a: 1}", "{}"), ("{a: {b: 1}}", "{a: 2}"), ("{a: 2}", "{a: {b: 1}}")):
        for sign in ("+", "++", ""):
            want = omegaconf.OmegaConf.create({"m": of_hydra(before)})
            omegaconf.OmegaConf.update(want, "m", of_hydra(after), merge=True)  # like Hydra
            got = dict(word.split("=", 1) for word in words(f"+{WORDS}={before}", f"{sign}{WORDS}={after}"))
            assert {name: json.loads(word) for name, word in got.items()} == omegaconf.OmegaConf.to_container(want)["m"], (before, after, got)
    for word in (f"+{WORDS}.a=${{trainer.nnodes}}", "algorithm/rollout_correction=decoupled"):
        assert "--cfg job --resolve" in words(word), word


if __name__ == "__main__":
    check_values(VALUES)
    check_no_values()
    check_random_values()
    check_other_forms()
    print("ok")
