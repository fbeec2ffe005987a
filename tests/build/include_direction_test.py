"""Who may include whom, and the other rules of the house that a machine can read off the sources.

Prints each violation as FILE:LINE: what is wrong. Run with a folder to check another tree than this repository.
"""

import pathlib
import re
import sys
import tempfile

MAX_LINES = 500
CODE = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake"}
WITH_OPENMP = {"keel/model/for_rows.h", "keel/model/large_pages.cpp", "keel/model/layer_ops.cpp",
               "keel/model/next_token.cpp", "keel/rollout/sampler.cpp"}
READS_JSON = {"keel/core/json_reader.cpp"}
HEADERS = {".h", ".cuh"}

# A room of keel/ and the rooms it may include besides itself.
_MODEL = {"core", "text", "kernels"}
_REWARD = _MODEL | {"data"}
_TASK = _REWARD | {"reward"}
_TRAIN = _TASK | {"objective", "record", "task", "model", "rollout"}
ROOMS = {
    "core": set(),
    "kernels": set(),  # and keel/core/philox.h
    "text": {"core"},
    "objective": {"core"},
    "record": {"core", "text", "objective"},
    "data": _MODEL,
    "model": _MODEL,
    "reward": _REWARD,
    "task": _TASK,
    "rollout": _MODEL | {"data", "model"},
    "train": _TRAIN,
    "study": _TRAIN | {"train"},
}
OUTER = ("cli", "python", "bench", "sandbox")  # may include every room; no room may include them

FORBIDDEN_HEADERS = {
    r"torch/torch\.h": "costs 17 s per file; include the ATen or torch header that is meant",
    r"regex": "std::regex crashes and hangs on long input",
    r"(fmt|spdlog)/.*": "the torch package puts another fmt on the include path",
}


def check_include(path, room, angle, target):
    """The reason why `path` (relative, in keel/<room> or an outer folder if room is None) may not include, or None."""
    if angle:
        for pattern, reason in FORBIDDEN_HEADERS.items():
            if re.fullmatch(pattern, target):
                return f"<{target}>: {reason}"
        if room == "kernels" and re.match(r"(torch|ATen|c10)/", target):
            return f"<{target}>: kernels are compiled without LibTorch"
        return None
    if path.as_posix() == "keel/core/philox.h":
        return f'"{target}": philox.h has no includes of its own'
    parts = target.split("/")
    if room is None:
        known = parts[0] in ("keel",) + OUTER or target == "keel_commit.h"
        return None if known else f'"{target}": include by the full path from the repository root'
    if parts[0] != "keel" or len(parts) < 3:
        return f'"{target}": the library includes by full path, "keel/ROOM/FILE.h", and nothing outside keel/'
    allowed = ROOMS[room] | {room}
    if parts[1] in allowed or (room == "kernels" and target == "keel/core/philox.h"):
        return None
    return f'"{target}": {room} may include only {", ".join(sorted(allowed))}'


def check_file(path, text):
    """Yields (line number, what is wrong) for one file; `path` is relative to the repository root."""
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield MAX_LINES + 1, f"{len(lines)} lines; a file has at most {MAX_LINES}"
    if path.parts[0] not in ("keel",) + OUTER or path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
        return
    room = path.parts[1] if path.parts[0] == "keel" and len(path.parts) > 2 else None
    if path.parts[0] == "keel" and room not in ROOMS:
        yield 1, f"is in no room of keel/ that has a row in the table of {pathlib.Path(__file__).name}"
        return
    if path.suffix in HEADERS and not any(line.strip() == "#pragma once" for line in lines):
        yield 1, "a header starts with #pragma once"
    for number, line in enumerate(lines, 1):
        include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if include:
            reason = check_include(path, room, include[1] == "<", include[2])
            if reason:
                yield number, reason
        code = line.split("//")[0]
        if re.search(r"\b(remove_all|(recursive_)?directory_iterator)\b", code):
            yield number, "torch packages export broken ones; use remove_tree and list_directory of keel/core/file.h"
        if re.search(r"\bstd\s*::\s*(w?c?s?regex|regex_\w+)\b", code):
            yield number, "std::regex crashes and hangs on long input"
        if re.search(r"\bat\s*::\s*parallel_for\b|keel/model/for_rows\.h", code) and path.as_posix() not in WITH_OPENMP:
            yield number, "a plain loop without OpenMP: name the file in CMakeLists.txt and in WITH_OPENMP here"
        raw_parser = r"(\b[Jj]son|_json|basic_json<.*>)\s*::\s*(parse|accept|sax_parse|from_\w+)\s*\("
        if re.search(raw_parser, code) and path.as_posix() not in READS_JSON:
            yield number, "JSON from outside can be nested deep; read it with keel/core/json_reader.h"
        if path.suffix in HEADERS and re.search(r"\busing\s+namespace\b", code):
            yield number, "no `using namespace` in a header"


