"""Renders templates with transformers and with the test program of Keel."""

import datetime
import json
import os
import subprocess
import tempfile

import transformers.utils.chat_template_utils as reference

NOW = datetime.datetime(2026, 3, 7, 9, 5, 2)


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


reference.datetime = FixedClock


def expected(row):
    """Returns {text, spans} or {error} of transformers; spans are in bytes."""
    try:
        extra = dict(row["extra"])
        named = {name: extra.pop(name, default) for name, default in (("tools", None), ("documents", None), ("add_generation_prompt",
                                                                                                             False))}
        if not row["messages"]:
            raise ValueError("an empty conversation")
        texts, spans = reference.render_jinja_template(conversations=[row["messages"]], chat_template=row["template"],
                                                       return_assistant_tokens_mask=True, **named, **extra)
    except RecursionError as error:
        return {"error": repr(error)[:300]}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    text = texts[0]
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return {"error": "a lone surrogate"}
    return {"text": text, "spans": [[len(text[:i].encode("utf-8")) for i in span] for span in spans[0]]}


def ours(rows):
    """Returns one result per row, from the test program in the folder of KEEL_BINARY."""
    tests = os.path.join(os.path.dirname(os.environ["KEEL_BINARY"]), "tests", "keel_tests")
    now = [NOW.year, NOW.month, NOW.day, NOW.hour, NOW.minute, NOW.second, NOW.isoweekday() % 7, NOW.timetuple().tm_yday - 1]
    with tempfile.TemporaryDirectory() as folder:
        given, results = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "results.jsonl")
        with open(given, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps({**row, "now": now}, ensure_ascii=False) + "\n")
        subprocess.run([tests, "--gtest_filter=ChatTemplateParity.*"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "KEEL_TEMPLATE_ROWS": given, "KEEL_TEMPLATE_RESULTS": results})
        with open(results, encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().split("\n")[:-1]]


def differences(rows):
    """Returns (row, expected, ours) for every row with different results or errors."""
    result = []
    for row, mine in zip(rows, ours(rows), strict=True):
        theirs = expected(row)
        same = mine.get("text") == theirs.get("text") and ("error" in mine) == ("error" in theirs)
        if same and "spans" in theirs and mine["spans"] != theirs["spans"]:
            same = False
        if not same:
            result.append((row, theirs, mine))
    return result
