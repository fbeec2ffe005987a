"""Labelled pairs (kind, gold, answer, equal) for the math verifier, from independent sources: sympy
transformations and printers, GSM8K answers, and hand-labelled pairs, including errors of other verifiers."""

import json
import pathlib
import random

import sympy as sp

X, Y, Z, A, B, T = sp.symbols("x y z a b t")


def tex(expression):
    return sp.latex(expression, ln_notation=True)


def tex_other(expression):
    """Returns an alternative LaTeX form."""
    text = tex(expression)
    return text.replace(r"\frac", r"\dfrac").replace(r"\left", "").replace(r"\right", "").replace(r" \cdot ", r"\times ")


def plain(expression):
    """Returns the plain-text form of sympy, with ^ for powers."""
    return str(expression).replace("**", "^")


def differs(a, b):
    """Whether two constants or polynomials are certainly unequal, by sympy."""
    difference = sp.expand(a - b)
    if difference.free_symbols:
        values = {s: sp.Rational(7 + i, 5 + 2 * i) for i, s in enumerate(sorted(difference.free_symbols, key=str))}
        difference = difference.subs(values)
    return abs(sp.N(difference, 40)) > 1e-12


class Pairs:
    def __init__(self, seed=0):
        self.random = random.Random(seed)
        self.rows = []

    def add(self, kind, gold, answer, equal):
        self.rows.append((kind, str(gold), str(answer), bool(equal)))

    def spell(self, expression):
        return self.random.choice((tex, tex_other, plain))(expression)

    def both(self, kind, gold, same, other):
        """Adds forms of equal expressions, and of one that sympy says is different."""
        self.add(kind, self.spell(gold), self.spell(same), True)
        if differs(gold, other):
            self.add(kind, self.spell(gold), self.spell(other), False)

    def integers(self, count):
        r = self.random
        for _ in range(count):
            n = r.choice((r.randint(0, 20), r.randint(-999, 999), r.randint(1000, 10**7), 10 ** r.randint(4, 30)))
            same = r.choice((f"{n:,}", f"{n}.0", f"{n}.00", f"x = {n}", rf"\boxed{{{n}}}", f"${n}$", rf"{n}\text{{ cm}}", f"{n} apples",
                             f"The answer is {n}.", f"{n:,}".replace(",", "{,}"), rf"\left({n}\right)", f"{n * 3}/3", rf"\frac{{{2 * n}}}{{2}}"))
            other = r.choice((n + 1, n - 1, n * 10, -n if n else 5, int(str(abs(n))[::-1]) + 11, n + 10**6))
            self.add("integer", n, same, True)
            if other != n:
                self.add("integer", n, r.choice((f"{other:,}", f"x = {other}", rf"\boxed{{{other}}}", other)), False)

    def rationals(self, count):
        r = self.random
        for _ in range(count):
            q = sp.Rational(r.randint(-60, 60), r.choice((2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 25, 40, 99)))
            if q.q == 1:
                continue
            k = r.randint(2, 9)
            spellings = [rf"\frac{{{q.p}}}{{{q.q}}}", f"{q.p}/{q.q}", rf"\dfrac{{{q.p * k}}}{{{q.q * k}}}", f"({q.p})/({q.q})", tex(q)]
            decimal = sp.Rational(q).limit_denominator(10**6)
            if all(p in (2, 5) for p in sp.factorint(q.q)):
                spellings += [str(sp.N(decimal, 20)).rstrip("0"), f"{float(q)}"]
            if abs(q) > 1:
                whole, part = divmod(abs(q.p), q.q)
                sign = "-" if q < 0 else ""
                spellings += [rf"{sign}{whole}\frac{{{part}}}{{{q.q}}}", f"{sign}{whole} {part}/{q.q}"]
            gold, same = r.sample(spellings, 2)
            self.add("rational", gold, same, True)
            for other in (q + sp.Rational(1, q.q), 1 / q if q else 1, -q):
                if other != q:
                    self.add("rational", gold, self.spell(other), False)
            if not all(p in (2, 5) for p in sp.factorint(q.q)):
                self.add("rounded", gold, f"{float(q):.{r.randint(1, 5)}f}", False)

    def percents(self, count):
        for _ in range(count):
            n = self.random.choice((self.random.randint(2, 99), sp.Rational(self.random.randint(11, 999), 10)))
            value = float(n) if n != int(n) else int(n)
            self.add("percent", rf"{value}\%", self.random.choice((sp.Rational(n) / 100, f"{value}%", f"{value} percent")), True)
            self.add("percent", rf"{value}\%", self.random.choice((f"{value + 1}%", sp.Rational(n) / 10, f"{value * 100}")), False)

    def surds(self, count):
        r = self.random
        for _ in range(count):
            a, b, n, k = r.randint(-9, 9), r.choice((1, 2, 3, 5, -2, -3)), r.choice((2, 3, 5, 6, 7, 10, 11)), r.randint(2, 6)
            s = sp.sqrt(n)
            self.both("surd", a + b * s, sp.sqrt(n * b * b, evaluate=False) * (1 if b > 0 else -1) + a, a + b * sp.sqrt(n + 1))
            self.both("surd", 1 / (k + s), sp.radsimp(1 / (k + s)), 1 / (k - s))
            root = sp.Pow(sp.expand((abs(a) + 1 + abs(b) * s) ** 2), sp.Rational(1, 2), evaluate=False)
            self.both("nested root", abs(a) + 1 + abs(b) * s, root, abs(a) + 1 + abs(b) * sp.sqrt(n + 1))
            c = sp.Rational(r.randint(1, 30), r.randint(1, 12))
            self.both("surd", sp.sqrt(c), sp.Pow(c * k * k, sp.Rational(1, 2), evaluate=False) / k, sp.sqrt(c + 1))
            self.both("cube root", k * sp.cbrt(n), sp.Pow(n * k**3, sp.Rational(1, 3), evaluate=False), k * sp.cbrt(n + 1))

    def polynomials(self, count):
        r = self.random
        for _ in range(count):
            p = sp.Integer(r.choice((1, 2, -3)))
            for _ in range(r.randint(2, 4)):
                p *= r.choice((X, X, Y, A)) * r.choice((1, 2, 3)) + r.choice((Y, B, 1, -1, 2, 5)) * r.choice((1, -1))
            wrong = sp.expand(p) + r.choice((1, -1, X, Y, X * Y))
            self.both("polynomial", p, sp.expand(p), wrong)
            self.both("polynomial", sp.expand(p), sp.factor(p), sp.expand(p).subs(X, -X))
            q = sp.expand((X + r.randint(1, 5)) * (X - r.randint(6, 9)))
            f = sp.expand(X * X + r.randint(1, 9) * X + 1)
            self.both("rational function", f / q, sp.apart(f / q, X), f / (q + 1))
            self.both("rational function", sp.together(1 / X + 1 / (Y + 1)), 1 / X + 1 / (Y + 1), 1 / X - 1 / (Y + 1))

    def functions(self, count):
        r = self.random
        for _ in range(count):
            q = sp.Rational(r.randint(-12, 24), r.choice((2, 3, 4, 5, 6, 8, 10, 12)))
            f = r.choice((sp.sin, sp.cos, sp.tan))
            value = f(sp.pi * q)
            if value.is_finite and not value.has(sp.tan, sp.sin, sp.cos):
                angle = rf"\{f.__name__}\left({tex(sp.pi * q)}\right)"
                self.add("trigonometry", angle, tex(sp.simplify(value)), True)
                degrees = rf"\{f.__name__}({180 * q}^\circ)" if (180 * q).q == 1 else angle
                self.add("trigonometry", tex(value), degrees, True)
                if differs(value, value + sp.Rational(1, 100)):
                    self.add("trigonometry", angle, tex(value + sp.Rational(1, 100)), False)
            n = r.randint(2, 4)
            self.both("identity", sp.sin(n * X), sp.expand_trig(sp.sin(n * X)), sp.sin((n + 1) * X))
            self.both("identity", sp.cos(X + Y), sp.expand_trig(sp.cos(X + Y)), sp.cos(X - Y))
            b, k, m = r.choice((2, 3, 5)), r.randint(1, 5), r.randint(2, 5)
            self.add("logarithm", rf"\log_{{{b}}} {b**k}", k, True)
            self.add("logarithm", rf"\log_{{{b}}} {b**k}", k + 1, False)
            self.add("logarithm", rf"\ln {b**m}", rf"{m} \ln {b}", True)
            self.add("logarithm", rf"\ln {b**m}", rf"{m + 1} \ln {b}", False)
            self.add("exponential", rf"e^{{{k}x + {m}}}", rf"e^{{{m}}} \cdot (e^x)^{{{k}}}", True)
            self.add("exponential", rf"{b}^{{x+{k}}}", rf"{b**k} \cdot {b}^x", True)
            self.add("exponential", rf"{b}^{{x+{k}}}", rf"{b**k} + {b}^x", False)
            c = r.randint(1, 9) * sp.pi / r.randint(1, 9)
            self.both("pi", c, c, c + sp.Rational(1, 10**6))
            self.add("pi", tex(c), f"{float(c):.{r.randint(2, 10)}f}", False)

    def complexes(self, count):
        r = self.random
        for _ in range(count):
            z, w = r.randint(-9, 9) + r.randint(1, 9) * sp.I, r.randint(-5, 5) + r.randint(1, 5) * sp.I
            product = tex(sp.Mul(z, w, evaluate=False))
            self.add("complex", tex(sp.expand(z * w)), product, True)
            self.add("complex", tex(sp.simplify(z / w)), rf"\frac{{{tex(z)}}}{{{tex(w)}}}", True)
            self.add("complex", tex(z), tex(sp.conjugate(z)), False)
            self.add("complex", rf"|{tex(z)}|", tex(sp.Abs(z)), True)

    def sets(self, count):
        r = self.random
        for _ in range(count):
            a, b = sorted(r.sample(range(-20, 20), 2))
            left, right = r.choice("(["), r.choice(")]")
            interval = f"{left}{a}, {b}{right}"
            low, high = ("<" if left == "(" else r"\le"), ("<" if right == ")" else r"\leq")
            self.add("interval", interval, rf"\left{left}{a},{b}\right{right}", True)
            self.add("interval", interval, rf"{a} {low} x {high} {b}", True)
            self.add("interval", interval, f"{left}{a},{b}{')' if right == ']' else ']'}", False)
            self.add("interval", interval, f"{left}{a},{b + 1}{right}", False)
            self.add("union", rf"(-\infty,{a}{right} \cup {left}{b},\infty)", rf"{left}{b},\infty) \cup (-\infty,{a}{right}", True)
            self.add("union", rf"(-\infty,{a}) \cup ({b},\infty)", rf"x < {a} \text{{ or }} x > {b}", True)
            self.add("union", rf"(-\infty,{a}) \cup ({b},\infty)", rf"(-\infty,{a}] \cup ({b},\infty)", False)
            self.add("inequality", rf"x \ge {b}", rf"[{b}, \infty)", True)
            self.add("inequality", rf"x \ge {b}", rf"-2x \le {-2 * b}", True)
            self.add("inequality", rf"x \ge {b}", rf"x > {b}", False)
            items = [sp.Rational(r.randint(-9, 9), r.randint(1, 4)) for _ in range(r.randint(2, 4))]
            items = list(dict.fromkeys(items))
            mixed = r.sample(items, len(items))
            spelled = [self.spell(i) for i in mixed]
            self.add("set", r"\{" + ", ".join(map(tex, items)) + r"\}", r"\left\{" + ",".join(spelled) + r"\right\}", True)
            self.add("list", ", ".join(map(tex, items)), ", ".join(spelled), True)
            self.add("set", r"\{" + ", ".join(map(tex, items)) + r"\}", r"\{" + ",".join(spelled[:-1] + ["99"]) + r"\}", False)
            point = [self.spell(i) for i in items]
            self.add("tuple", "(" + ", ".join(map(tex, items)) + ")", "(" + ",".join(point) + ")", True)
            if len(items) > 1:
                self.add("tuple", "(" + ", ".join(map(tex, items)) + ")", "(" + ",".join(point[::-1]) + ")", False)
                self.add("tuple", "(" + ", ".join(map(tex, items)) + ")", r"\{" + ",".join(point) + r"\}", False)
            n = r.choice((2, 3, 5, 7))
            self.add("plus-minus", rf"{a} \pm \sqrt{{{n}}}", rf"{a}+\sqrt{{{n}}}, {a}-\sqrt{{{n}}}", True)
            self.add("plus-minus", rf"{a} \pm \sqrt{{{n}}}", rf"{a}+\sqrt{{{n}}}", False)

    def matrices(self, count):
        r = self.random
        for _ in range(count):
            m = sp.Matrix(r.choice((2, 3)), r.choice((2, 3)), lambda i, j: sp.Rational(r.randint(-9, 9), r.choice((1, 1, 2))))
            wrong = m.copy()
            wrong[0, 1] += 1
            self.add("matrix", sp.latex(m, mat_str="pmatrix", mat_delim=""), sp.latex(m, mat_str="bmatrix", mat_delim=""), True)
            self.add("matrix", sp.latex(m, mat_str="pmatrix", mat_delim=""), sp.latex(m), True)
            self.add("matrix", sp.latex(m), sp.latex(wrong), False)
            if m.T != m:
                self.add("matrix", sp.latex(m), sp.latex(m.T), False)

    def equations(self, count):
        r = self.random
        for _ in range(count):
            m, c, k = r.choice((-3, -2, 2, 3, 5)), r.randint(-9, 9), r.choice((2, 3, -1, -4))
            line = sp.expand(m * X + c)
            self.add("equation", f"y = {plain(line)}", f"{plain(sp.expand(k * (line - Y)))} = 0", True)
            self.add("equation", f"y = {tex(line)}", tex(line), True)
            self.add("equation", f"y = {tex(line)}", f"y = {tex(line + 1)}", False)
            self.add("equation", f"y = {tex(line)}", f"{plain(sp.expand(k * (line - Y) + 1))} = 0", False)
            self.add("equation", f"x = {c}", f"{c}", True)
            self.add("equation", f"x = {c}", f"y = {c}", False)
            self.add("equation", f"{c}", f"x + {abs(m)} = {c}", False)
            self.add("equation", f"x = {m}, y = {c}", f"({m}, {c})", True)
            if m != c:
                self.add("equation", f"x = {m}, y = {c}", f"x = {c}, y = {m}", False)

    def words(self, count):
        """Adds numbers in words, from a separate table."""
        for _ in range(count):
            n = self.random.choice((self.random.randint(0, 99), self.random.randint(100, 9999), self.random.randint(10**4, 10**6)))
            self.add("words", n, spelled(n), True)
            self.add("words", n, spelled(n + self.random.choice((1, 10, 100))), False)
            millions = sp.Rational(self.random.randint(11, 99), 10)
            self.add("words", f"{millions * 10**6}", f"{float(millions)} million", True)
            self.add("words", f"{float(millions)}", f"{float(millions)} million", False)

    def units(self, count):
        """Adds quantities in two units, converted with sympy rationals."""
        r = self.random
        for _ in range(count):
            (a, x), (b, y) = r.sample(r.choice(UNITS), 2)
            n = r.randint(1, 60)
            value = sp.Rational(n) * x / y
            self.add("unit", f"{n} {a}", rf"{tex(value)}\text{{ {b}}}", True)
            self.add("unit", f"{n} {a}", rf"{tex(value + 1)}\text{{ {b}}}", False)
            self.add("unit", f"{n} {a}", f"{n} {b}", x == y)
            hours, minutes = r.randint(1, 5), r.randint(1, 59)
            self.add("unit", f"{hours} hours {minutes} minutes", f"{60 * hours + minutes} min", True)
            self.add("unit", f"{hours} hours {minutes} minutes", f"{100 * hours + minutes} min", False)

    def values_of_functions(self, count):
        r = self.random
        for _ in range(count):
            f, k, n = r.choice("fgh"), r.randint(-9, 9), r.randint(1, 99)
            other = r.choice([i for i in range(-9, 10) if i != k])
            self.add("function", f"{f}({k}) = {n}", n, True)
            self.add("function", f"{f}({k}) = {n}", f"{f}({other}) = {n}", False)
            self.add("function", f"{f}({k}) > {n}", f"{n} < {f}({k})", True)
            self.add("function", f"{f}({k}) > {n}", f"{f}({2 * k + 1}) > {2 * n}", False)
            self.add("function", f"{f}({n}x)", f"{n}{f}(x)", n == 1)
            a, b = sorted(r.sample(range(-20, 20), 2))
            self.add("interval", f"]{a},{b}[", f"({a},{b})", True)
            self.add("interval", f"[{a},{b}[", f"({a},{b}]", False)
            self.add("inequality", f"|x - {n}| < {abs(k) + 1}", f"({n - abs(k) - 1}, {n + abs(k) + 1})", True)
            self.add("inequality", plain(sp.expand((X - a) * (X - b))) + " <= 0", f"[{a}, {b}]", True)
            self.add("inequality", plain(sp.expand((X - a) * (X - b))) + " < 0", f"[{a}, {b}]", False)