def violations(root):
    """Every violation below `root`, as lines of text."""
    found = []
    for top in ("keel", "tests", "scripts", "cmake") + OUTER:
        for file in sorted((root / top).rglob("*")):
            path = file.relative_to(root)
            if file.is_file() and file.suffix in CODE:
                for number, what in check_file(path, file.read_text(encoding="utf-8")):
                    found.append(f"{path}:{number}: {what}")
    return found


GOOD = {
    "keel/core/philox.h": "#pragma once\n",
    "keel/core/json_reader.cpp": "Json::sax_parse(text, &listener);\n",
    "keel/reward/reply.cpp": "Json reply = parse_json(text);  // Json::parse(text) would not do\n",
    "keel/core/tensor.h": "#pragma once\n#include <ATen/core/Tensor.h>\n",
    "keel/kernels/cuda/sample.cu": '#include "keel/core/philox.h"\n#include "keel/kernels/cuda/sample.h"\n',
    "keel/record/report.cpp": '#include <vector>\n#include "keel/objective/methods.h"\n#include "keel/record/report.h"\n',
    "keel/train/trainer.cpp": '#include "keel/rollout/engine.h"\n#include "keel/task/tasks.h"\n',
    "keel/text/long.cpp": "// std::regex is not used here, and a comment may say so\n" + "\n" * 499,
    "keel/text/words.cpp": "using namespace std::string_literals;\n",
    "cli/main.cpp": '#include "keel/study/study.h"\n#include "keel_commit.h"\n#include "cli/commands.h"\n',
}

# One file each that breaks one rule, and the line where.
BAD = {
    "keel/core/a.h": ('#pragma once\n#include "keel/text/tokenizer.h"\n', 2),
    "keel/core/b.h": ("namespace keel {}\n", 1),
    "keel/core/c.h": ("#pragma once\n\nusing namespace keel;\n", 3),
    "keel/core/philox.h": ('#pragma once\n#include "keel/core/random.h"\n', 2),
    "keel/kernels/cpu/d.cpp": ('#include "keel/core/error.h"\n', 1),
    "keel/kernels/cuda/e.cu": ("#include <vector>\n#include <ATen/ATen.h>\n", 2),
    "keel/objective/f.cpp": ('#include "keel/model/causal_lm.h"\n', 1),
    "keel/rollout/g.cpp": ('#include "keel/objective/methods.h"\n', 1),
    "keel/model/h.cpp": ('#include "keel/data/prompt_stream.h"\n', 1),
    "keel/reward/i.cpp": ('#include "keel/task/tasks.h"\n', 1),
    "keel/train/j.cpp": ('#include "keel/study/study.h"\n', 1),
    "keel/train/k.cpp": ('#  include "cli/commands.h"\n', 1),
    "keel/train/l.cpp": ('#include "trainer.h"\n', 1),
    "keel/train/m.cpp": ("#include <torch/torch.h>\n", 1),
    "keel/text/n.cpp": ("bool f(const char* s) {\n  return std::regex_search(s, std::regex(s));\n}\n", 2),
    "keel/text/o.cpp": ("#include <regex>\n", 1),
    "keel/model/v.cpp": ("at::parallel_for(0, rows, 1, body);\n", 1),
    "keel/model/x.cpp": ('#include "keel/model/for_rows.h"\n', 1),
    "keel/train/w.cpp": ("auto n = std::filesystem::remove_all(path);\n", 1),
    "keel/reward/x.cpp": ("\nconst Json reply = Json::parse(text, nullptr, false);\n", 2),
    "cli/y.cpp": ("nlohmann::ordered_json::sax_parse(text, &reader);\n", 1),
    "python/z.cpp": ("auto tree = nlohmann::json::from_cbor(bytes);\n", 1),
    "keel/text/p.cpp": ("\n" * 501, 501),
    "keel/attic/q.cpp": ("\n", 1),
    "keel/r.cpp": ("\n", 1),
    "bench/s.cpp": ("#include <torch/torch.h>\n", 1),
    "cli/t.cpp": ('#include "commands.h"\n', 1),
    "tests/core/u_test.cpp": ("\n" * 501, 501),
}


def self_check():
    """Sees that the checks find every planted violation, each once and at its line, and none in clean files."""
    wrong = []
    for files, is_bad in ((GOOD, False), (BAD, True)):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            expected = set()
            for name, content in files.items():
                text, line = content if is_bad else (content, None)
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
                if is_bad:
                    expected.add(f"{name}:{line}")
            found = [":".join(violation.split(":")[:2]) for violation in violations(root)]
            wrong += [f"self-check: {place} breaks a rule and was not found" for place in expected - set(found)]
            wrong += [f"self-check: {place} was reported and should not be" for place in set(found) - expected]
            if len(found) != len(set(found)):
                wrong.append(f"self-check: something was reported twice: {sorted(found)}")
    return wrong


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    found = self_check() + violations(root)
    print("\n".join(found))
    print(f"{len(found)} violations of the rules of the house" if found else "the house is in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
