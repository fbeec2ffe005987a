"""Checks which module may include which, and other rules on the sources.

Prints each violation as FILE:LINE: what is wrong. Run with a folder to check another tree than this repository.
"""

import pathlib
import re
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from sections import sections  # noqa: E402

CODE = {".h", ".cpp", ".cu", ".cuh"}
WITH_OPENMP = {"keel/model/formats/safetensors/huge_pages.cpp", "keel/ops/paged_attention.cpp", "keel/ops/dropout.cpp", "keel/ops/kept_rows.cpp",
               "keel/ops/parallel_rows.h", "keel/ops/initial_weights.cpp", "keel/ops/layer_ops.cpp", "keel/ops/next_token_distribution.cpp",
               "keel/ops/packed_weight.cpp", "keel/ops/sampler.cpp"}
READS_JSON = {"keel/core/json_reader.cpp"}
OPENS_DEVICES = {"keel/core/tensor/device.cpp"}  # and rejects one without kernels in this build
HEADERS = {".h", ".cuh"}
KERNEL_HEADERS = {"keel/core/kept_tokens.h", "keel/core/philox.h", "keel/core/token_weight.h"}  # of core; plain numbers and functions

# A module of keel/ or libs/ (the longest path that fits a file) and the modules that it may include besides itself.
# "NAME/*" is every module below NAME and NAME itself; "core" means its own files, not the modules below it.
# A library of libs/ may include its own modules and plain headers of keel/core, and nothing else of the project.
MODULES = {
    "core": "",
    "core/files": "core",
    "core/options": "core core/files",
    "core/tensor": "core",
    "kernels": "",  # and KERNEL_HEADERS, as the modules below it
    "kernels/cpu": "kernels",
    "kernels/cuda": "kernels",
    "libs/mathverify/arithmetic": "",
    "libs/mathverify/algebra": "libs/mathverify/arithmetic",
    "libs/mathverify/parse": "libs/mathverify/arithmetic",
    "libs/mathverify/compare": "libs/mathverify/arithmetic libs/mathverify/algebra libs/mathverify/parse",
    "libs/mathverify": "libs/mathverify/*",
    "libs/hftext/characters": "core",
    "libs/hftext/regex": "core libs/hftext/characters",
    "libs/hftext/tokenizer": "core core/files libs/hftext/characters libs/hftext/regex",
    "libs/hftext/jinja/objects": "core libs/hftext/characters",
    "libs/hftext/jinja/syntax": "core libs/hftext/characters libs/hftext/jinja/objects",
    "libs/hftext/jinja/library": "core libs/hftext/characters libs/hftext/jinja/objects",
    "libs/hftext/jinja": "core libs/hftext/characters libs/hftext/jinja/objects libs/hftext/jinja/syntax",
    "libs/hftext/chat": "core core/files libs/hftext/*",
    "ops": "core core/tensor kernels/*",
    "objective/regions": "core core/tensor",
    "objective": "core core/options core/tensor objective/regions",
    "record/charts": "core",
    "record/tools": "core core/files reward/programs",
    "record/tokens": "core core/files",
    "record": "core core/files record/charts record/tools record/tokens",
    "counterfactual": "core core/options core/tensor objective objective/regions record record/tokens",
    "record/report": "core core/files record record/charts",
    "watch": "core core/files record record/charts record/report record/tools reward/programs",
    "data/rows": "core core/files",
    "data": "core core/files core/options data/rows libs/hftext/chat libs/hftext/tokenizer",
    "reward/programs": "core core/files",
    "reward/functions": "core core/files libs/mathverify libs/hftext/characters libs/hftext/regex reward/programs",
    "reward": "core core/files core/options core/tensor libs/mathverify libs/hftext/tokenizer reward/functions reward/programs",
    "task": "core core/options libs/mathverify libs/hftext/tokenizer",
    "model/formats": "core core/files core/tensor",
    "model/formats/safetensors": "core core/files core/tensor model/formats",
    "model/formats/gguf": "core core/files core/tensor model/formats",
    "model/network": "core core/options core/tensor kernels ops",  # of the kernels only the words
    "model/families": "core core/files core/tensor model/formats model/network",
    "model/folder": "core core/files core/tensor libs/hftext/regex libs/hftext/tokenizer model/formats/* model/network model/families",
    "model": "core core/files core/tensor libs/hftext/chat libs/hftext/tokenizer model/*",
    "rollout/cache": "core core/tensor ops model/network",
    "rollout": "core core/options core/tensor libs/hftext/tokenizer ops model/network rollout/cache",
    "evaluation": "core core/options core/tensor libs/mathverify libs/hftext/tokenizer data task reward model model/network rollout",
    "distributed": "core core/tensor",
    "train/update": "core core/options core/tensor ops objective objective/regions model/network distributed",
    "train/metrics": "core core/tensor data record/tokens reward libs/hftext/tokenizer ops objective/regions train/update",
    "train/config": "core core/files core/options data task reward objective model model/network rollout evaluation train/update",
    "compat": "core core/options model/network train/config",  # no module may include it
    "train/checkpoint": "core core/files core/tensor record record/report model model/*",
    "train/start": "core core/files core/tensor data task reward libs/hftext/tokenizer libs/hftext/chat model model/* objective rollout rollout/cache train/checkpoint "
                   "train/config train/update",
    "train": "*",
    "study": "*",
}
PLAIN = ("libs", "core", "data", "task", "record", "watch", "reward/programs", "reward/functions")  # compiled without LibTorch
WITH_TENSORS = {"core/tensor"}  # except this one
MAX_NAMES = 25  # per folder; a header and its source count once
ONE_IDEA = {frozenset({"libs/hftext/jinja/objects/runtime", "libs/hftext/jinja/objects/value"})}  # the only permitted circle of files
LIBRARY = ("keel", "libs")
OUTER = ("cli", "python", "bench", "sandbox")  # may include every module; no module may include them

