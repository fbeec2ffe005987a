"""Writes libs/hftext/jinja/objects/python_str_tables.cpp: the character properties of Python's str as sorted tables.

    python3 scripts/make_unicode_tables.py > libs/hftext/jinja/objects/python_str_tables.cpp

Chat templates rely on Python strings, so the tables come from str.upper, str.isprintable and other methods for every
code point.
"""

import sys
import unicodedata

LAST = 0x110000


def run_lengths(holds):
    """Lengths of the runs of code points with the same answer, starting with a run for which holds() is false."""
    result, before, begin = [], False, 0
    for code in range(LAST):
        now = holds(chr(code))
        if now != before:
            result.append(code - begin)
            begin = code
        before = now
    return result


def cases(convert):
    """Runs {first, last, stride, delta} of one-to-one mappings, and the mappings to several characters."""
    runs, expansions = [], []
    for code in range(LAST):
        if 0xD800 <= code < 0xE000:
            continue
        text = convert(chr(code))
        if text == chr(code):
            continue
        if len(text) > 1:
            expansions.append((code, [ord(c) for c in text] + [0] * (3 - len(text))))
            continue
        delta = ord(text) - code
        if runs:
            first, last, stride, d = runs[-1]
            step = code - last
            if d == delta and (step == stride or (first == last and step in (1, 2))):
                runs[-1] = [first, code, step, d]
                continue
        runs.append([code, code, 1, delta])
    return runs, expansions


def write(kind, name, items):
    print(f"const {kind} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 120:
            print(line)
            line = "   "
        line += ("" if item.isdigit() and line != "   " else " ") + item + ","
    print(line + "\n};")
    print(f"const size_t {name}Size = {len(items)};\n")


def is_case_ignorable(char):
    # str.lower() ignores these characters when it decides whether a sigma is final.
    return ("a" + char + "\u03a3").lower().endswith("\u03c2") and ("." + char + "\u03a3").lower().endswith("\u03c3")


print('#include "libs/hftext/jinja/objects/python_str_tables.h"\n')
print(f"// Written by scripts/make_unicode_tables.py (Unicode {unicodedata.unidata_version}); do not edit.\n")
print("// clang-format off\nnamespace keel::jinja {\n")
properties = {
    "kPrintable": str.isprintable,
    "kAlpha": str.isalpha,
    "kDecimal": str.isdecimal,
    "kDigit": str.isdigit,
    "kNumeric": str.isnumeric,
    "kLower": str.islower,
    "kUpper": str.isupper,
    "kTitle": lambda c: unicodedata.category(c) == "Lt",
    "kCaseIgnorable": is_case_ignorable,
}
for name, holds in properties.items():
    write("uint32_t", name, [str(length) for length in run_lengths(holds)])
for name, convert in {"Upper": str.upper, "Lower": str.lower, "Title": str.title}.items():
    runs, expansions = cases(convert)
    write("CaseRun", f"kTo{name}", [f"{{{a:#x}, {b:#x}, {s}, {d}}}" for a, b, s, d in runs])
    write("CaseExpansion", f"kTo{name}Many", [f"{{{c:#x}, {{{', '.join(hex(x) for x in m)}}}}}" for c, m in expansions])
print("}  // namespace keel::jinja")
sys.stdout.flush()
