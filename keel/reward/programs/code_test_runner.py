# The test runner: runs the tests with proxies for the program's names. A call goes to the program's process; its result is rebuilt here as a
# plain value and compared here. The first line of input is {"checks": [...]}. The test runner prints
#   ask MESSAGE      for the program; the next line of input is "=REPLY" or "!ERROR"
#   pass, fail REASON, cannot REASON      for the next check: passed; failed; the test itself is invalid
#   done

import ast
import builtins
import functools
import importlib
import math
import opcode
import operator
import threading
import types


def error_class(name, base):
    """Creates a proxy for an exception class of the program. Its instances have the text and attributes of the original."""
    def message(self):
        return self.__dict__["message"] if "message" in self.__dict__ else base.__str__(self)

    def attribute(self, name):
        if "original" not in self.__dict__ or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["original"], name)

    return type(name, (base,), {"__str__": message, "__getattr__": attribute})


class RunnerWriter(Writer):
    def write_uncommon(self, x, kind):
        return {"object": object.__getattribute__(x, "_number")} if kind is Remote else super().write_uncommon(x, kind)


class RunnerReader(Reader):
    """Widens floats and integer scalars to 64 bits, as in Python. Otherwise NumPy would compare in the type of the program's value:
    every number from 65520 on equals np.float16("inf"), and small integers overflow."""

    def read_array(self, payload):
        array = super().read_array(payload)
        wide = {"f": "f8", "c": "c16"}.get(array.dtype.kind)
        return array.astype(wide) if wide else array

    def read_number(self, payload):
        number = super().read_number(payload)
        return number.astype("i8") if number.dtype.kind in "iu" and number.itemsize < 8 else number