FORBIDDEN_HEADERS = {
    r"torch/torch\.h": "costs 17 s per file; include the ATen or torch header that is meant",
    r"regex": "std::regex crashes and hangs on long input",
    r"(fmt|spdlog)/.*": "the torch package puts another fmt on the include path",
}


def module_of(path):
    """The module of a file, the longest that matches, or None; `path` is relative to the repository root."""
    folder = path.parent.as_posix()
    if not folder.startswith(("keel/", "libs/")):
        return None
    module = folder.removeprefix("keel/")
    while module and module not in MODULES:
        module = module.rpartition("/")[0]
    return module or None


def is_test(path):
    """Whether a file belongs to the tests of a library, which may include every module."""
    return path.parts[0] == "libs" and "tests" in path.parts


def may_include(module, other):
    """Whether a file of one module may include a file of another."""
    for entry in MODULES[module].split():
        if entry == other or (entry == "*" and other != "compat") or (entry.endswith("/*") and (other + "/").startswith(entry[:-1])):
            return True
    return module == other


def is_plain(module):
    return module not in WITH_TENSORS and any((module + "/").startswith(plain + "/") for plain in PLAIN)


def is_kernels(module):
    return (module + "/").startswith("kernels/")


def check_include(path, module, angle, target):
    """Returns why `path` (in the module, or in an outer folder if that is None) may not include the target, or None."""
    if angle:
        for pattern, reason in FORBIDDEN_HEADERS.items():
            if re.fullmatch(pattern, target):
                return f"<{target}>: {reason}"
        if module and re.match(r"(torch|ATen|c10)/", target):
            if is_kernels(module):
                return f"<{target}>: kernels are compiled without LibTorch"
            if is_plain(module):
                return f"<{target}>: {module} is a plain module, compiled without LibTorch"
        return None
    if path.as_posix() == "keel/core/philox.h":
        return f'"{target}": philox.h has no includes of its own'
    parts = target.split("/")
    if module is None:
        known = parts[0] in LIBRARY + OUTER or target == "keel_commit.h"
        return None if known else f'"{target}": include by the full path from the repository root'
    if parts[0] not in LIBRARY or len(parts) < 3:
        return f'"{target}": the library includes by full path, "keel/MODULE/FILE.h", and nothing outside keel/ and libs/'
    if is_kernels(module) and target in KERNEL_HEADERS:
        return None
    other = module_of(pathlib.PurePosixPath(target))
    if other and may_include(module, other):
        return None
    return f'"{target}": {module} may include only {MODULES[module] or "itself"}'


def check_file(path, text):
    """Yields (line number, problem) for one file; `path` is relative to the repository root."""
    lines = text.splitlines()
    module = module_of(path)
    if path.parts[0] in LIBRARY and module is None:
        yield 1, f"is in no module that has a row in the table of {pathlib.Path(__file__).name}"
        return
    if module and path.stem.endswith("_test"):
        yield 1, "a test belongs to tests/, which mirrors the modules, or to libs/NAME/tests"
    if path.suffix in HEADERS and not any(line.strip() == "#pragma once" for line in lines):
        yield 1, "a header starts with #pragma once"
    for number, line in enumerate(lines, 1):
        include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if include:
            reason = check_include(path, module, include[1] == "<", include[2])
            if reason:
                yield number, reason
        code = line.split("//")[0]
        if re.search(r"\b(remove_all|(recursive_)?directory_iterator)\b", code):
            yield number, "torch packages export broken ones; use remove_tree and list_directory of keel/core/files/file.h"
        if re.search(r"\bstd\s*::\s*(w?c?s?regex|regex_\w+)\b", code):
            yield number, "std::regex crashes and hangs on long input"
        if re.search(r"\bat\s*::\s*parallel_for\b|keel/ops/parallel_rows\.h", code) and path.as_posix() not in WITH_OPENMP:
            yield number, "a plain loop without OpenMP: name the file in CMakeLists.txt and in WITH_OPENMP here"
        raw_parser = r"(\b[Jj]son|_json|basic_json<.*>)\s*::\s*(parse|accept|sax_parse|from_\w+)\s*\("
        if re.search(raw_parser, code) and path.as_posix() not in READS_JSON:
            yield number, "JSON from outside can be nested deep; read it with keel/core/json_reader.h"
        if "KEEL_HAS_CUDA" in code and module not in (None, "ops") and path.as_posix() not in OPENS_DEVICES:
            yield number, "whether a build has CUDA kernels is known in ops, and where a device is opened"
        if path.suffix in HEADERS and re.search(r"\busing\s+namespace\b", code):
            yield number, "no `using namespace` in a header"


