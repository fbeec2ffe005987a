# The program under test: loads it and does with its names and objects what the judge asks for. All of this is in the program's hands,
# and it may answer as it likes: it only ever answers, and never sees what is expected.

import builtins
import operator
import types


def plain(x):
    value = base_value(x)
    return ["none", type(x).__name__] if value is NotImplemented else ["value", value]


DO = {
    "call": lambda function, *positional, **named: function(*positional, **named),
    "get": getattr, "set": setattr, "delete": delattr, "isinstance": isinstance, "plain": plain, "next": next, "round": round,
    "len": len, "iter": iter, "bool": bool, "str": str, "repr": repr, "int": int, "float": float, "complex": complex,
    **{name: getattr(operator, name) for name in (
        "getitem", "setitem", "delitem", "index", "neg", "pos", "abs", "invert", "add", "sub", "mul", "truediv", "floordiv", "mod",
        "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift")},
}


class Program:
    def __init__(self, channel):
        self.channel, self.objects, self.numbers, self.serving = channel, [], {}, None
        self.module = sys.modules["solution"] = types.ModuleType("solution")
        self.do = {**DO, "load": self.load, "look": self.look}

    def load(self):
        with open("/tmp/main.py", encoding="utf-8") as file:
            exec(compile(file.read(), "main.py", "exec"), self.module.__dict__)

    def look(self, name):
        """A name of the program's; of a module the judge may have one of its own."""
        if name not in self.module.__dict__:
            return ["absent", None, None]
        value = self.module.__dict__[name]
        return ["module", value.__name__, value] if isinstance(value, types.ModuleType) else ["value", None, value]

    def number(self, x):
        """What is no plain value stays here, and the judge gets its number."""
        if id(x) not in self.numbers:
            self.numbers[id(x)] = len(self.objects)
            self.objects.append(x)
        return self.numbers[id(x)]

    def write_other(self, x, writer):
        """A class of exceptions is known by its ancestors, up to the first of Python's own."""
        if not (isinstance(x, type) and issubclass(x, BaseException)):
            return {"object": self.number(x)}
        first = next(i for i, ancestor in enumerate(x.__mro__) if ancestor.__module__ == "builtins")
        return {"error": [[[self.number(own), own.__name__] for own in x.__mro__[:first]], x.__mro__[first].__name__]}

    def read_other(self, key, held, reader):
        if key == "error":
            return getattr(builtins, held)
        return self.objects[held] if key == "object" else lambda *positional, **named: self.call_judge(held, positional, named)

    def call_judge(self, function, positional, named):
        """A function of the test's that was handed to the program. The judge may ask for more before it answers."""
        writer, serving = Writer(self.write_other), self.serving
        self.say({"calls": function, "with": [writer(x) for x in positional], "named": {k: writer(v) for k, v in named.items()}})
        while "do" in (reply := json.loads(self.channel.read())):
            self.answer(reply)
        self.serving = serving
        if "raises" in reply:
            raise RuntimeError(reply["raises"])
        return Reader(self.read_other)(reply["gives"])

    def say(self, message):
        self.channel.write(json.dumps({"id": self.serving, **message}))

    def answer(self, request):
        self.serving = request["id"]
        reader = Reader(self.read_other)
        operands = [reader(x) for x in request["with"]]
        named = {k: reader(v) for k, v in request["named"].items()}
        given = reader.containers
        before = self.contents(given)
        try:
            result = self.do[request["do"]](*operands, **named)
            writer = Writer(self.write_other, given)
            reply = {"left": self.changes(given, before, writer), "gives": writer(result)}
        except BaseException as error:  # SystemExit among them
            writer = Writer(self.write_other, given)
            reply = {"left": self.changes(given, before, writer), "raises": self.describe(error, writer)}
        self.serving = request["id"]
        self.say(reply)

    def contents(self, containers):
        writer = Writer(self.write_other, containers)
        return [json.dumps(writer.contents(container)) for container in containers]

    def changes(self, given, before, writer):
        """What the program did to the containers that it was given."""
        after = self.contents(given)
        return {place: writer.contents(given[place]) for place in range(len(given)) if after[place] != before[place]}

    def describe(self, error, writer):
        try:
            arguments, text = [writer(x) for x in error.args], str(error)
        except Exception:
            arguments, text = [], ""
        return {"class": writer(type(error)), "arguments": arguments, "text": text, "object": self.number(error)}


program = Program(Channel())
while True:
    program.answer(json.loads(program.channel.read()))
