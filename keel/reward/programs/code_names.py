# What the judge knows of tests before it runs them, and whose the names in them are. It is read before code_judge.py.

import ast
import builtins
import itertools
import operator
import symtable

# Modules, and names out of them, that tests use without an import: the solutions that they were written for have one. A name that is
# both is the module's own where it is called.
MODULES = {name: name for name in (
    "array base64 bisect calendar cmath collections contextlib copy dataclasses datetime decimal enum fractions functools hashlib heapq "
    "inspect io itertools json math numpy operator os pandas pathlib pytest random re statistics string sys tempfile textwrap threading time "
    "types typing unittest uuid").split()}
MODULES |= {"np": "numpy", "pd": "pandas"}
LENDERS = {name: module for module, names in {
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
# Functions of Python's by which a text in a test reaches names that do not stand in it.
REACHING = {"__import__", "compile", "eval", "exec", "getattr", "globals", "locals", "vars"}

# What takes classes of exceptions, or of warnings, as its first argument.
CATCHING = {"assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex", "raises", "suppress", "warns"}


def global_names(table):
    """Names that a test reads and no function of its has as a local one."""
    names = {x.get_name() for x in table.get_symbols() if x.is_referenced() and (x.is_global() or table.get_type() == "module")}
    return names.union(*map(global_names, table.get_children()))


def bound_by(statement):
    """Names that a statement of a module binds there."""
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
    """Names that statements may read before they bind them: also those that both stand in one statement, as in `f = cache(f)`."""
    found, bound = set(), set()
    for statement in statements:
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        names |= {node.target.id for node in ast.walk(statement) if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}
        new = bound_by(statement)
        defined = new if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else set()  # read when it is called
        found |= names - bound - defined
        bound |= new
    return found


def caught_by(node):
    """Names that can only be of classes of exceptions, by their place in an `except` or a call."""
    places = []
    if isinstance(node, ast.ExceptHandler):
        places = [node.type]
    elif isinstance(node, ast.Call):
        function = getattr(node.func, "id", getattr(node.func, "attr", ""))
        last = getattr(node.args[-1], "id", "") if node.args else ""
        if function in CATCHING or function == "issubclass" and last.endswith(("Error", "Exception")):
            places = node.args[:1]
    return {part.id for place in places if place for part in ast.walk(place) if isinstance(part, ast.Name)}


class Rewritten(ast.NodeTransformer):
    """A test with `is` and `type(x)` as calls of the judge's, which knows what it cannot say."""

    def visit_Compare(self, node):
        self.generic_visit(node)
        operands = [node.left, *node.comparators]
        plain = [isinstance(op, (ast.Is, ast.IsNot)) and not any(isinstance(x, ast.Constant) for x in pair) for op, pair in zip(
            node.ops, zip(operands, operands[1:]))]
        if not any(plain):
            return node
        if len(plain) > 1:
            raise SyntaxError("it has `is` in a chain of comparisons")
        call = ast.Call(ast.Name("__is__", ast.Load()), operands, [])
        return call if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), call)

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1 and not node.keywords:
            return ast.Call(ast.Name("__type__", ast.Load()), [node.func, *node.args], [])  # `type` may be the test's own
        return node


class Test:
    """The code of a check; none for a call."""

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
            self.fault = f"not judgeable: the test is no Python: {error}"
        nodes = list(ast.walk(self.tree))
        self.reads = global_names(table)
        self.binds = {x.get_name() for x in table.get_symbols() if x.is_assigned() or x.is_imported()}
        self.borrows = self.reads & (read_before_bound(self.tree.body) | (self.reads - self.binds))
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
            self.fault = self.fault or "not judgeable: the test reads what the program prints, which is not seen"
        self.reaches = bool("call" in check or "entry" in check or "solution" in self.imports | self.texts or self.reads & REACHING)


class Scope(dict):
    """The names of the tests, which they share. One that no test has defined when it is read is Python's, also where the program has an
    `abs`; or a library's (LENDERS), which cannot be told where the program has one of its own; or the program's. The program's is also a
    name of Python's or of a library's where the tests, or the test, have no other that could be what they are about, as in `sum(1, 2)`."""

    def __init__(self, tests):
        super().__init__(__name__="check")
        self.called = set().union(*(test.calls for test in tests))
        self.modules = MODULES.keys() - self.called
        mine, self.borrowed, self.handed_on = set(), [], []  # by each test, and to it by earlier ones
        for test in tests:
            self.borrowed.append(test.borrows - mine)
            self.handed_on.append(test.reads & mine)
            mine |= test.binds - test.borrows
        imported = set().union(*(test.imported for test in tests))
        self.handed_on = [names - imported for names in self.handed_on]
        self.reached = list(itertools.accumulate((test.reaches for test in tests), operator.or_))  # by each test or an earlier one
        of_python, of_program = set(), set()
        for test, names in zip(tests, self.borrowed):
            of_python |= {name for name in names & test.calls if hasattr(builtins, name)}
            of_program |= {name for name in names if not hasattr(builtins, name) and name not in self.modules}
        alone = len(of_python) == 1 and not of_program and not any(test.reaches for test in tests)
        self.pythons = vars(builtins).keys() - (of_python if alone else set())
        self.bound = set()  # by tests that are over
        self.given = {}  # by the program, in the present test
        self.programs = set()  # names that it gave in any
        self.tested = set()  # names of a library's that the present test is about

    def enter(self, place, test):
        others = {name for name in self.borrowed[place] if not hasattr(builtins, name) and name not in self.modules}
        alone = len(others) == 1 and others <= LENDERS.keys() & test.calls and not self.handed_on[place] and not self.reached[place]
        self.tested = others if alone else set()

    def leave(self, test):
        """A test is over. A name that it took from the program and assigned to is the program's again in the next."""
        self.bound |= test.binds
        for name in self.given.keys() - test.defines:
            self.pop(name, None)
        self.given = {}

    def __missing__(self, name):
        if name in self.pythons or name.startswith("__"):
            raise KeyError(name)
        if name in self.modules:
            return PROGRAM.own_module(name, MODULES[name])
        if name in LENDERS and name not in self.tested:
            return getattr(PROGRAM.own_module(name, LENDERS[name]), name)
        if name in self.bound - self.programs:
            raise KeyError(name)
        if name not in self.given:
            found = PROGRAM.look(name)
            if not found:
                raise KeyError(name)
            self.given[name], PROGRAM.asked = found[0], True
            self.programs.add(name)
        return self.given[name]


class EntryScope(dict):
    """The names of an entry point: the program's, or else Python's."""

    def __missing__(self, name):
        found = [] if name.startswith("__") else PROGRAM.look(name)
        if not found:
            raise KeyError(name)
        return found[0]


