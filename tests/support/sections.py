import pathlib
import re


def sections(path):
    """{NAME: text} of a file whose sections begin with a line "=== NAME"; the lines before the first one are a comment."""
    parts = re.split(r"(?m)^=== (.*)\n", pathlib.Path(path).read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2]))
