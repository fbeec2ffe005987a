"""docs/methods.md: every method has its section, every example gives the result on the page, and every figure equals the script's. The
page's Python blocks run in order, in one namespace. A comment after an expression is its expected value: `f(x) # [0.75, log(2)]` to
1e-9, `# about 0.14` to the digits shown, `# log(2), about 0.69` both."""

import ast
import contextlib
import decimal
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import tokenize
import xml.etree.ElementTree

import torch

import keel
from support import run

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGE = os.path.join(ROOT, "docs", "methods.md")
PICTURES = os.path.join(ROOT, "docs", "methods")
LARGEST_PICTURE = 200_000  # bytes


def page():
    with open(PAGE, encoding="utf-8") as file:
        return file.read()


def blocks(text, language):
    """(line of the first line inside, text) of every fenced block of this language."""
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def sections(text):
    """The page's text about each method, by name."""
    result = {}
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        heading = re.match(r"### `(\w+)`\n", part)
        if heading:
            assert heading[1] not in result, f"two sections about {heading[1]}"
            result[heading[1]] = part
    return result


# The required lines of a section.


def shown(value):
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:g}"


def defaults_line(row):
    parameters = ", ".join(f"`{name}` {shown(value)}" for name, value in row["parameters"].items()) or "no parameters"
    return f"Defaults: {parameters}; advantage `{row['advantage']}`, aggregation `{row['aggregation']}`."


def needs_line(row):
    needs, words = row["requirements"], []
    if needs["top_k"]:
        words.append(f"the sampler's {needs['top_k']} likeliest tokens (`topk_behavior_logp`, `topk_logp`, `sampled_in_topk`)")
    if needs["hidden_states"]:
        words.append("exact divergences (`divergence`)")
    if needs["recomputed_logp"]:
        words.append("the trainer's own log-probs at the sampling weights (`old_logp`)")
    if needs["scope"] == "sequence":
        words.append("whole sequences (`lengths`)")
    if needs["scope"] == "batch":
        words.append("the whole update at once (`lengths`, `groups`)")
    return f"Needs: {'; '.join(words)}." if words else ""


def without_links(text):
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def every_row_has_its_section():
    """A new method may have no section yet; the test prints its name and requires a correct count on the page."""
    about = sections(page())
    rows = {name: row for name, row in keel.methods().items() if name in about}
    assert f"Keel's {len(about)} methods" in page(), f"its count is wrong: write Keel's {len(about)} methods"
    assert len(rows) == len(about), f"sections without a row: {sorted(set(about) - set(rows))}"
    for name, row in rows.items():
        plain = without_links(about[name])
        for line in (f"```text\n{row['equation']}\n```", defaults_line(row), needs_line(row), f"Source: {row['source']}."):
            assert line in plain, f"the section about {name} lacks:\n{line}"
        assert needs_line(row) or "\nNeeds: " not in plain, f"{name} needs nothing special, but its section says so"
    new = sorted(set(keel.methods()) - set(about))
    return f"{len(rows)} rows" + (f"; not on the page yet: {', '.join(new)}" if new else "")


def every_row_has_a_worked_example():
    for name, text in sections(page()).items():
        examples = [block for _, block in blocks(text, "python") if f'"{name}"' in block]
        assert any(expected for block in examples for _, expected in statements(block)), f"no worked example of {name}"


# Running the examples.


def statements(block):
    """The statements of a block, each with the comment after it, which is its expected value (else None)."""
    comments = {token.start[0]: token.string.lstrip("# ").strip()
                for token in tokenize.generate_tokens(io.StringIO(block).readline)
                if token.type == tokenize.COMMENT and token.line[:token.start[1]].strip()}
    for node in ast.parse(block).body:
        yield node, comments.get(node.end_lineno) if isinstance(node, ast.Expr) else None


