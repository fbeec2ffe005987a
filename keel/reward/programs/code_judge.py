# The judge: runs the tests, with the program's names as stand-ins. A call goes to the program's process and a value comes back, which
# is rebuilt here as a plain one; what is compared is compared here. Its first line of input is {"checks": [...]}; it prints
#   ask MESSAGE      for the program; the next line of input is its answer behind "=" or, behind "!", why there will be none
#   pass, fail WHY, cannot WHY      about the next check: passed; not passed; the test itself is at fault
#   done

import ast
import builtins
import functools
import math
import operator
import threading
import types

# Modules, and names out of them, that tests use without an import: the solutions that they were written for have one.
MODULES = {name: name for name in (
    "bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq", "io", "itertools", "json", "math",
    "numpy", "operator", "os", "pandas", "random", "re", "statistics", "string", "sys", "time", "typing")} | {"np": "numpy", "pd": "pandas"}
LENDERS = {name: module for module, names in {
    "collections": "Counter OrderedDict defaultdict deque namedtuple", "copy": "deepcopy", "decimal": "Decimal", "fractions": "Fraction",
    "functools": "reduce", "math": "isclose", "typing": "Any Callable Dict Iterable List Optional Set Tuple Union"}.items()
    for name in names.split()}


class Broken(BaseException):
    """The check is beyond saving, whatever it catches."""


class Remote:
    """An object of the program's that is no plain value. What is asked of it is asked there, but for comparisons: it is compared here, by
    the plain value that it derives from, or not at all. Nor is a value of the test's an operand there: it may be what is expected."""

    __slots__ = ("_number",)

    def __init__(self, number):
        object.__setattr__(self, "_number", number)

    def __call__(self, *positional, **named):
        return PROGRAM.ask("call", self, *positional, **named)

    def __getattr__(self, name):
        return PROGRAM.ask("get", self, name)

    def __setattr__(self, name, value):
        PROGRAM.ask("set", self, name, value)

    def __delattr__(self, name):
        PROGRAM.ask("delete", self, name)

    def __contains__(self, x):
        return any(x is item or x == item for item in self)

    def __instancecheck__(self, x):
        return isinstance(x, Remote) and PROGRAM.ask("isinstance", x, self)

    def __hash__(self):
        return hash(plain_of(self))


def plain_of(x):
    """The value that a comparison takes."""
    if not isinstance(x, Remote):
        return x
    kind, value = PROGRAM.ask("plain", x)
    if kind != "value":
        PROGRAM.give_up("fail", f"not judgeable: a test compares an object of the program's class {value}, which only the program could do")
    return value


def add_operators():
    def alone(name):
        return lambda self, *rest: PROGRAM.ask(name, self, *rest)

    def compared(function):
        return lambda self, other: function(plain_of(self), plain_of(other))

    def combined(name, function):
        return lambda self, other: PROGRAM.ask(name, self, other) if isinstance(other, Remote) else function(plain_of(self), other)

    for name in ("len", "iter", "next", "bool", "str", "repr", "int", "float", "complex", "index", "neg", "pos", "abs", "invert", "round",
                 "getitem", "setitem", "delitem"):
        setattr(Remote, f"__{name}__", alone(name))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Remote, f"__{name}__", compared(getattr(operator, name)))
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"):
        function, word = getattr(operator, name), name.rstrip("_")
        setattr(Remote, f"__{word}__", combined(name, function))
        setattr(Remote, f"__r{word}__", lambda self, other, function=function: function(other, plain_of(self)))


def error_class(name, base):
    """For one of the program's classes of exceptions. What was raised there says the same here, and has the same attributes."""
    def said(self):
        return self.__dict__["said"] if "said" in self.__dict__ else base.__str__(self)

    def attribute(self, name):
        if "original" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["original"], name)

    return type(name, (base,), {"__str__": said, "__getattr__": attribute})


