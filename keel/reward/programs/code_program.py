# Runs the program under test: loads it and executes the requests of the test runner. The program controls this process and may forge any
# reply, but it never gets the expected values.

import builtins
import operator
import types


def plain(x):
    value = base_value(x)
    return ("none", type(x).__name__) if value is NotImplemented else ("value", value)


DO = {
    "call": lambda function, *positional, **named: function(*positional, **named),
    "get": getattr, "set": setattr, "delete": delattr, "isinstance": isinstance, "issubclass": issubclass, "callable": callable, "plain": plain,
    "next": next, "round": round, "reversed": reversed, "format": format, "len": len, "iter": iter, "bool": bool, "str": str,
    "repr": repr, "int": int, "float": float, "complex": complex,
    **{name: getattr(operator, name) for name in (
        "getitem", "setitem", "delitem", "index", "neg", "pos", "abs", "invert", "add", "sub", "mul", "truediv", "floordiv", "mod",
        "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift")},
}


class Program:
    def __init__(self, channel):
        self.channel, self.objects, self.numbers, self.serving, self.shared = channel, [], {}, None, Shared(1)
        self.module = sys.modules["solution"] = types.ModuleType("solution")
        self.do = {**DO, "load": self.load, "look_up": self.look_up, "assign": self.assign, "defines": self.defines}

    def load(self):
        with open("/tmp/main.py", encoding="utf-8-sig") as file:
            exec(compile(file.read(), "main.py", "exec"), self.module.__dict__)

    def look_up(self, name):
        """Looks up a name of the program. The test runner replaces modules by its own."""
        if name not in self.module.__dict__:
            return "absent", None, None
        value = self.module.__dict__[name]
        return ("module", value.__name__, value) if isinstance(value, types.ModuleType) else ("value", None, value)

    def assign(self, name, value):
        self.module.__dict__[name] = value

    def defines(self, name):
        """Whether the program defines the name itself (not by an import)."""
        return getattr(self.module.__dict__.get(name), "__module__", None) == self.module.__name__

    def number(self, x):
        """Returns the number by which the test runner refers to an object that is not a plain value."""
        if id(x) not in self.numbers:
            self.numbers[id(x)] = len(self.objects)
            self.objects.append(x)
        return self.numbers[id(x)]

    def write_other(self, x, writer):
        """Describes an exception class by its ancestors, up to the first that the test runner knows."""
        if not (isinstance(x, type) and issubclass(x, BaseException)):
            return {"object": self.number(x)}
        first = next(i for i, ancestor in enumerate(x.__mro__) if self.is_known(ancestor))
        base = x.__mro__[first]
        name = base.__name__ if base.__module__ == "builtins" else f"{base.__module__}.{base.__name__}"
        return {"error": [[[self.number(own), own.__name__] for own in x.__mro__[:first]], name]}

    def is_known(self, kind):
        known = kind.__module__ == "builtins" or f"{kind.__module__}.{kind.__name__}" in ERRORS
        return known and getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind

    def read_other(self, key, payload, reader):
        if key == "error":
            return getattr(builtins, payload)
        return self.objects[payload] if key == "object" else lambda *positional, **named: self.call_test_function(payload, positional, named)

    def call_test_function(self, function, positional, named):
        """Calls a function of the test. The test runner may send requests before its reply."""
        serving = self.serving
        self.send(lambda writer: {"calls": function, "with": [writer(x) for x in positional], "named": {k: writer(v) for k, v in named.items()}})
        while "do" in (reply := json.loads(self.channel.read())):
            self.answer(reply)
        self.serving = serving
        reader = self.reader(reply)
        if "raises" in reply:
            raise RuntimeError(reply["raises"])
        return reader(reply["gives"])

    def reader(self, message):
        """Returns a reader for a message of the test runner and applies its changes."""
        reader = Reader(self.read_other, self.shared)
        reader.changes(message["changed"])
        self.shared.forget(message["forget"])
        return reader

    def send(self, message):
        """Sends what `message` returns for a writer."""
        writer = Writer(self.write_other, self.shared)
        try:
            line = json.dumps({"id": self.serving, "changed": writer.changes(), **message(writer)})
        except BaseException:
            self.shared.not_sent()
            raise
        self.shared.sent()
        self.channel.write(line)

    def answer(self, request):
        self.serving = request["id"]
        reader = self.reader(request)
        operands = [reader(x) for x in request["with"]]
        named = {k: reader(v) for k, v in request["named"].items()}
        try:
            result = self.do[request["do"]](*operands, **named)
            self.serving = request["id"]
            self.send(lambda writer: {"gives": writer(result)})
        except BaseException as error:  # including SystemExit
            self.serving, raised = request["id"], error
            self.send(lambda writer: {"raises": self.describe(raised, writer)})

    def describe(self, error, writer):
        try:
            arguments, text = [writer(x) for x in error.args], str(error)
        except Exception:
            arguments, text = [], ""
        cause = self.describe(error.__cause__, writer) if error.__cause__ else None
        return {"class": writer(type(error)), "arguments": arguments, "text": text, "object": self.number(error), "cause": cause}


program = Program(Channel())
while True:
    program.answer(json.loads(program.channel.read()))
