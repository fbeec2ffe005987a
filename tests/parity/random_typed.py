"""Random expressions whose operand types usually match, so that more of a template renders."""

from random_words import INTEGERS, METHODS, TESTS, TEXTS


class TypedExpressions:
    def typed(self, kind, depth):
        """Returns an expression that usually has the given type."""
        pick = self.random.choice
        if depth <= 0:
            return pick({"text": ["s", "t", "w", "bos_token", "'abc'", "'äÖß'", "messages[0].role", "ls[1]", "d.key"],
                         "number": ["n", "m", "x", "2", "-1", "0.5", "l[0]"],
                         "list": ["l", "ls", "messages", "nested", "[1, 'a', none]", "range(4)", "d.b", "(1, 2)"],
                         "dict": ["d", "dd", "messages[0]", "{'k': 1}"],
                         "bool": ["b", "true", "n > 2", "z is none", "s is string", "messages[0].role == 'user'"]}[kind])
        T = lambda: self.typed("text", depth - 1)
        N = lambda: self.typed("number", depth - 1)
        L = lambda: self.typed("list", depth - 1)
        D = lambda: self.typed("dict", depth - 1)
        B = lambda: self.typed("bool", depth - 1)
        any_of = lambda: self.typed(pick(["text", "number", "list", "dict", "bool"]), depth - 1)
        if kind == "text":
            return self.pick(
                T,
                lambda: f"({T()} + {T()})",
                lambda: f"({any_of()} ~ {any_of()})",
                lambda: f"{T()}.{pick(METHODS[:3])}",
                lambda: f"({T()} * 2)",
                lambda: f"({any_of()})|tojson",
                lambda: f"({L()})|join({pick(TEXTS)})",
                lambda: f"({any_of()})|string",
                lambda: f"({T()})|{pick(['upper', 'title', 'capitalize', 'trim', 'lower', 'indent(2)', 'e', 'safe', 'reverse'])}",
                lambda: f"({T()})[{N()}|int:]",
                lambda: f"({T()})[:{N()}|int]",
                lambda: f"({T()}).replace({pick(TEXTS)}, {T()})",
                lambda: f"({T()} if {B()} else {T()})",
                lambda: f"('%s:%r' % ({any_of()}, {any_of()}))",
                lambda: f"'{{}}|{{:>8}}'.format({any_of()}, {T()})",
                lambda: f"({T()}).split({pick(TEXTS[1:])})[-1]",
                lambda: f"({any_of()})|tojson(indent=2)",
            )
        if kind == "number":
            return self.pick(N, lambda: f"({N()} {pick(['+', '-', '*'])} {N()})", lambda: f"({N()} {pick(['/', '//', '%'])} 3)",
                             lambda: f"({L()})|list|length", lambda: f"({T()})|length",
                             lambda: f"({N()})|{pick(['abs', 'int', 'float', 'round', 'round(1)'])}",
                             lambda: f"({T()}).{pick(['find', 'count', 'rfind'])}({pick(TEXTS)})", lambda: f"({T()})|int",
                             lambda: f"(2 ** {pick(INTEGERS[:4])})", lambda: f"({T()})|wordcount")
        if kind == "list":
            return self.pick(L, lambda: f"({L()})|list", lambda: f"({L()})[{pick(['1:', ':2', '::-1', '-2:', '::2', '1:-1'])}]",
                             lambda: f"(({L()})|list + ({L()})|list)",
                             lambda: f"({T()}).{pick(['split()', 'splitlines()', 'partition(chr)'])}".replace("chr", "' '"),
                             lambda: f"({D()}).{pick(['items()', 'keys()', 'values()'])}",
                             lambda: f"({D()})|{pick(['dictsort', 'items|list', 'list'])}",
                             lambda: f"({L()})|map('{pick(['string', 'tojson', 'list', 'length', 'upper'])}')|list",
                             lambda: f"({L()})|{pick(['reverse', 'unique'])}|list", lambda: f"({L()})|select('{pick(TESTS[:11])}')|list",
                             lambda: f"messages|{pick(['selectattr', 'rejectattr'])}({self.attribute()}, 'defined')|list",
                             lambda: f"({L()})|batch(2)|list", lambda: f"ls|sort", lambda: f"l|sort(reverse={B()})",
                             lambda: f"messages|map(attribute={self.attribute()}, default={T()})|list", lambda: f"[{any_of()}, {any_of()}]",
                             lambda: f"messages|groupby('role')", lambda: f"({L()})|slice(2)|list")
        if kind == "dict":
            return self.pick(D, lambda: f"dict({D()}, q={any_of()})", lambda: f"{{'a': {any_of()}, {T()}: {any_of()}}}",
                             lambda: f"({D()}).copy()", lambda: f"dict(({D()})|dictsort)" if depth == 1 else D())
        return self.pick(B, lambda: f"({any_of()} {pick(['==', '!='])} {any_of()})",
                         lambda: f"({N()} {pick(['<', '<=', '>', '>='])} {N()})", lambda: f"({T()} in {T()})",
                         lambda: f"({any_of()} {pick(['in', 'not in'])} {L()})", lambda: f"not {B()}",
                         lambda: f"({B()} {pick(['and', 'or'])} {B()})", lambda: f"({any_of()} is {pick(['', 'not '])}{pick(TESTS[:13])})",
                         lambda: f"({T()}).{pick(['startswith', 'endswith'])}({T()})",
                         lambda: f"({T()}).{pick(['isdigit', 'isupper', 'islower', 'isalpha', 'istitle'])}()", lambda: f"{T()} < {T()}")