class Program:
    """The program under test, in its own process."""

    def __init__(self, channel):
        self.channel, self.functions, self.errors, self.lock, self.shared = channel, [], {}, threading.RLock(), Shared(0)
        self.plain_values = {}  # plain values of objects for comparisons, by number
        self.defined = {}  # library name: whether the program defines it
        self.texts, self.names_called, self.modules = set(), set(), set()  # in the tests
        self.exit_reason = ""  # why it no longer replies
        self.has_returned_value = False  # it has returned a value, so values of tests may come from it
        self.begin_check()

    def begin_check(self):
        self.final_verdict = ()  # a fixed verdict on the check, and the reason
        self.was_used = False  # the check requested a value
        self.missing_name = ""  # a name that the program lacks

    def request(self, do, *positional, **named):
        with self.lock:
            if do != "plain":  # mutable values may have changed
                self.plain_values = {number: entry for number, entry in self.plain_values.items() if type(entry[1]) not in WRITTEN_AS}
            self.was_used = self.was_used or do not in ("look_up", "defines")
            reply = self.converse(os.urandom(8).hex(), lambda writer: {
                "do": do, "with": [writer(x) for x in positional], "named": {k: writer(v) for k, v in named.items()}})
            self.has_returned_value = self.has_returned_value or do not in ("look_up", "load", "defines")
            reader = RunnerReader(self.read_other, self.shared)
            try:
                reader.changes(reply["changed"])
                if "raises" not in reply:
                    return reader(reply["gives"])
                error = self.error(reply["raises"], reader)
            except Exception as failure:
                self.fail_for_good(f"sent an invalid reply ({type(failure).__name__})")
        if isinstance(error, (StopIteration, StopAsyncIteration)) and do != "next":  # it would end a loop of the test
            error = RuntimeError(f"not testable: the program raised {type(error).__name__}")
        raise error

    def send(self, key, message):
        """Sends what `message` returns for a writer."""
        writer = RunnerWriter(self.write_other, self.shared)
        try:
            line = json.dumps({"id": key, "changed": writer.changes(), **message(writer), "forget": (unused := self.shared.unreferenced())})
        except BaseException:
            self.shared.not_sent()
            raise
        self.shared.sent()
        self.shared.forget(unused)
        self.channel.write("ask " + line)

    def converse(self, key, message):
        """Returns the reply to a message. Before it, the program may call functions that the test passed to it."""
        while True:
            if self.exit_reason:
                self.fail_for_good(self.exit_reason)
            self.send(key, message)
            line = self.channel.read()
            if line[:1] != b"=":
                self.fail_for_good(line[1:].decode(errors="replace").strip())
            try:
                reply = json.loads(line[1:])
                is_current = reply["id"] == key
                if is_current and "calls" not in reply:
                    return reply
                function, reader = self.functions[reply["calls"]] if is_current else None, RunnerReader(self.read_other, self.shared)
                reader.changes(reply["changed"])
                positional = [reader(x) for x in reply.get("with", ())]
                named = {k: reader(v) for k, v in reply.get("named", {}).items()}
            except Exception as failure:
                self.fail_for_good(f"sent an invalid reply ({type(failure).__name__})")
            if not is_current:
                self.fail_for_good("sent a reply without a request")
            message = self.call_back(function, positional, named)

    def call_back(self, function, positional, named):
        try:
            result = function(*positional, **named)
            return lambda writer: {"gives": writer(result)}
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return lambda writer: {"raises": text}

    def fail_for_good(self, why):
        self.exit_reason = why
        self.end_check("fail", why)

    def end_check(self, verdict, why):
        self.final_verdict = (verdict, why)
        raise CheckEnded(why)

    def write_other(self, x, writer):
        if isinstance(x, BaseException) and "original" in x.__dict__:
            return writer(x.__dict__["original"])
        if isinstance(x, type) and issubclass(x, BaseException):
            own = [number for number, kind in self.errors.items() if kind is x]
            if own or x.__module__ == "builtins":
                return {"object": own[0]} if own else {"error": x.__name__}
        if not isinstance(x, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)):
            # Classes of the test, and values from before the first reply of the program, come from the test.
            of_test = "check" in (type(x).__module__, getattr(x, "__module__", "")) or not self.has_returned_value
            self.end_check("cannot" if of_test else "fail", f"not testable: the test passes an object of the class "
                         f"{type(x).__name__} to the program; only plain values and functions are supported")
        self.functions.append(x)
        return {"function": len(self.functions) - 1}

    def read_other(self, key, payload, reader):
        if key == "object":
            return Remote(int(payload))
        if key != "error":
            raise ValueError(key)
        kind = self.error_kind(payload)
        if issubclass(AssertionError, kind):
            self.end_check("fail", f"not testable: the program returns {kind.__name__} as an exception class, with which a test would also "
                         "catch its own failures")
        return kind

    def error_kind(self, payload):
        own, base = payload
        if base in ERRORS:
            module, _, name = base.rpartition(".")
            kind = error_class(name, getattr(importlib.import_module(module), name))
        else:
            kind = getattr(builtins, base)
            if not issubclass(kind, (Exception, SystemExit)):  # such as KeyboardInterrupt, which would end the test runner
                kind = RuntimeError
        for number, name in reversed(own):
            kind = self.errors.setdefault(number, error_class(name, kind))
        return kind

    def error(self, raised, reader):
        arguments, kind = [reader(x) for x in raised["arguments"]], self.error_kind(raised["class"]["error"])
        try:
            error = kind(*arguments)
        except TypeError:
            error = kind.__new__(kind, *arguments)
        if raised.get("cause"):
            error.__cause__ = self.error(raised["cause"], reader)
        error.__dict__.update(message=str(raised["text"]), original=Remote(int(raised["object"])))
        return error

    def reject_query(self, x, what):
        """Ends the check because it needs `what` of a program's object. The test is invalid if it also calls the object by name."""
        name = object.__getattribute__(x, "_name")
        self.end_check("cannot" if name in self.names_called else "fail",
                     f"not testable: a test asks {name or 'an object of the program'} for {what}, which only the program knows")

    def plain(self, x):
        """Returns ("value", the plain value of an object) or ("none", its class name). Caches immutable values."""
        number = object.__getattribute__(x, "_number")
        if number not in self.plain_values:
            kind, value = self.request("plain", x)
            self.plain_values[number] = kind, value
        return self.plain_values[number]

    def own_module(self, name, module):
        """Imports a module that a test uses without an import (by its name or a name in it)."""
        if name not in self.defined:
            self.defined[name] = self.request("defines", name)
        if self.defined[name] is not False:
            self.end_check("fail", f"not testable: the test uses {name} without an import, but the program defines its own {name}")
        return importlib.import_module(module)

    def look_up(self, name):
        """Returns [value] for a name of the program, or []. Well-known modules are those of the test runner."""
        kind, module, value = self.request("look_up", name)
        if kind == "absent":
            self.missing_name = name
            return []
        if type(value) is Remote:
            object.__setattr__(value, "_name", name)
        self.was_used = self.was_used or type(value) is not Remote
        self.has_returned_value = self.has_returned_value or type(value) is not Remote
        if kind == "module" and module in MODULES.values():
            try:
                return [__import__(module)]
            except ImportError:  # not installed here
                pass
        return [value]

    def attribute(self, name):
        """from solution import NAME"""
        found = [] if name.startswith("__") else self.look_up(name)
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
    """Checks a function of the program, or a method of its class Solution."""
    arguments, want, name = check["arguments"], check["want"], check["call"]
    if isinstance(arguments, str):
        arguments = [value_of(line) for line in arguments.split("\n") if line]
        want = value_of(want) if isinstance(want, str) else want
    found, solution = PROGRAM.look_up(name), PROGRAM.look_up("Solution")
    if not found and not solution:
        raise NameError(f"the program has neither {name} nor Solution")
    function = found[0] if found else getattr(solution[0](), name)
    got = json.loads(json.dumps(function(*arguments)))
    if not (same(got, want) or (isinstance(want, list) and len(want) == 1 and same(got, want[0]))):
        raise AssertionError(f"{name} returned another value")


