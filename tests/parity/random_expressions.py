"""Random expressions over the whole language."""

from random_typed import TypedExpressions
from random_words import ATTRIBUTES, FLOATS, INTEGERS, METHODS, SIMPLE_FILTERS, TESTS, TESTS_WITH, TEXTS, VARIABLES


class Expressions(TypedExpressions):
    def __init__(self, random):
        self.random = random
        self.names = list(VARIABLES)
        self.macros = []
        self.loops = 0
        self.tame = random.choice([0, 0.9, 0.97, 1])  # fraction of expressions with matching types

    def pick(self, *choices):
        return self.random.choice(choices)()

    def chance(self, probability):
        return self.random.random() < probability

    def text(self):
        return self.random.choice(TEXTS)

    def integer(self):
        return self.random.choice(INTEGERS)

    def name(self):
        if self.loops and self.chance(0.2):
            return "loop." + self.random.choice(["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem",
                                                 "nextitem", "depth", "cycle('a', 'b')", "changed(n)", "cycle(1, 2, 3)"])
        return self.random.choice(self.names)

    def literal(self, depth):
        return self.pick(self.text, self.integer, lambda: self.random.choice(FLOATS),
                         lambda: self.random.choice(["true", "false", "none", "True", "None", "[]", "{}", "()"]),
                         lambda: "[" + ", ".join(self.expression(depth - 1) for _ in range(self.random.randint(1, 3))) + "]",
                         lambda: "(" + ", ".join(self.expression(depth - 1) for _ in range(self.random.randint(2, 3))) + ")",
                         lambda: "{" + ", ".join(f"{self.random.choice(TEXTS + INTEGERS)}: {self.expression(depth - 1)}"
                                                 for _ in range(self.random.randint(1, 2))) + "}",
                         lambda: f"range({self.random.randint(0, 5)})",
                         lambda: f"range({self.integer()}, {self.integer()}, {self.integer()})",
                         lambda: f"dict(a={self.expression(depth - 1)})")

    def filter(self, depth):
        e = lambda: self.expression(depth - 1)
        return self.pick(lambda: self.random.choice(SIMPLE_FILTERS), lambda: self.random.choice(SIMPLE_FILTERS),
                         lambda: f"join({self.text()})", lambda: f"default({e()})", lambda: f"default({e()}, true)",
                         lambda: f"replace({self.text()}, {self.text()})",
                         lambda: f"replace({self.text()}, {self.text()}, {self.integer()})", lambda: f"round({self.random.randint(-2, 3)})",
                         lambda: f"round({self.random.randint(0, 3)}, '{self.random.choice(['ceil', 'floor', 'common'])}')",
                         lambda: f"indent({self.random.randint(0, 4)})", lambda: f"indent({self.random.randint(0, 4)}, true, true)",
                         lambda: f"map('{self.random.choice(SIMPLE_FILTERS).split('|')[0]}')|list",
                         lambda: f"map(attribute={self.attribute()})|list",
                         lambda: f"map(attribute={self.attribute()}, default={self.text()})|join(',')",
                         lambda: f"selectattr({self.attribute()})|list",
                         lambda: f"selectattr({self.attribute()}, '{self.random.choice(TESTS)}')|list",
                         lambda: f"rejectattr({self.attribute()}, '{self.random.choice(TESTS_WITH)}', {e()})|list",
                         lambda: f"select('{self.random.choice(TESTS)}')|list",
                         lambda: f"reject('{self.random.choice(TESTS_WITH)}', {e()})|list", lambda: "select|list", lambda: "reject",
                         lambda: f"batch({self.random.randint(1, 3)})|list", lambda: f"batch(2, {e()})|list",
                         lambda: f"slice({self.random.randint(1, 3)})|list", lambda: f"slice(2, {e()})|list",
                         lambda: f"sort(reverse={e()})", lambda: f"sort(attribute={self.attribute()})",
                         lambda: f"sort(case_sensitive=true)", lambda: f"groupby({self.attribute()})", lambda: f"dictsort(by='value')",
                         lambda: f"dictsort(reverse=true)", lambda: f"tojson(indent={self.random.randint(0, 4)})",
                         lambda: "tojson(ensure_ascii=true)", lambda: "tojson(sort_keys=true)", lambda: f"tojson(separators=(',', ':'))",
                         lambda: f"trim({self.text()})", lambda: f"int({self.integer()}, {self.random.choice([2, 8, 10, 16, 0])})",
                         lambda: f"float({e()})", lambda: f"sum(start={e()})", lambda: f"sum(attribute={self.attribute()})",
                         lambda: f"format({e()}, {e()})", lambda: f"format({e()})", lambda: f"truncate({self.random.randint(3, 9)}, {e()})",
                         lambda: f"center({self.random.randint(0, 12)})", lambda: f"attr({self.attribute()})",
                         lambda: f"min(attribute={self.attribute()})", lambda: f"unique(attribute={self.attribute()})|list",
                         lambda: f"join({self.text()}, attribute={self.attribute()})", lambda: "title(1)")

    def attribute(self):
        return self.random.choice(["'role'", "'key'", "'a'", "'a.b'", "'0'", "0", "1", "'missing'", "'content'", "'name'"])

    def method(self, depth):
        e = lambda: self.expression(depth - 1)
        t = self.text
        return self.pick(lambda: self.random.choice(METHODS), lambda: f"split({t()})", lambda: f"split({t()}, {self.integer()})",
                         lambda: f"rsplit({t()}, 1)", lambda: f"split(none, {self.integer()})", lambda: f"strip({t()})",
                         lambda: f"lstrip({t()})", lambda: f"rstrip({t()})", lambda: f"startswith({t()})", lambda: f"endswith({t()})",
                         lambda: f"startswith(({t()}, {t()}))", lambda: f"startswith({t()}, {self.integer()})",
                         lambda: f"replace({t()}, {t()})", lambda: f"replace({t()}, {t()}, {self.integer()})", lambda: f"find({t()})",
                         lambda: f"rfind({t()}, {self.integer()})", lambda: f"count({e()})", lambda: f"index({e()})",
                         lambda: f"join({e()})", lambda: f"format({e()}, {e()})", lambda: f"format(a={e()})", lambda: f"get({t()})",
                         lambda: f"get({e()}, {e()})", lambda: f"zfill({self.random.randint(0, 8)})",
                         lambda: f"center({self.random.randint(0, 9)}, '*')", lambda: f"ljust({self.random.randint(0, 9)})",
                         lambda: f"rjust({self.random.randint(0, 9)}, '.')", lambda: f"partition({t()})", lambda: f"rpartition({t()})",
                         lambda: f"splitlines({self.random.choice(['true', 'false'])})", lambda: f"removeprefix({t()})",
                         lambda: f"removesuffix({t()})")

    def formats(self, depth):
        e = lambda: self.expression(depth - 1)
        percent = self.random.choice(["%s", "%r", "%d", "%5.1f", "%-6s|", "%05d", "%x", "%.2s", "%+d", "%e", "%g", "%c", "%%", "%3s%s",
                                      "%(a)s"])
        brace = self.random.choice(["{}", "{0}", "{:>6}", "{:<5}|", "{:^7}", "{:05d}", "{:.2f}", "{:,}", "{!r}", "{:x}", "{:+}", "{0[0]}",
                                    "{0.a}", "{:e}", "{:.3}", "{:*^9}", "{:%}", "{:10.3f}", "{{}}", "{a}", "{:g}", "{:_}", "{:b}", "{:#x}",
                                    "{:s}"])
        return self.pick(lambda: f"({percent!r} % {e()})", lambda: f"({percent!r} % ({e()}, {e()}))", lambda: f"({percent!r} % ({e()},))",
                         lambda: f"{brace!r}.format({e()})", lambda: f"({brace!r} ~ {brace!r}).format({e()}, {e()})")

    def expression(self, depth=None):
        if depth is None:
            depth = self.random.randint(0, 3)
            if self.chance(self.tame):
                return self.typed(self.random.choice(["text", "number", "list", "dict", "bool"]), depth)
        if depth <= 0:
            return self.pick(self.text, self.integer, self.name, self.name)
        e = lambda: self.expression(depth - 1)
        operator = self.random.choice(["+", "-", "*", "/", "//", "%", "**", "~", "~", "+"])
        comparison = self.random.choice(["==", "!=", "<", ">", "<=", ">=", "in", "not in"])
        optional = lambda: e() if self.chance(0.5) else ""
        return self.pick(
            self.name,
            self.name,
            lambda: self.literal(depth),
            lambda: f"({e()} {operator} {e()})",
            lambda: f"{e()} {operator} {e()}",
            lambda: f"({e()} {comparison} {e()})",
            lambda: f"{e()} {comparison} {e()} {comparison} {e()}",
            lambda: f"({e()} and {e()})",
            lambda: f"{e()} or {e()}",
            lambda: f"not {e()}",
            lambda: f"(-{e()})",
            lambda: f"+{e()}",
            lambda: f"({e()} if {e()} else {e()})",
            lambda: f"({e()} if {e()})",
            lambda: f"({e()})|{self.filter(depth)}",
            lambda: f"{self.name()}|{self.filter(depth)}",
            lambda: f"{self.name()}|{self.filter(depth)}|{self.filter(depth)}",
            lambda: f"({e()}).{self.method(depth)}",
            lambda: f"{self.name()}.{self.method(depth)}",
            lambda: f"{self.name()}.{self.random.choice(ATTRIBUTES)}",
            lambda: f"{self.name()}[{e()}]",
            lambda: f"({e()})[{e()}]",
            lambda: f"{self.name()}[{optional()}:{optional()}]",
            lambda: f"({e()})[{optional()}:{optional()}:{self.random.choice(['', '-1', '2', '-2', '1'])}]",
            lambda: f"({e()} is {self.random.choice(['', 'not '])}{self.random.choice(TESTS)})",
            lambda: f"({e()} is {self.random.choice(['', 'not '])}{self.random.choice([t for t in TESTS_WITH if t.isalpha()])}({e()}))",
            lambda: self.formats(depth),
            lambda: self.call(depth),
        )

    def call(self, depth):
        if not self.macros or self.chance(0.2):
            return self.random.choice([f"namespace(a={self.expression(depth - 1)})", "cycler(1, 2).next()", "joiner('|')()",
                                       "strftime_now('%d %b %Y %H:%M')"])
        arguments = [self.expression(depth - 1) for _ in range(self.random.randint(0, 2))]
        if self.chance(0.3):
            arguments.append(f"{self.random.choice(['p', 'q', 'r'])}={self.expression(depth - 1)}")
        if self.chance(0.1):
            arguments.append("*l")
        if self.chance(0.1):
            arguments.append("**d")
        return f"{self.random.choice(self.macros)}({', '.join(arguments)})"
