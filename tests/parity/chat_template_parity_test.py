"""Chat templates rendered by Keel and by transformers (jinja2): the same bytes, the same refusals, the same spans.

Real templates and templates in the style of other families with random conversations, and random templates.
"""

import logging
import random
import sys

import random_conversations
import random_templates
import real_templates
from packages import count
from random_conversations import FAMILY_TEMPLATES

try:
    import template_judge
except ImportError as error:
    print(f"cannot compare: {error}; install transformers and jinja2")
    sys.exit(77)

logging.disable(logging.WARNING)  # transformers warns about templates without {% generation %}


def is_known(row, theirs, mine):
    """Accepted differences: Python integers are unbounded, and Python prints addresses of objects."""
    error = mine.get("error", "")
    if "64 bits" in error or "too large" in error or "is not supported" in error:
        return True
    # jinja2 folds a slice of a number literal, (1)[::2], into an undefined value, but not of a variable.
    return "cannot be sliced" in error or " at 0x" in theirs.get("text", "")


def compare(title, rows):
    found = [difference for difference in template_judge.differences(rows) if not is_known(*difference)]
    print(f"{title}: {len(rows)} rows, {len(found)} differences", flush=True)
    for row, theirs, mine in found[:5]:
        print(f"--- {row['template'][:1500]!r}\n  messages {row['messages']}\n  extra {row['extra']}\n  theirs {theirs}\n  ours   {mine}")
    return len(found)


def conversations(templates, each, seed):
    draws = random.Random(seed)
    return [{"template": template, "messages": random_conversations.messages(draws), "extra": random_conversations.extra(draws)}
            for template in templates.values() for _ in range(each)]


def main():
    each = count(4, 20)
    different = compare("templates of further families", conversations(FAMILY_TEMPLATES, each, 1))
    draws = random.Random(2)
    different += compare("random templates", [random_templates.row(draws) for _ in range(count(500, 2000))])
    real = real_templates.load()
    if real:
        different += compare(f"{len(real)} real templates", conversations(real, each, 3))
    if different:
        sys.exit(1)
    if not real:
        print("the rest agrees, but there are no real templates; scripts/bootstrap.sh --tests installs them")
        sys.exit(77)


if __name__ == "__main__":
    main()
