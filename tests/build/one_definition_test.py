"""No type (class, struct, union, enum) of namespace keel is defined in two files, except in unnamed namespaces: the linker would
silently merge functions of both. Prints each violation as FILE:LINE: problem. Run with a folder to check another tree than this
repository."""

import pathlib
import re
import sys
import tempfile

FOLDERS = ("keel", "libs", "cli", "python", "tests", "bench", "fuzz")  # folders that are linked with the library; the sandbox is not
# Comments, texts and directives may contain braces; their replacement has as many lines.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
                      r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:]*)\s*$")
TYPE = re.compile(r"\b(?:class|struct|union|enum)\s+(?:alignas\s*\([^)]*\)\s*)?([A-Za-z_][\w:]*?)\s*(?:\bfinal\s*)?(?::(?!:).*)?$", re.DOTALL)


def types_of(text):
    """The types that a source defines outside of unnamed namespaces, with their namespaces and lines."""
    code = NOT_CODE.sub(lambda found: " " + "\n" * found.group().count("\n"), text)
    scopes, begin = [], 0  # enclosing namespaces; None for an unnamed one and for every other brace
    for brace in re.finditer(r"[{};]", code):
        before, begin = code[begin:brace.start()].rstrip(), brace.end()
        if brace.group() == "}" and scopes:
            scopes.pop()
        if brace.group() != "{":
            continue
        namespace, kind = NAMESPACE.search(before), TYPE.search(before)
        if kind and None not in scopes:
            yield "::".join([*scopes, kind.group(1)]), code.count("\n", 0, brace.start()) + 1
        scopes.append(namespace.group(1) or None if namespace else None)


def violations(root):
    """(file, line, problem) for every type that an earlier file also defines."""
    places = {}
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in {".h", ".cuh", ".cpp", ".cu"})
    for path in paths:
        name = path.relative_to(root).as_posix()
        for kind, line in types_of(path.read_text()):
            first, first_line = places.setdefault(kind, (name, line))
            if first != name and kind.startswith("keel::"):
                yield name, line, f"{kind} is defined in {first}:{first_line}, too; give one another name, or an unnamed namespace"


GOOD = {
    "keel/a.h": "namespace keel {\nclass Other;\nstruct Own { struct Part {}; };\nenum class Word : int { kOne };\n}\n",
    "keel/b.cpp": 'namespace keel {\nnamespace {\nstruct Own {};\n}\n/* struct Word { */ const char* t = "struct Word {";  // struct Word {\n'
                  "char c = '{';\n#define M struct Own {\nclass Other { enum Word { kOne }; };\nvoid f(Own& own) { struct Own {}; }\n}\n",
    "keel/c.cpp": "namespace keel::cli {\nstruct Own {};\nOwn make() { return Own{}; }\nint n = 1'000;\nstruct Own::Part {};\n}\n",
    "keel/d.cpp": "namespace keel {\nconst char* t = R\"x({ )\" struct Own { )x\";\ntemplate <>\nstruct Own<int> {};\nstruct Own own{1};\n}\n",
}
BAD = {
    "keel/a.h": "namespace keel {\nstruct Own {};\nenum class Word : int { kOne };\ntemplate <class T>\nclass Held final : public Own {};\n}\n",
    "keel/b.cpp": "namespace keel {\nnamespace { int n = 0; }\nstruct Own {};\n}\nnamespace keel {\nenum Word { kTwo };\nstruct\nHeld {};\n}\n",
}


def self_check():
    """Tests that the check finds every planted violation at its line, and none in clean files."""
    found = []
    for files in (GOOD, BAD):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (pathlib.Path(folder) / name).parent.mkdir(exist_ok=True)
                (pathlib.Path(folder) / name).write_text(text)
            found.append([(name, line, what.split()[0]) for name, line, what in violations(pathlib.Path(folder))])
    return found == [[], [("keel/b.cpp", 3, "keel::Own"), ("keel/b.cpp", 6, "keel::Word"), ("keel/b.cpp", 8, "keel::Held")]] or print(found)


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]
    found = list(violations(root))
    for name, line, what in found:
        print(f"{name}:{line}: {what}")
    return 1 if found or not self_check() else 0


sys.exit(main())
