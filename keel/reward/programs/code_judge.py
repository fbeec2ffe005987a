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
        if name.startswith("__array") and name != "__array__":  # by which NumPy would have the program compute for it
            raise AttributeError(name)
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
        self.answered = False  # it has given a value, so that what a test holds may be its doing
        self.begin_check()

    def begin_check(self):
        self.broken = ()  # the verdict on the check, and why, where that does not hang on how it ends
        self.asked = False  # for a value, by the check
        self.missed = ""  # a name that the check looked for and the program does not have

    def ask(self, do, *positional, **named):
        with self.lock:
            writer = Writer(self.write_other)
            message = {"do": do, "with": [writer(x) for x in positional], "named": {k: writer(v) for k, v in named.items()}}
            self.asked = self.asked or do != "look"
            reply = self.converse(os.urandom(8).hex(), message)
            self.answered = self.answered or do not in ("look", "load")
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
        if isinstance(x, Exception) and "original" in x.__dict__:
            x = x.__dict__["original"]
        if isinstance(x, Remote):
            return {"object": object.__getattribute__(x, "_number")}
        if isinstance(x, type) and issubclass(x, BaseException):
            own = [number for number, kind in self.errors.items() if kind is x]
            if own or x.__module__ == "builtins":
                return {"object": own[0]} if own else {"error": x.__name__}
        if not isinstance(x, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)):
            # A class of the test's own, or what it made before it had anything of the program's, is the test's doing.
            of_test = "check" in (type(x).__module__, getattr(x, "__module__", "")) or not self.answered
            self.give_up("cannot" if of_test else "fail", f"not judgeable: the test hands the program an object of the class "
                         f"{type(x).__name__}; only plain values and functions can be handed over")
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
        if kind == "absent":
            self.missed = name
            return []
        self.asked = self.asked or not isinstance(value, Remote)
        self.answered = self.answered or not isinstance(value, Remote)
        if kind == "module" and module in MODULES.values():
            try:
                return [__import__(module)]
            except ImportError:  # it only says so
                pass
        return [value]

    def attribute(self, name):
        """from solution import NAME"""
        found = [] if name.startswith("__") else self.look(name)
        if not found:
            raise AttributeError(name)
        return found[0]


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


def run_code(test, scope):
    """Tests for unittest and pytest do nothing by themselves: what is named test is called."""
    exec(test.code, scope)
    for node in test.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            if node.args.args or node.args.kwonlyargs or node.args.posonlyargs:
                PROGRAM.give_up("cannot", f"not judgeable: {node.name} takes arguments, which a runner of tests would give it")
            run_function(scope[node.name])
        elif isinstance(node, ast.ClassDef):
            run_class(scope[node.name])


def run_function(function):
    begun = function()
    if isinstance(begun, (types.CoroutineType, types.GeneratorType)):
        begun.close()
        PROGRAM.give_up("cannot", f"not judgeable: {function.__name__} is a coroutine or a generator, which nobody here goes through")


def run_class(kind):
    unittest = sys.modules.get("unittest")
    if unittest and issubclass(kind, unittest.TestCase):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
        if not result.wasSuccessful():
            raise AssertionError((result.failures + result.errors)[0][1].strip().split("\n")[-1])
    elif kind.__name__.startswith("Test"):
        for name in dict.fromkeys(name for ancestor in reversed(kind.__mro__) for name in vars(ancestor) if name.startswith("test")):
            run_function(getattr(kind(), name))


def verdict_on(run):
    """pass, fail or cannot, and why."""
    PROGRAM.begin_check()
    verdict, why = "pass", ""
    try:
        if PROGRAM.gone:
            PROGRAM.end(PROGRAM.gone)
        run()
    except BaseException as error:
        missing = isinstance(error, ModuleNotFoundError) and "original" not in error.__dict__  # here, not in the program
        verdict, why = "cannot" if missing else "fail", f"{type(error).__name__}: {error}"
    return PROGRAM.broken or (verdict, why)


def idle_verdict(test, later):
    """On a test that passed and asked the program for nothing: it may prepare others, but every program passes one that tests nothing."""
    if PROGRAM.missed:
        return "fail", f"the program has no {PROGRAM.missed}"
    prepares = test.tree.body and not test.asserts or any(test.binds & other.reads for other in later)
    return ("pass", "") if prepares else ("cannot", IDLE)


IDLE = ("not judgeable: the test asks the program for nothing, so that every program would pass it; what it defines must be called "
        "(functions named test... are; HumanEval's check is, with an entry_point)")


def main():
    add_operators()
    checks = json.loads(PROGRAM.channel.read())["checks"]
    tests = list(map(Test, checks))
    scope = Scope(tests)
    sys.modules["solution"] = types.ModuleType("solution")
    sys.modules["solution"].__getattr__ = PROGRAM.attribute
    try:
        PROGRAM.ask("load")
    except BaseException as error:
        PROGRAM.gone = PROGRAM.gone or f"the program does not load: {type(error).__name__}: {error}"

    def run(place):
        if "call" in checks[place]:
            return run_call(checks[place])
        run_code(tests[place], scope)

    idle = True  # no test has asked for anything, or found fault
    for place, test in enumerate(tests):
        verdict, why = ("cannot", test.fault) if test.fault else verdict_on(lambda: run(place))
        if verdict == "pass" and not PROGRAM.asked:
            verdict, why = idle_verdict(test, tests[place + 1:])
        scope.leave(test)
        idle = idle and verdict == "pass" and not PROGRAM.asked
        if idle and place == len(tests) - 1:
            verdict, why = "cannot", IDLE
        PROGRAM.channel.write(f"{verdict} {ascii(why[:300])[1:-1]}")
    PROGRAM.channel.write("done")


PROGRAM = Program(Channel())
main()
