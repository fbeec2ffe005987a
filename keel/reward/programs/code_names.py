# What the judge knows of tests before it runs them, and whose the names in them are. It is read before code_judge.py.

import ast
import builtins
import symtable

# Modules, and names out of them, that tests use without an import: the solutions that they were written for have one. A name that is
# both is the module's own where it is called.
MODULES = {name: name for name in (
    "bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq", "io", "itertools", "json", "math",
    "numpy", "operator", "os", "pandas", "pytest", "random", "re", "statistics", "string", "sys", "time", "typing", "unittest")}
MODULES |= {"np": "numpy", "pd": "pandas"}
LENDERS = {name: module for module, names in {
    "collections": "Counter OrderedDict defaultdict deque namedtuple", "copy": "deepcopy",
    "datetime": "date datetime timedelta", "decimal": "Decimal", "fractions": "Fraction", "functools": "reduce",
    "math": "inf isclose isinf isnan nan pi", "typing": "Any Callable Dict Iterable List Optional Set Tuple Union"}.items()
    for name in names.split()}


def global_names(table):
    """Names that a test reads and no function of its has as a local one."""
    names = {x.get_name() for x in table.get_symbols() if x.is_referenced() and (x.is_global() or table.get_type() == "module")}
    return names.union(*map(global_names, table.get_children()))


class Test:
    """The code of a check; none for a call."""

    def __init__(self, check):
        self.fault = ""
        text = check.get("code", "") + (f"\ncheck({check['entry']})" if "entry" in check else "")
        try:
            self.tree, table = ast.parse(text), symtable.symtable(text, "test", "exec")
            self.code = compile(self.tree, "test", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.tree, table = ast.parse(""), symtable.symtable("", "", "exec")
            self.fault = f"not judgeable: the test is no Python: {error}"
        nodes = list(ast.walk(self.tree))
        self.reads = global_names(table)
        self.binds = {x.get_name() for x in table.get_symbols() if x.is_assigned() or x.is_imported()}
        self.calls = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        last = self.tree.body[-1:] if "entry" in check else []  # check(ENTRY)
        self.entries = {node.id for call in last for node in ast.walk(call) if isinstance(node, ast.Name)}
        self.defines = {node.name for node in self.tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        self.asserts = any(isinstance(node, ast.Assert) or getattr(node, "attr", "").startswith("assert") for node in nodes)
        self.names_program = "call" in check or any(
            "solution" in (getattr(node, "module", ""), getattr(node, "name", ""), getattr(node, "value", "")) for node in nodes)


class Scope(dict):
    """The names of the tests, which they share. One that no test has defined when it is read is Python's, also where the program has an
    `abs` or a `Counter`; or the program's, and so is a name of Python's where tests call nothing else and have no other way to the program,
    as in `sum(1, 2)`."""

    def __init__(self, tests):
        super().__init__(__name__="check")
        called, entries = (set().union(*(getattr(test, names) for test in tests)) for names in ("calls", "entries"))
        free, bound = set(), set()
        for test in tests:
            bound |= test.binds
            free |= test.reads - bound
        self.modules = MODULES.keys() - called - entries
        pythons = {name for name in free - entries if hasattr(builtins, name) or name in LENDERS}
        only = pythons & called
        alone = len(only) == 1 and not free - pythons - self.modules and not any(test.names_program for test in tests)
        self.pythons = {*vars(builtins), *LENDERS} - entries - (only if alone else set())
        self.bound = set()  # by tests that are over
        self.given = {}  # by the program, in the present test
        self.programs = set()  # names that it gave in any

    def leave(self, test):
        """A test is over. A name that it took from the program and assigned to is the program's again in the next."""
        self.bound |= test.binds
        for name in self.given.keys() - test.defines:
            self.pop(name, None)
        self.given = {}

    def __missing__(self, name):
        if name in self.modules:
            return __import__(MODULES[name])
        if name in self.pythons and name in LENDERS:
            return getattr(__import__(LENDERS[name]), name)
        if name in self.pythons or name.startswith("__") or name in self.bound - self.programs:
            raise KeyError(name)
        if name not in self.given:
            found = PROGRAM.look(name)
            if not found:
                raise KeyError(name)
            self.given[name], PROGRAM.asked = found[0], True
            self.programs.add(name)
        return self.given[name]