# To the first of each: exact by definition.
UNITS = (
    (("m", 1), ("cm", sp.Rational(1, 100)), ("km", 1000), ("inches", sp.Rational(254, 10000)), ("miles", sp.Rational(1609344, 1000))),
    (("seconds", 1), ("min", 60), ("hours", 3600), ("days", 86400), ("s", 1)),
    (("m/s", 1), ("km/h", sp.Rational(10, 36)), ("mph", sp.Rational(1609344, 3600000))),
    (("g", 1), ("kg", 1000), ("mg", sp.Rational(1, 1000)), ("lb", sp.Rational(45359237, 100000))),
    (("dollars", 1), ("cents", sp.Rational(1, 100))),
    (("cm^2", 1), ("m^2", 10000), ("square inches", sp.Rational(64516, 10000))),
)
ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def spelled(n):
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10 - 2] + (f"-{ONES[n % 10]}" if n % 10 else "")
    size, name = (100, "hundred") if n < 1000 else (1000, "thousand") if n < 10**6 else (10**6, "million")
    rest = f" {spelled(n % size)}" if n % size else ""
    return f"{spelled(n // size)} {name}{rest}"


def gsm8k(folder, limit):
    """Pairs GSM8K solutions with forms of the answer, and with the answer of another problem."""
    r = random.Random(1)
    rows = [json.loads(line) for line in (pathlib.Path(folder) / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    answers = [row["answer"].rsplit("####", 1)[1].strip() for row in rows]
    pairs = []
    for row, answer in list(zip(rows, answers))[:limit]:
        number = answer.replace(",", "")
        spelled = r.choice((number, answer, f"${number}", f"{number} dollars", f"{number}.00", rf"\boxed{{{answer}}}", f"#### {answer}",
                            f"Let us see.\nThe answer is {answer}.", f"Therefore, the total cost is {answer} dollars.",
                            f"So the final answer is: **{number}**", f"<answer>{number}</answer>", f"So it takes her ${number} in total."))
        pairs.append(("gsm8k", row["answer"], spelled, True))
        other = r.choice(answers)
        if other.replace(",", "") != number:
            pairs.append(("gsm8k", row["answer"], spelled.replace(answer, other).replace(number, other), False))
    return [p for p in pairs if p[3] or p[1].rsplit("####", 1)[1].strip() not in p[2]]


BY_HAND = pathlib.Path(__file__).resolve().parents[2] / "libs/mathverify/tests/pairs.txt"  # also read by the C++ tests


def by_hand():
    """Returns the pairs of the file, and two with an empty text, which the file cannot contain."""
    yield from (("by hand", "", "", False), ("by hand", "5", "", False))
    for number, line in enumerate(BY_HAND.read_text("utf-8").split("\n"), 1):
        if line and not line.startswith("# "):
            middle = "  ==  " if "  ==  " in line else "  !=  "
            gold, answer = line.split(middle)
            yield f"by hand, {BY_HAND.name}:{number}", gold, answer, middle == "  ==  "


def all_pairs(gsm8k_folder=None, share=1):
    """Returns the hand-labelled pairs and a fraction of the generated ones."""
    pairs = Pairs()
    for kind, number in (("integers", 150), ("rationals", 90), ("percents", 40), ("surds", 30), ("polynomials", 30), ("functions", 30), ("complexes", 30),
                         ("sets", 30), ("matrices", 25), ("equations", 30), ("words", 40), ("units", 40), ("values_of_functions", 30)):
        getattr(pairs, kind)(round(share * number))
    rows = pairs.rows + list(by_hand())
    if gsm8k_folder is not None:
        rows += gsm8k(gsm8k_folder, round(share * 500))
    return list(dict.fromkeys(rows))
