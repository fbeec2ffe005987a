# Static analysis of tests, and the resolution of their names. It runs before code_test_runner.py.

import ast
import builtins
import itertools
import operator
import symtable

# Modules, and names in them, that tests use without an import, because the reference solutions import them. A called name that is both
# is the name in the module.
MODULES = {name: name for name in (
    "array base64 bisect calendar cmath collections contextlib copy dataclasses datetime decimal enum fractions functools hashlib heapq "
    "inspect io itertools json math numpy operator os pandas pathlib pytest random re statistics string sys tempfile textwrap threading time "
    "types typing unittest uuid").split()}
MODULES |= {"np": "numpy", "pd": "pandas"}
MODULE_OF_NAME = {name: module for module, names in {
    "bisect": "bisect_left bisect_right insort", "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "contextlib": "redirect_stdout suppress", "copy": "copy deepcopy", "dataclasses": "dataclass", "datetime": "date datetime timedelta",
    "decimal": "Decimal", "enum": "Enum", "fractions": "Fraction", "functools": "cmp_to_key lru_cache partial reduce",
    "hashlib": "md5 sha1 sha256", "heapq": "heapify heappop heappush nlargest nsmallest", "io": "StringIO",
    "itertools": "accumulate chain combinations groupby islice permutations product zip_longest",
    "math": "ceil comb cos exp fabs factorial floor fsum gcd hypot inf isclose isfinite isinf isnan isqrt lcm log log10 log2 nan perm pi "
            "prod sin sqrt tan",
    "numpy.testing": "assert_allclose assert_almost_equal assert_array_equal assert_equal", "operator": "attrgetter itemgetter",
    "pytest": "approx raises", "random": "randint shuffle", "statistics": "mean median mode stdev",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits", "typing": "Any Callable Dict Iterable List Optional Set Tuple Union",
}.items() for name in names.split()}
# Python functions by which a test can reach names that it does not mention.
DYNAMIC_ACCESS = {"__import__", "compile", "eval", "exec", "getattr", "globals", "locals", "vars"}

# Functions whose first argument is an exception or warning class.
EXCEPTION_CONSUMERS = {"assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex", "raises", "suppress", "warns"}


def global_names(table):
    """Names that a test reads as globals."""
    names = {x.get_name() for x in table.get_symbols() if x.is_referenced() and (x.is_global() or table.get_type() == "module")}
    return names.union(*map(global_names, table.get_children()))