class SolutionModule(types.ModuleType):
    """import solution"""

    def __getattr__(self, name):
        found, frame = PROGRAM.attribute(name), sys._getframe(1)
        # Attribute access (such as hasattr) counts as a request to the program; an import does not.
        PROGRAM.was_used = PROGRAM.was_used or opcode.opname[frame.f_code.co_code[frame.f_lasti]] != "IMPORT_FROM"
        return found

    def __setattr__(self, name, value):
        super().__setattr__(name, value) if name.startswith("__") else PROGRAM.request("assign", name, value)


def run_code(test, scope):
    """Runs a test. Calls functions and classes named test..., as unittest and pytest do, and HumanEval's check."""
    exec(test.code, scope)
    for node in test.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            if node.args.args or node.args.kwonlyargs or node.args.posonlyargs:
                PROGRAM.end_check("cannot", f"not testable: {node.name} takes arguments, which a test runner would pass")
            run_function(scope[node.name])
        elif isinstance(node, ast.ClassDef):
            run_class(scope[node.name])
    if test.entry:
        if not dict.__contains__(scope, "check"):
            PROGRAM.end_check("cannot", "not testable: the test has an entry_point but no check")
        scope["check"](eval(test.entry, EntryScope()))


def run_function(function):
    result = function()
    if type(result) in (types.CoroutineType, types.GeneratorType):
        result.close()
        PROGRAM.end_check("cannot", f"not testable: {function.__name__} is a coroutine or a generator, which are not supported")


def run_class(kind):
    unittest = sys.modules.get("unittest")
    if unittest and issubclass(kind, unittest.TestCase):
        result, raised = unittest.TestResult(), []
        note = result.addError
        result.addError = lambda test, error: (raised.append(error[1]), note(test, error))
        unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
        for error in raised:
            if isinstance(error, ModuleNotFoundError):
                raise error
        if not result.wasSuccessful():
            raise AssertionError((result.failures + result.errors)[0][1].strip().split("\n")[-1])
    elif kind.__name__.startswith("Test"):
        for name in dict.fromkeys(name for ancestor in reversed(kind.__mro__) for name in vars(ancestor) if name.startswith("test")):
            run_function(getattr(kind(), name))