class Program:
    """The program under test, in its own process."""

    def __init__(self, channel):
        self.channel, self.functions, self.errors, self.lock = channel, [], {}, threading.RLock()
        self.gone = ""  # why it answers no more
        self.broken = ()  # the verdict on the present check, and why, where that does not hang on how it ends

    def ask(self, do, *positional, **named):
        with self.lock:
            writer = Writer(self.write_other)
            message = {"do": do, "with": [writer(x) for x in positional], "named": {k: writer(v) for k, v in named.items()}}
            reply = self.converse(os.urandom(8).hex(), message)
            reader = Reader(self.read_other, writer.containers)
            try:
                for place, contents in reply["left"].items():
                    reader.fill(writer.containers[int(place)], contents)
                if "raises" not in reply:
                    return reader(reply["gives"])
                error = self.error(reply["raises"], reader)
            except Exception as trouble:
                self.end(f"answered what is no answer ({type(trouble).__name__})")
        if isinstance(error, (StopIteration, StopAsyncIteration)) and do != "next":  # it would end a loop of the test's early
            error = RuntimeError(f"the program raised {type(error).__name__}")
        raise error

    def converse(self, key, message):
        """The answer to a message; before it comes, the program may call functions that the test handed to it."""
        while True:
            if self.gone:
                self.end(self.gone)
            self.channel.write("ask " + json.dumps({"id": key, **message}))
            line = self.channel.read()
            if line[:1] != b"=":
                self.end(line[1:].decode(errors="replace").strip())
            try:
                reply = json.loads(line[1:])
                timely = reply["id"] == key
                if timely and "calls" not in reply:
                    return reply
                function, reader = self.functions[reply["calls"]] if timely else None, Reader(self.read_other)
                positional = [reader(x) for x in reply.get("with", ())]
                named = {k: reader(v) for k, v in reply.get("named", {}).items()}
            except Exception as trouble:
                self.end(f"answered what is no answer ({type(trouble).__name__})")
            if not timely:
                self.end("answered before it was asked")
            message = self.called(function, positional, named)

    def called(self, function, positional, named):
        try:
            return {"gives": Writer(self.write_other)(function(*positional, **named))}
        except Exception as error:
            return {"raises": f"{type(error).__name__}: {error}"}

    def end(self, why):
        self.gone = why
        self.give_up("fail", why)

    def give_up(self, verdict, why):
        self.broken = (verdict, why)
        raise Broken(why)

    def write_other(self, x, writer):
        if isinstance(x, Remote):
            return {"object": object.__getattribute__(x, "_number")}
        if not isinstance(x, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)):
            self.give_up("cannot", f"not judgeable: the test hands the program an object of the class {type(x).__name__}; only plain values "
                                   "and functions can be handed over")
        self.functions.append(x)
        return {"function": len(self.functions) - 1}

    def read_other(self, key, held, reader):
        if key == "object":
            return Remote(int(held))
        if key != "error":
            raise ValueError(key)
        own, base = held
        kind = getattr(builtins, base)
        if not issubclass(kind, Exception):  # SystemExit, say, which ends a program and not a test
            kind = RuntimeError
        for number, name in reversed(own):
            kind = self.errors.setdefault(number, error_class(name, kind))
        return kind

    def error(self, raised, reader):
        arguments = [reader(x) for x in raised["arguments"]]
        try:
            error = reader(raised["class"])(*arguments)
        except TypeError:
            error = RuntimeError(*arguments)
        error.__dict__.update(said=str(raised["text"]), original=Remote(int(raised["object"])))
        return error

    def look(self, name):
        """What the program calls so, in a list; nothing where there is no such name. Well-known modules are those of the judge."""
        kind, module, value = self.ask("look", name)
        if kind == "module" and module in MODULES.values():
            return [__import__(module)]
        return [] if kind == "absent" else [value]

    def attribute(self, name):
        """from solution import NAME"""
        found = [] if name.startswith("__") else self.look(name)
        if not found:
            raise AttributeError(name)
        return found[0]


def names_in(tree):
    """Names that are read, that are called, that are defined for good, and that are assigned to."""
    used, called, defined, assigned = set(), set(), set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else assigned).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).split(".")[0])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
    return used, called, defined, assigned


class Names:
    """The names in tests that neither a test nor one before it defines. Python's stay Python's: a program that has an `abs` or a `Counter`
    changes nothing in a test that uses them. The rest are the program's, and so is a name of Python's where tests call nothing else, as in
    `sum(1, 2)`."""

    def __init__(self, trees, entries):
        self.free, own, every_call = [], set(), set()  # free: of each test
        for tree in trees:
            used, called, defined, assigned = names_in(tree)
            own |= defined | (assigned - called)
            every_call |= called
            self.free.append(used - own)
        free = set().union(*self.free)
        self.modules = {name: MODULES[name] for name in free - every_call - entries if name in MODULES}
        pythons = {name for name in free - entries if hasattr(builtins, name) or name in LENDERS}
        self.programs = free - pythons - self.modules.keys()
        if not self.programs and len(pythons & every_call) == 1:
            self.programs = pythons & every_call
        self.lent = {name: LENDERS[name] for name in pythons - self.programs if name in LENDERS}

    def enter(self, place, scope):
        """Those of one test."""
        for name in self.free[place]:
            if name in self.modules:
                scope[name] = __import__(self.modules[name])
            elif name in self.lent:
                scope[name] = getattr(__import__(self.lent[name]), name)
            elif name in self.programs:
                scope.update((name, value) for value in PROGRAM.look(name))


