"""The table of metric names in docs/metrics.md: Keel names are in the table of metrics on that page, TRL and verl names are
in their sources, and the versions match the installed packages."""

import importlib.metadata
import importlib.util
import pathlib
import re
import sys

from packages import folder_of

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def section(title):
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def cells(text):
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return rows[2:]  # without the header


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def our_names():
    """Expands `completion/length_mean`, `length_max` to include completion/length_max."""
    found = set()
    for row in cells(section("RL rows")):
        above = ""
        for name in names(row[0]):
            above = name.rpartition("/")[0] or above
            found.add(name if "/" in name or not above else f"{above}/{name}")
    return found


def sources(peer, *folders):
    here = folder_of(peer)
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for folder in folders for path in sorted((here / folder).rglob("*.py")))


def is_written(name, text):
    """Whether the source has the full name, or the parts that it joins: timing_s/{name}, rewards/{name}/mean, prefix and key."""
    if f'"{name}"' in text or f'"{name.replace("NAME", "{reward_func_name}")}"' in text:
        return True
    prefix, _, key = name.partition("/")
    put_together = {"timing_s": 'f"timing_s/{name}"', "actor": 'rename_dict(actor_output, "actor/")', "critic": 'rename_dict(output, "critic/")'}
    return prefix in put_together and put_together[prefix] in text and f'"{key}"' in text


def main():
    table = cells(section("The names in TRL and verl"))
    head = section("The names in TRL and verl")
    folder_of("trl"), folder_of("verl")
    for peer, name in (("trl", "TRL"), ("verl", "verl")):
        (version,) = [found.version for found in importlib.metadata.distributions(path=[str(folder_of(peer))]) if found.metadata["Name"] == peer]
        assert f"{name} {version}" in head, (name, version)
    known = our_names()
    transformers = importlib.util.find_spec("transformers")
    trainer = (pathlib.Path(transformers.origin).parent / "trainer.py").read_text(encoding="utf-8") if transformers else ""
    texts = [sources("trl", "trl/trainer") + trainer, sources("verl", "verl")]
    assert len(table) > 20
    for ours, trl, verl, _ in table:
        assert names(ours) and set(names(ours)) <= known, (ours, set(names(ours)) - known)
        for cell, text in ((trl, texts[0]), (verl, texts[1])):
            assert cell == "-" or names(cell), cell
            for name in names(cell):
                assert is_written(name, text), name
    print(f"{len(table)} rows: names of {len(known)} metrics, and of TRL's and verl's sources")


if __name__ == "__main__":
    sys.exit(main())