def plain(value):
    """Converts tensors and tuples to lists."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def same(got, want):
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, (bool, str, type(None))) or isinstance(got, (bool, str, type(None))):
        return type(got) is type(want) and got == want
    return got == want or abs(got - want) <= 1e-9 * max(1, abs(want))


def flat(value):
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, list) else [value]


def rounds_to(got, text):
    """Whether every number of the text equals `got` to the digits shown."""
    numbers = [decimal.Decimal(number) for number in re.findall(r"-?\d+\.?\d*(?:e[-+]?\d+)?", text)]
    got = flat(got)
    return len(got) == len(numbers) and all(
        abs(x - float(n)) <= 0.500001 * 10.0 ** n.as_tuple().exponent for x, n in zip(got, numbers))


def agrees(got, expected, names):
    exact, _, rounded = expected.partition("about ")
    exact = exact.strip().rstrip(",")
    return (not exact or same(got, plain(eval(exact, names)))) and (not rounded or rounds_to(got, rounded))


def every_example_gives_the_result_on_the_page():
    names, compared, failures = {}, 0, []
    for line, block in blocks(page(), "python"):
        for node, expected in statements(block):
            place = f"docs/methods.md:{line + node.lineno - 1}"
            code = ast.get_source_segment(block, node)
            if expected is None:
                exec(compile("\n" * (line + node.lineno - 2) + code, PAGE, "exec"), names)
                continue
            got = plain(eval(code, names))
            compared += 1
            if not agrees(got, expected, names):
                failures.append(f"{place}: {code} gives {got}, the page says {expected}")
    assert not failures, "\n".join(failures)
    return f"{compared} results"


def the_comparison_can_fail():
    assert agrees([0.25, 1.0], "[1/4, 1]", {}) and not agrees([0.25, 1.0], "[1/4, 1.001]", {})
    assert agrees(0.1438, "about 0.144", {}) and not agrees(0.1438, "about 0.143", {})
    assert not agrees([True, False], "[True, True]", {}) and not agrees([1.0], "[1.0, 2.0]", {})
    assert not agrees(0.5, "0.25, about 0.5", {}) and not agrees(1.0, "True", {})


# Configurations, links and pictures.


def the_program_accepts_its_configurations():
    program = os.environ.get("KEEL_BINARY")
    if not program:
        return "skipped, KEEL_BINARY does not say where the program is"
    with open(os.path.join(ROOT, "examples", "quickstart.yaml"), encoding="utf-8") as file:
        base = re.sub(r"^(objective|reference|record):\n(?:[ #].*\n|\n)*", "", file.read(), flags=re.MULTILINE)
    commands = [shlex.split(line)[1:] for _, block in blocks(page(), "sh") for line in block.splitlines() if "--explain" in line]
    with tempfile.TemporaryDirectory() as folder:
        for i, (_, block) in enumerate(blocks(page(), "yaml")):
            path = os.path.join(folder, f"{i}.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(base + "\n" + block)
            commands.append(["train", path, "--explain"])
        for command in commands:
            done = subprocess.run([program, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert done.returncode == 0, f"keel {' '.join(command)} ends with {done.returncode}: {done.stdout}"
    return f"{len(commands)} configurations"


def every_figure_is_used_and_small():
    on_page = {os.path.basename(path) for path in re.findall(r"!\[[^\]]+\]\((methods/[^)]+)\)", page())}
    assert on_page == set(os.listdir(PICTURES)), f"pictures on the page {on_page}, in the folder {os.listdir(PICTURES)}"
    for name in on_page:
        path = os.path.join(PICTURES, name)
        xml.etree.ElementTree.parse(path)
        assert os.path.getsize(path) < LARGEST_PICTURE, f"{name} has {os.path.getsize(path)} bytes"


def the_figures_are_generated_by_the_script():
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(None):
            runpy.run_path(os.path.join(ROOT, "scripts", "plot_methods.py"))["main"]([folder])
        for name in sorted(set(os.listdir(folder)) | set(os.listdir(PICTURES))):
            contents = []
            for place in (folder, PICTURES):
                with open(os.path.join(place, name), "rb") as file:
                    contents.append(file.read())
            assert contents[0] == contents[1], f"{name} is out of date: run scripts/plot_methods.py"


def every_function_of_the_module_is_documented():
    missing = [name for name in keel.__all__ if f"`keel.{name}" not in page() and f"`{name}`" not in page()]
    assert not missing, f"docs/methods.md says nothing about {missing}"


if __name__ == "__main__":
    sys.exit(run([every_row_has_its_section, every_row_has_a_worked_example, every_example_gives_the_result_on_the_page,
                  the_comparison_can_fail, the_program_accepts_its_configurations, every_figure_is_used_and_small,
                  the_figures_are_generated_by_the_script, every_function_of_the_module_is_documented]))