def same(got, want):
    if isinstance(want, float) and type(got) in (int, float):
        return got == want or math.isfinite(want) and abs(got - want) <= 1e-6 * max(1, abs(want))
    if isinstance(want, list) and isinstance(got, list):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, dict) and isinstance(got, dict):
        return got.keys() == want.keys() and all(same(got[key], want[key]) for key in want)
    return got == want


def value_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def run_call(check):
    """A function of the program's, or a method of its Solution."""
    arguments, want, name = check["arguments"], check["want"], check["call"]
    if isinstance(arguments, str):
        arguments = [value_of(line) for line in arguments.split("\n") if line]
        want = value_of(want) if isinstance(want, str) else want
    found, solution = PROGRAM.look(name), PROGRAM.look("Solution")
    if not found and not solution:
        raise NameError(f"the program has neither {name} nor Solution")
    function = found[0] if found else getattr(solution[0](), name)
    got = json.loads(json.dumps(function(*arguments)))
    if not (same(got, want) or (isinstance(want, list) and len(want) == 1 and same(got, want[0]))):
        raise AssertionError(f"{name} gave another value")


def run_code(tree, scope):
    """Tests for unittest and pytest do nothing by themselves: what is named test is called."""
    exec(compile(tree, "test", "exec"), scope)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            if node.args.args or node.args.kwonlyargs or node.args.posonlyargs:
                PROGRAM.give_up("cannot", f"not judgeable: {node.name} takes arguments, which a runner of tests would give it")
            scope[node.name]()
        elif isinstance(node, ast.ClassDef):
            run_class(scope[node.name])


def run_class(kind):
    unittest = sys.modules.get("unittest")
    if unittest and issubclass(kind, unittest.TestCase):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
        if not result.wasSuccessful():
            raise AssertionError((result.failures + result.errors)[0][1].strip().split("\n")[-1])
    elif kind.__name__.startswith("Test"):
        for name in [name for name in vars(kind) if name.startswith("test")]:
            getattr(kind(), name)()


def parsed(check):
    """The code of a check, nothing for a call; and what is wrong with it."""
    try:
        then = f"\ncheck({check['entry']})" if "entry" in check else ""
        return ast.parse(check["code"] + then if "code" in check else ""), ""
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return ast.parse(""), f"not judgeable: the test is no Python: {error}"


def verdict_on(run):
    """pass, fail or cannot, and why."""
    PROGRAM.broken = ()
    verdict, why = "pass", ""
    try:
        if PROGRAM.gone:
            PROGRAM.end(PROGRAM.gone)
        run()
    except BaseException as error:
        missing = isinstance(error, ModuleNotFoundError) and "original" not in error.__dict__  # here, not in the program
        verdict, why = "cannot" if missing else "fail", f"{type(error).__name__}: {error}"
    return PROGRAM.broken or (verdict, why)


def main():
    add_operators()
    checks = json.loads(PROGRAM.channel.read())["checks"]
    trees, faults = zip(*map(parsed, checks))
    calls = [tree.body[-1] for check, tree in zip(checks, trees) if "entry" in check and tree.body]  # check(ENTRY)
    entries = {node.id for call in calls for node in ast.walk(call) if isinstance(node, ast.Name)}
    names, scope = Names(trees, entries), {"__name__": "check"}
    sys.modules["solution"] = types.ModuleType("solution")
    sys.modules["solution"].__getattr__ = PROGRAM.attribute
    try:
        PROGRAM.ask("load")
    except BaseException as error:
        PROGRAM.gone = PROGRAM.gone or f"the program does not load: {type(error).__name__}: {error}"

    def run(place):
        if "call" in checks[place]:
            return run_call(checks[place])
        names.enter(place, scope)
        run_code(trees[place], scope)

    for place, fault in enumerate(faults):
        verdict, why = ("cannot", fault) if fault else verdict_on(lambda: run(place))
        PROGRAM.channel.write(f"{verdict} {ascii(why[:300])[1:-1]}")
    PROGRAM.channel.write("done")


PROGRAM = Program(Channel())
main()