def sources_of(root):
    """The files of the library's C++ below `root`, relative, with the project headers that each includes."""
    result = {}
    for file in sorted(file for top in LIBRARY for file in (root / top).rglob("*")):
        path = file.relative_to(root)
        if file.is_file() and file.suffix in CODE and not is_test(path):
            text = file.read_text(encoding="utf-8")
            result[path] = re.findall(r'^\s*#\s*include\s*"((?:keel|libs)/[^"]+)"', text, re.MULTILINE)
    return result


def circles(edges):
    """The strongly connected parts of a graph {node: set of nodes} that have more than one node (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(part) > 1:
                found.append(frozenset(part))

    sys.setrecursionlimit(10000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def check_structure(sources):
    """Yields (path, problem) for modules that are too full and for circles between files and between modules."""
    names, files, modules = {}, {}, {}
    for path, includes in sources.items():
        module, name = module_of(path), path.with_suffix("").as_posix()
        if module is None:
            continue
        names.setdefault(path.parent.as_posix(), set()).add(name)
        for target in map(pathlib.PurePosixPath, includes):
            other = target.with_suffix("").as_posix()
            if other != name:
                files.setdefault(name, set()).add(other)
            if module_of(target) not in (None, module):
                modules.setdefault(module, set()).add(module_of(target))
    for folder, inside in sorted(names.items()):
        if len(inside) > MAX_NAMES:
            yield folder, f"{len(inside)} names in one folder; {MAX_NAMES} are enough for one"
    for circle in circles(files) + circles(modules):
        if circle not in ONE_IDEA:
            yield min(circle), "a circle of includes: " + ", ".join(sorted(circle))


def violations(root):
    """Every violation below `root`, as lines of text."""
    found = []
    for top in LIBRARY + OUTER:
        for file in sorted((root / top).rglob("*")):
            path = file.relative_to(root)
            if file.is_file() and file.suffix in CODE and not is_test(path):
                for number, what in check_file(path, file.read_text(encoding="utf-8")):
                    found.append(f"{path}:{number}: {what}")
    found += [f"{place}:1: {what}" for place, what in check_structure(sources_of(root))]
    return found


def print_modules(root):
    """Prints the modules with their numbers of files, and which are plain."""
    counts = {}
    for path in sources_of(root):
        module = module_of(path)
        counts.setdefault(module, set()).add(path.with_suffix("").as_posix())
    for module, inside in sorted(counts.items(), key=lambda item: str(item[0])):
        print(f"{module or 'no module':28} {len(inside):3} names{'  plain' if module and is_plain(module) else ''}")
    print(f"{len(counts)} modules, {sum(map(len, counts.values()))} names")


def self_check():
    """Tests that the checks find every violation of include_cases.txt once, at its line, and none in clean files."""
    wrong = []
    cases = {**sections(pathlib.Path(__file__).with_name("include_cases.txt")), "bad keel/task:1": "",
             **{f"bad keel/task/full_{number}.cpp": "\n" for number in range(MAX_NAMES + 1)}}
    for kind in ("good ", "bad "):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            expected = set()
            for place, text in ((case.removeprefix(kind), text) for case, text in cases.items() if case.startswith(kind)):
                name, _, line = place.partition(":")
                if text:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
                if line:
                    expected.add(place)
            found = [":".join(violation.split(":")[:2]) for violation in violations(root)]
            wrong += [f"self-check: {place} breaks a rule and was not found" for place in expected - set(found)]
            wrong += [f"self-check: {place} was reported and should not be" for place in set(found) - expected]
            if len(found) != len(set(found)):
                wrong.append(f"self-check: something was reported twice: {sorted(found)}")
    return wrong


def library_rows():
    """Each row of a library in libs/ that allows more of keel/ than plain headers of core, as lines of text."""
    return [f"the row of {module} allows {other}; a library sees only core, core/files and itself"
            for module, others in MODULES.items() if module.startswith("libs/") for other in others.split()
            if other not in ("core", "core/files") and other.split("/")[:2] != module.split("/")[:2]]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    found = self_check() + library_rows() + violations(root)
    print_modules(root)
    print("\n".join(found))
    print(f"{len(found)} violations" if found else "no violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
