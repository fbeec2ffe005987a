# Proxies for the program's objects, and safe replacements of builtins and library functions. It runs before code_test_runner.py.

import ast
import builtins
import functools
import importlib.machinery
import itertools
import operator
import sys


class CheckEnded(BaseException):
    """Ends the check, even if the test catches Exception."""


class ObjectOfTheProgram:
    """A proxy for a program's object that is not a plain value. It forwards operations to the program, except comparisons, which use the
    plain base value here. It never sends values of the test as operands, which may be expected values."""

    __slots__ = ("_number", "_name", "_maker")  # the name by which the test got it, or of the function that made it

    def __init__(self, number):
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_name", "")
        object.__setattr__(self, "_maker", "")

    def __call__(self, *positional, **named):
        made = PROGRAM.request("call", self, *positional, **named)
        if type(made) is Remote:
            object.__setattr__(made, "_maker", object.__getattribute__(self, "_name"))
        return made

    def __getattribute__(self, name):
        if name.startswith("__") and name.endswith("__") and name not in FORWARDED:
            if name.startswith("__array"):  # NumPy would let the program compute
                raise AttributeError(name)
            PROGRAM.reject_query(self, name)  # isinstance reads __class__, too
        return PROGRAM.request("get", self, name)

    def __setattr__(self, name, value):
        PROGRAM.request("set", self, name, value)

    def __delattr__(self, name):
        PROGRAM.request("delete", self, name)

    def __contains__(self, x):
        kind, value = PROGRAM.plain(self)
        if kind == "value":
            return x in value
        try:
            items = iter(self)
        except TypeError:
            PROGRAM.end_check("fail", "not testable: a test asks an object of the program's class " + value + " whether it contains a value")
        return any(x is item or x == item for item in items)

    def __instancecheck__(self, x):
        return type(x) is Remote and PROGRAM.request("isinstance", x, self)

    def __subclasscheck__(self, x):
        return type(x) is Remote and PROGRAM.request("issubclass", x, self)

    def __hash__(self):
        return hash(plain_of(self))

    def __enter__(self):
        return PROGRAM.request("get", self, "__enter__")()

    def __exit__(self, kind, error, trace):
        if kind is None:
            PROGRAM.request("get", self, "__exit__")(None, None, None)
        elif not issubclass(kind, (AssertionError, CheckEnded)):  # the program must not suppress these
            PROGRAM.end_check("fail", f"not testable: {kind.__name__} is raised in a `with` of the program")

    def __reduce_ex__(self, protocol):
        PROGRAM.reject_query(self, "a copy")


Remote = ObjectOfTheProgram  # Python's messages show the long name
OPERATORS = ("len", "iter", "next", "reversed", "bool", "str", "repr", "format", "int", "float", "complex", "index", "neg", "pos", "abs",
             "invert", "round", "getitem", "setitem", "delitem")
FORWARDED = {f"__{name}__" for name in (*OPERATORS, "array", "annotations", "call", "dict", "doc", "enter", "exit", "init", "module", "name",
                                        "qualname", "type_params")}


def plain_of(x):
    """The plain value for a comparison."""
    if type(x) is not Remote:
        return x
    kind, value = PROGRAM.plain(x)
    if kind != "value":
        PROGRAM.end_check("fail", f"not testable: a test compares an object of the program's class {value}, which only the program can do")
    return value


def add_operators():
    def alone(name):
        return lambda self, *rest: PROGRAM.request(name, self, *rest)

    def compared(function):
        return lambda self, other: function(plain_of(self), plain_of(other))

    def combined(name, function):
        return lambda self, other: PROGRAM.request(name, self, other) if type(other) is Remote else function(plain_of(self), other)

    for name in OPERATORS:
        setattr(Remote, f"__{name}__", alone(name))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Remote, f"__{name}__", compared(getattr(operator, name)))
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"):
        function, word = getattr(operator, name), name.rstrip("_")
        setattr(Remote, f"__{word}__", combined(name, function))
        setattr(Remote, f"__r{word}__", lambda self, other, function=function: function(other, plain_of(self)))