def is_proxy_error(error):
    """Whether Python (not the program) rejects the use of a proxy."""
    if "original" in error.__dict__ or isinstance(error, AssertionError):
        return False
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    frame = trace and trace.tb_frame
    in_library = frame and frame.f_globals.get("__name__") not in ("check", "__main__")
    return Remote.__name__ in str(error) or in_library and any(type(x) is Remote for x in frame.f_locals.values())


def verdict_on(run):
    """Returns pass, fail or cannot, and the reason."""
    PROGRAM.begin_check()
    verdict, why = "pass", ""
    try:
        if PROGRAM.exit_reason:
            PROGRAM.fail_for_good(PROGRAM.exit_reason)
        run()
    except BaseException as error:
        missing = isinstance(error, ModuleNotFoundError) and "original" not in error.__dict__ and (  # on the test runner's side
            str(error.name).split(".")[0] in PROGRAM.modules or error.name in PROGRAM.texts)
        unable = "not testable: " if is_proxy_error(error) else ""
        verdict, why = "cannot" if missing else "fail", f"{unable}{type(error).__name__}: {error}"
    return PROGRAM.final_verdict or (verdict, why)


def unused_program_verdict(test, later):
    """Returns the verdict on a test that passed without using the program: it may prepare other tests, else it is invalid."""
    if PROGRAM.missing_name:
        return "fail", f"the program has no {PROGRAM.missing_name}"
    prepares = test.tree.body and not test.asserts or any(test.binds & other.reads for other in later)
    return ("pass", "") if prepares else ("cannot", PROGRAM_UNUSED)


PROGRAM_UNUSED = ("not testable: the test does not use the program, so every program would pass it; its functions must be called "
        "(those named test... are, and HumanEval's check with an entry_point)")


def main():
    add_operators()
    checks = json.loads(PROGRAM.channel.read())["checks"]
    tests = list(map(Test, checks))
    scope = Scope(tests)
    scope["__builtins__"] = BUILTINS
    operator.is_, operator.is_not = identical, lambda a, b: not identical(a, b)
    PROGRAM.names_called = scope.called.difference(*(test.catches for test in tests))  # exception classes are not proxies
    PROGRAM.texts = {text.strip() for test in tests for text in test.texts}
    PROGRAM.modules = {*MODULES.values(), *MODULE_OF_NAME.values()}.union(*(test.imports for test in tests))
    sys.addaudithook(watch)
    sys.meta_path.insert(0, StrictLibraries())
    sys.modules["solution"] = SolutionModule("solution")
    try:
        PROGRAM.request("load")
    except BaseException as error:
        PROGRAM.exit_reason = PROGRAM.exit_reason or f"the program does not load: {type(error).__name__}: {error}"

    def run(index):
        if "call" in checks[index]:
            return run_call(checks[index])
        scope.enter(index, tests[index])
        run_code(tests[index], scope)

    idle = True  # no test has used the program or failed
    for index, test in enumerate(tests):
        verdict, why = ("cannot", test.fault) if test.fault else verdict_on(lambda: run(index))
        if verdict == "pass" and not PROGRAM.was_used:
            verdict, why = unused_program_verdict(test, tests[index + 1:])
        scope.leave(test)
        idle = idle and verdict == "pass" and not PROGRAM.was_used
        if idle and index == len(tests) - 1:
            verdict, why = "cannot", PROGRAM_UNUSED
        PROGRAM.channel.write(f"{verdict} {ascii(why[:300])[1:-1]}")
    PROGRAM.channel.write("done")


PROGRAM = Program(Channel())
main()