def bound_by(statement):
    """Names that a statement binds in its module."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return set()
    own = set()
    if isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store):
        own = {statement.id}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        own = {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ExceptHandler) and statement.name:
        own = {statement.name}
    return own.union(*map(bound_by, ast.iter_child_nodes(statement)))


def read_before_bound(statements):
    """Names that statements may read before they bind them, including in one statement such as `f = cache(f)`."""
    found, bound = set(), set()
    for statement in statements:
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        names |= {node.target.id for node in ast.walk(statement) if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}
        new = bound_by(statement)
        defined = new if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else set()  # read at the call
        found |= names - bound - defined
        bound |= new
    return found


def caught_by(node):
    """Names that must be exception classes, because they are used in an `except` or a call of EXCEPTION_CONSUMERS."""
    expressions = []
    if isinstance(node, ast.ExceptHandler):
        expressions = [node.type]
    elif isinstance(node, ast.Call):
        function = getattr(node.func, "id", getattr(node.func, "attr", ""))
        last = getattr(node.args[-1], "id", "") if node.args else ""
        if function in EXCEPTION_CONSUMERS or function == "issubclass" and last.endswith(("Error", "Exception")):
            expressions = node.args[:1]
    return {part.id for expression in expressions if expression for part in ast.walk(expression) if isinstance(part, ast.Name)}


class Rewritten(ast.NodeTransformer):
    """Replaces `is` and `type(x)` in a test by calls of the test runner, which rejects unsupported uses."""

    def visit_Compare(self, node):
        self.generic_visit(node)
        operands = [node.left, *node.comparators]
        plain = [isinstance(op, (ast.Is, ast.IsNot)) and not any(isinstance(x, ast.Constant) for x in pair) for op, pair in zip(
            node.ops, zip(operands, operands[1:]))]
        if not any(plain):
            return node
        if len(plain) > 1:
            raise SyntaxError("`is` in a chain of comparisons is not supported")
        call = ast.Call(ast.Name("__is__", ast.Load()), operands, [])
        return call if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), call)

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1 and not node.keywords:
            return ast.Call(ast.Name("__type__", ast.Load()), [node.func, *node.args], [])  # the test may define `type`
        return node


class Test:
    """The parsed code of a check; empty for a call."""

    def __init__(self, check):
        self.fault, self.entry = "", None
        text = check.get("code", "")
        try:
            self.tree, table = ast.parse(text), symtable.symtable(text, "test", "exec")
            self.code = compile(ast.fix_missing_locations(Rewritten().visit(ast.parse(text))), "test", "exec")
            if "entry" in check:
                self.entry = compile(check["entry"].strip(), "entry_point", "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.tree, table = ast.parse(""), symtable.symtable("", "", "exec")
            self.fault = f"not testable: the test is not valid Python: {error}"
        nodes = list(ast.walk(self.tree))
        self.reads = global_names(table)
        self.binds = {x.get_name() for x in table.get_symbols() if x.is_assigned() or x.is_imported()}
        self.reads_unbound = self.reads & (read_before_bound(self.tree.body) | (self.reads - self.binds))
        self.calls = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        self.catches = set().union(*map(caught_by, nodes))
        self.defines = {node.name for node in self.tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        self.asserts = any(isinstance(node, ast.Assert) or getattr(node, "attr", "").startswith("assert") for node in nodes)
        self.texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        self.imported = {name for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for name in bound_by(node)}
        self.imports = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        self.imports |= {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        if any("redirect_stdout" in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", "")) for node in nodes) or any(
                isinstance(node, ast.Attribute) and node.attr == "stdout" and isinstance(node.ctx, ast.Store) for node in nodes) or (
                "sys.stdout" in self.texts):
            self.fault = self.fault or "not testable: the test reads the output of the program, which is not captured"
        self.reaches = bool("call" in check or "entry" in check or "solution" in self.imports | self.texts or self.reads & DYNAMIC_ACCESS)


class Scope(dict):
    """The shared namespace of the tests. An undefined name is a Python builtin (even if the program has an `abs`), else a library name
    (MODULE_OF_NAME; an error if the program also defines it), else a name of the program. A builtin or library name is the program's if it is
    the only candidate for what the tests call, as in `sum(1, 2)`."""

    def __init__(self, tests):
        super().__init__(__name__="check")
        self.called = set().union(*(test.calls for test in tests))
        self.modules = MODULES.keys() - self.called
        bound, self.unbound, self.from_earlier_tests = set(), [], []  # per test: from outside, and from earlier tests
        for test in tests:
            self.unbound.append(test.reads_unbound - bound)
            self.from_earlier_tests.append(test.reads & bound)
            bound |= test.binds - test.reads_unbound
        imported = set().union(*(test.imported for test in tests))
        self.from_earlier_tests = [names - imported for names in self.from_earlier_tests]
        self.reached = list(itertools.accumulate((test.reaches for test in tests), operator.or_))  # by each test or an earlier one
        called_builtins, other_names = set(), set()
        for test, names in zip(tests, self.unbound):
            called_builtins |= {name for name in names & test.calls if hasattr(builtins, name)}
            other_names |= {name for name in names if not hasattr(builtins, name) and name not in self.modules}
        is_sole_candidate = len(called_builtins) == 1 and not other_names and not any(test.reaches for test in tests)
        self.builtin_names = vars(builtins).keys() - (called_builtins if is_sole_candidate else set())
        self.bound = set()  # by finished tests
        self.from_program = {}  # names and values that the current test got
        self.program_names = set()  # names from the program in any test
        self.tested = set()  # library names that the current test is about

    def enter(self, index, test):
        others = {name for name in self.unbound[index] if not hasattr(builtins, name) and name not in self.modules}
        is_sole_candidate = len(others) == 1 and others <= MODULE_OF_NAME.keys() & test.calls
        reads_others = self.from_earlier_tests[index] or self.reached[index]
        self.tested = others if is_sole_candidate and not reads_others else set()

    def leave(self, test):
        """Ends a test. Names of the program that it reassigned are the program's again in the next test."""
        self.bound |= test.binds
        for name in self.from_program.keys() - test.defines:
            self.pop(name, None)
        self.from_program = {}

    def __missing__(self, name):
        if name in self.builtin_names or name.startswith("__"):
            raise KeyError(name)
        if name in self.modules:
            return PROGRAM.own_module(name, MODULES[name])
        if name in MODULE_OF_NAME and name not in self.tested:
            return getattr(PROGRAM.own_module(name, MODULE_OF_NAME[name]), name)
        if name in self.bound - self.program_names:
            raise KeyError(name)
        if name not in self.from_program:
            found = PROGRAM.look_up(name)
            if not found:
                raise KeyError(name)
            self.from_program[name], PROGRAM.was_used = found[0], True
            self.program_names.add(name)
        return self.from_program[name]


class EntryScope(dict):
    """The namespace of an entry point: names of the program, else builtins."""

    def __missing__(self, name):
        found = [] if name.startswith("__") else PROGRAM.look_up(name)
        if not found:
            raise KeyError(name)
        return found[0]