def identical(a, b):
    """Evaluates a is b. Works for containers, which keep their identity; other values and objects of the program are rejected."""
    if type(a) is Remote and type(b) is Remote:
        # Called names, and instances of classes (capitalised names), are objects in every program.
        names, makers = ({object.__getattribute__(x, slot) for x in (a, b)} for slot in ("_name", "_maker"))
        of_test = names & PROGRAM.names_called or any(maker[:1].isupper() for maker in makers)
        PROGRAM.end_check("cannot" if of_test else "fail",
                        "not testable: the test asks whether two of the program's objects are identical")
    if a is b or type(a) is not type(b) or type(a) not in (*SCALARS, tuple, frozenset, range) or a == a != b:
        return a is b
    PROGRAM.end_check("fail", f"not testable: the test asks whether two equal values of the type {type(a).__name__} are identical")


def class_of(function, *x):
    """Evaluates type(x); `function` is what the test calls `type`."""
    return PROGRAM.reject_query(x[0], "its class") if function is type and type(x[0]) is Remote else function(*x)


def is_arithmetic(source):
    kinds = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.List, ast.Tuple, ast.Set, ast.Dict,
             ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
    try:
        tree = source if isinstance(source, ast.AST) else ast.parse(source.strip(), mode="eval")
        return all(isinstance(node, kinds) for node in ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def as_text(source):
    """Converts bytes to text, since Python can execute both."""
    try:
        return memoryview(source).tobytes().decode()
    except TypeError:
        return source


def is_own(source):
    """Whether the source is a whole string of the tests, or from before the first reply of the program. A part of a string is not
    enough, because a word of a message may name the expected value."""
    source = as_text(source)
    return not PROGRAM.has_returned_value or isinstance(source, str) and source.strip() in PROGRAM.texts


def require_own(source, do):
    """Rejects source code that the program may have written."""
    if is_own(source) or do == "eval" and is_arithmetic(source):
        return
    PROGRAM.end_check("fail" if do == "eval" else "cannot", f"not testable: the test passes a text to {do} that the program may have written")


class Locals(dict):
    """The local names of a function, with the names of the tests as a fallback for eval."""

    def __init__(self, names, scope):
        super().__init__(names)
        self.scope = scope

    def __missing__(self, name):
        return self.scope[name]


def running(function):
    """Wraps eval or exec with a check of the source."""
    def run(source, globals=None, locals=None, /):
        source = as_text(source)
        if isinstance(source, str):
            require_own(source, function.__name__)
        caller = sys._getframe(1)
        if globals is None:
            globals, locals = caller.f_globals, caller.f_locals if locals is None else locals
            locals = locals if locals is globals else Locals(locals, globals)
        return function(source, globals, locals)
    return run


def compiled(source, filename, mode, *rest, **named):
    source = as_text(source)
    if isinstance(source, (str, ast.AST)):
        require_own(source, "eval" if mode == "eval" else "compile")
    return compile(source, filename, mode, *rest, **named)


# The builtins of tests.
BUILTINS = {**vars(builtins), "__is__": identical, "__type__": class_of, "eval": running(eval), "exec": running(exec), "compile": compiled,
            "callable": lambda x: PROGRAM.request("callable", x) if type(x) is Remote else callable(x),
            "id": lambda x: PROGRAM.reject_query(x, "its identity") if type(x) is Remote else id(x)}


LIBRARIES = tuple(sys.path)
# Modules that compile only their own code; `ast` only parses, and so does Python to print the exception of a thread.
TRUSTED = ("__main__", "ast", "collections", "dataclasses", "threading", "unittest.mock")


def is_of_library(frame, filename):
    """Whether the code compiled in a frame belongs to a library: a trusted module, an import, or within an import."""
    module = frame.f_globals.get("__name__", "")
    if module.startswith("importlib._bootstrap") and isinstance(filename, str):
        return filename.startswith(LIBRARIES)
    while frame and not (importing := frame.f_globals.get("__name__", "").startswith("importlib._bootstrap")):
        frame = frame.f_back
    return module in TRUSTED or importing


def is_timing(frame, source):
    """Whether timeit.timeit(function) compiles its fixed template."""
    template = frame.f_globals.get("template", "") if frame.f_globals.get("__name__") == "timeit" else ""
    return source in (b"pass", template.format(stmt="_stmt()", setup="pass", init=", _stmt=_stmt").encode())


def watch(event, arguments):
    """Audit hook (sys.addaudithook) that rejects code created in other ways, such as by unpickling."""
    if not PROGRAM.has_returned_value:
        return
    if event == "pickle.find_class":
        PROGRAM.end_check("cannot", "not testable: the test unpickles data that the program may have written")
    if event in ("compile", "marshal.loads", "code.__new__"):
        source, *rest = arguments
        frame = sys._getframe(1)
        if not (is_of_library(frame, *rest[:1] or [None]) or event == "compile" and (is_own(source) or is_timing(frame, source))):
            PROGRAM.end_check("cannot", "not testable: the test runs a text that the program may have written")


# NumPy broadcasts empty arrays, and all() of nothing is true, so `[]` would be close to every number. These functions compare so; others
# call them or check shapes first.
COMPARING = {
    "numpy": "allclose array_equiv isclose",
    "numpy.ma.core": "allclose allequal",
    "numpy.ma.testutils": "almost approx assert_array_almost_equal assert_array_approx_equal assert_array_equal assert_array_less",
    "numpy.testing": "assert_allclose assert_array_almost_equal assert_array_almost_equal_nulp assert_array_equal assert_array_less "
                     "assert_array_max_ulp"}


def strict(function):
    """Wraps a NumPy comparison so that an empty value equals only an empty value."""
    import inspect
    import numpy
    signature = inspect.signature(function)

    @functools.wraps(function)
    def compare(*positional, **named):
        call = signature.bind(*positional, **named)
        operands = {name: plain_of(x) for name, x in itertools.islice(call.arguments.items(), 2)}
        # Converts to arrays once, because an object in a list could change its length. Scalars stay scalars to keep their precision.
        operands = {name: x if type(x) in SCALARS else numpy.asanyarray(x) for name, x in operands.items()}
        sizes = [numpy.size(x) for x in operands.values()]
        if 0 in sizes and any(sizes):
            if function.__name__.startswith("assert"):
                raise AssertionError("an empty value is compared with a non-empty one")
            return numpy.False_
        call.arguments.update(operands)
        return function(*call.args, **call.kwargs)
    return compare


def make_approx_strict(pytest):
    """Makes pytest.approx reject empty arrays."""
    scalar = type(pytest.approx(0.0))
    base = next(kind for kind in scalar.__mro__[1:] if "__eq__" in vars(kind))  # arrays compare by it
    equal, equal_parts = scalar.__eq__, base.__eq__

    def is_empty(x):
        return getattr(x, "size", 1) == 0

    scalar.__eq__ = lambda self, x: not is_empty(plain_of(x)) and equal(self, plain_of(x))
    base.__eq__ = lambda self, x: (not is_empty(self.expected) or is_empty(x)) and equal_parts(self, x)


def make_assertions_strict(case):
    """Makes unittest use identical(), and assertSetEqual not pass expected values to the program."""
    test, equal = case.TestCase, case.TestCase.assertSetEqual
    test.assertIs = lambda self, a, b, msg=None: self.assertTrue(identical(a, b), msg)
    test.assertIsNot = lambda self, a, b, msg=None: self.assertFalse(identical(a, b), msg)
    test.assertSetEqual = lambda self, a, b, msg=None: equal(self, plain_of(a), plain_of(b), msg)


OTHERS = {"pytest": make_approx_strict, "unittest.case": make_assertions_strict}


def make_strict(module):
    if module.__name__ in OTHERS:
        return OTHERS[module.__name__](module)
    for name in vars(module).keys() & COMPARING[module.__name__].split():  # versions differ
        function = getattr(module, name)
        wrapped = strict(function)
        setattr(module, name, wrapped)
        if module.__name__ == "numpy.testing":  # for assert_equal and others in the defining module
            function.__globals__[name] = wrapped


class StrictLibraries:
    """Import hook (sys.meta_path) that makes the comparisons of a library strict when it is imported."""

    def find_spec(self, name, path=None, target=None):
        if name not in OTHERS and name not in COMPARING:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), make_strict(module))
        return spec
