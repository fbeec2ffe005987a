"""Random templates over the whole language, for comparing two interpreters. Errors are compared, too."""

from random_expressions import Expressions


class Templates(Expressions):
    def begin(self):
        return "{%" + self.random.choice(["", "", "-", "-", "+"])

    def end(self):
        return self.random.choice(["", "", "-", "-", "+"]) + "%}"

    def tag(self, words):
        return f"{self.begin()} {words} {self.end()}"

    def data(self):
        return self.random.choice(["", "text", " ", "\n", "  \n  ", "a\n", "\n\n", "\t", "<|im_start|>", "  x  ", "}", "{ ", "\r\n", "# %",
                                   "ü\u00a0"])

    def body(self, depth):
        saved = list(self.names), list(self.macros)
        result = ("".join(self.data() + self.statement(depth - 1) for _ in range(self.random.randint(1, 3))) + self.data())
        self.names, self.macros = saved
        return result

    def target(self):
        name = self.random.choice(["v", "k", "s", "n", "l", "v", "i", "messages", "_p"])
        self.names += [name] * 2
        return name

    def targets(self):
        return self.target() if self.chance(0.75) else f"{self.target()}, {self.target()}"

    def if_block(self, depth):
        result = self.tag("if " + self.expression()) + self.body(depth)
        if self.chance(0.3):
            result += self.tag("elif " + self.expression()) + self.body(depth)
        if self.chance(0.4):
            result += self.tag("else") + self.body(depth)
        return result + self.tag("endif")

    def for_block(self, depth):
        saved = list(self.names)
        iterable = self.pick(lambda: self.random.choice(["messages", "l", "ls", "d", "d.items()", "nested", "range(3)", "s", "dd|dictsort",
                                                         "l|reverse"]), self.expression)
        head = f"for {self.targets()} in {iterable}"
        if self.chance(0.2):
            head += f" if {self.expression(2)}"
        recursive = self.chance(0.1)
        if recursive:
            head += " recursive"
        self.loops += 1
        body = self.body(depth)
        if recursive and self.chance(0.5):
            body += "{{ loop(" + self.random.choice(["[]", "l[1:]", "nested[1:]"]) + ") if loop.depth < 3 }}"
        if self.chance(0.2):
            body += (self.tag(f"if {self.expression(2)}") + self.tag(self.random.choice(["break", "continue"])) + self.tag("endif")
                     + self.data())
        self.loops -= 1
        self.names = saved
        if self.chance(0.2):
            body += self.tag("else") + self.body(depth)
        return self.tag(head) + body + self.tag("endfor")

    def set_block(self, depth):
        if self.chance(0.3):
            name = self.target()
            suffix = f" | {self.random.choice(['upper', 'trim', 'length', 'indent(2)'])}" if self.chance(0.4) else ""
            return self.tag(f"set {name}{suffix}") + self.body(depth) + self.tag("endset")
        if self.chance(0.3):
            return self.tag(f"set ns.{self.random.choice('abc')} = {self.expression()}")
        if self.chance(0.1):
            return self.tag(f"set {self.target()}, {self.target()} = {self.expression()}, {self.expression()}")
        value = self.expression()
        return self.tag(f"set {self.target()} = {value}")

    def macro_block(self, depth):
        name = self.random.choice(["f", "g", "h"])
        parameters = self.random.choice(["", "p", "p, q", "p, q=1", "p='x', q=p", "q=n"])
        saved = list(self.names)
        self.names += ["p", "q", "varargs", "kwargs"]
        loops, self.loops = self.loops, 0
        body = self.body(depth) + ("{{ caller() }}" if self.chance(0.2) else "")
        self.loops, self.names = loops, saved
        self.macros.append(name)
        return self.tag(f"macro {name}({parameters})") + body + self.tag("endmacro")

    def call_block(self, depth):
        if not self.macros:
            return self.macro_block(depth)
        loops, self.loops = self.loops, 0
        body = self.body(depth)
        self.loops = loops
        return (self.tag(f"call {self.random.choice(['', '(p) '])}{self.random.choice(self.macros)}({self.expression(2)})") + body
                + self.tag("endcall"))

    def generation_block(self, depth):
        loops, self.loops = self.loops, 0
        body = self.body(depth)
        self.loops = loops
        return self.tag("generation") + body + self.tag("endgeneration")

    def statement(self, depth):
        output = (lambda: self.random.choice(["{{ ", "{{- ", "{{"]) + self.expression() + self.random.choice([" }}", " -}}", "}}"]))
        if depth <= 0:
            return output()
        return self.pick(output, output, output, output, lambda: self.if_block(depth), lambda: self.if_block(depth),
                         lambda: self.for_block(depth), lambda: self.for_block(depth), lambda: self.set_block(depth),
                         lambda: self.set_block(depth), lambda: self.macro_block(depth), lambda: self.call_block(depth),
                         lambda: self.generation_block(depth), lambda: self.tag("filter " + self.random.choice(["upper", "trim",
                                                                                                                "replace('a', 'b')|title",
                                                                                                                "indent(1)"]))
                         + self.body(depth) + self.tag("endfilter"), lambda: self.tag(f"with {self.target()} = {self.expression()}")
                         + self.body(depth) + self.tag("endwith"), lambda: "{#" + self.random.choice(["", "-", "+"]) + " note {{ x }} "
                         + self.random.choice(["", "-", "+"]) + "#}", lambda: self.tag("raw").replace("+%}", "%}") + "{{ raw }} {% if %}"
                         + self.data() + self.tag("endraw"), lambda: self.tag("print " + self.expression()))

    def template(self):
        start = "{%- set ns = namespace(a=1, b='x') %}" if self.chance(0.7) else ""
        return start + "".join(self.data() + self.statement(3) for _ in range(self.random.randint(1, 4))) + self.data()


def row(random):
    messages = [{"role": "user", "content": "Hi there", "key": 1}, {"role": "assistant", "content": "Größe", "name": "bob"},
                {"role": "tool", "content": [{"type": "text", "text": "t"}], "a": {"b": 2}}][: random.randint(1, 3)]
    extra = {"s": "some Text here", "t": "  Ümläut 🙂 ", "w": "a-b (c) d_e", "n": 3, "m": -2, "x": 2.75, "l": [3, 1, 2],
             "ls": ["b", "A", "c", "a"], "d": {"key": "v", "a": 1, "b": [1, 2]}, "dd": {"z": 1, "B": 2, "a": 3}, "z": None, "b": True,
             "e": "", "bos_token": "<s>", "nested": [[1, 2], [3, 4], ["a", "b"]]}
    return {"template": Templates(random).template(), "messages": messages, "extra": extra}
