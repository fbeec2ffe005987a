"""Compares how Keel and pyarrow read data files.

Parquet with the nested schema of verl, many rows, in all common codecs and encodings; unusual types; damaged pages; and
the same rows as JSON lines, plain and compressed.
"""

import datetime
import decimal
import gzip
import importlib.util
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import uuid

from packages import ROOT, count

TESTS = ROOT / "build" / "tests" / "keel_tests"
ROWS = count(10_000, 100_000)
SOME_ROWS = count(4_000, 8_000)  # in rare formats


def verl_rows(size, seed):
    draw = random.Random(seed)
    words = ["how", "many", "größe", "日本語", "😀", "x\ny", '"quoted"', "\\frac{1}{2}", "", "tab\t", "\u2028"]
    rows = []
    for i in range(size):
        text = " ".join(draw.choices(words, k=draw.randint(0, 12)))
        messages = [{"role": "user", "content": text}]
        if draw.random() < 0.5:
            messages.insert(0, {"role": "system", "content": draw.choice(words)})
        rows.append({
            "data_source": draw.choice(["openai/gsm8k", "math", None]),
            "prompt": messages if draw.random() < 0.99 else draw.choice([[], None]),
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(draw.randint(-10**9, 10**9))} if draw.random() < 0.98 else None,
            "extra_info": {"split": "train", "index": i, "answer": draw.choice([None, text]),
                           "scores": [draw.random() for _ in range(draw.randint(0, 3))],
                           "nested": [[1, None], [], None] if draw.random() < 0.1 else None},
        })
    return rows


def odd_table(pa):
    """Returns other types than those of verl, with the expected JSON values."""
    columns = {
        "int8": (pa.int8(), [-128, None, 127], [-128, None, 127]),
        "uint64": (pa.uint64(), [2**64 - 1, 0, None], [2**64 - 1, 0, None]),
        "int64": (pa.int64(), [-2**63, 2**63 - 1, 0], [-2**63, 2**63 - 1, 0]),
        "half": (pa.float16(), [1.5, math.nan, -0.0999755859375], [1.5, None, -0.0999755859375]),
        "float": (pa.float32(), [0.5, math.nan, None], [0.5, None, None]),
        "double": (pa.float64(), [0.1, math.inf, 1e300], [0.1, None, 1e300]),
        "bool": (pa.bool_(), [True, False, None], [True, False, None]),
        "large": (pa.large_string(), ["a", None, "ü"], ["a", None, "ü"]),
        "bytes": (pa.binary(), [b"text", b"\xff\x00", b"\x00"], ["text", None, None]),
        "view": (pa.string_view(), ["a long text", None, ""], ["a long text", None, ""]),
        "fixed_bytes": (pa.binary(3), [b"abc", b"a\x00c", None], ["abc", None, None]),
        "uuid": (pa.uuid(), [uuid.UUID(int=5).bytes, None, uuid.UUID(int=2**127 + 77).bytes],
                 [str(uuid.UUID(int=5)), None, str(uuid.UUID(int=2**127 + 77))]),
        "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", "x"], ["x", "y", "x"]),
        "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", 2)], [], None], [[["k", 1], ["l", 2]], [], None]),
        "fixed": (pa.list_(pa.int32(), 2), [[1, 2], None, [3, 4]], [[1, 2], None, [3, 4]]),
        "date": (pa.date32(), [datetime.date(2024, 2, 29), None, None], ["2024-02-29", None, None]),
        "decimal": (pa.decimal128(10, 2), [decimal.Decimal("12.50"), None, None], ["12.50", None, None]),
        "decimal32": (pa.decimal32(5, 1), [decimal.Decimal("-0.5"), None, None], ["-0.5", None, None]),
        "timestamp": (pa.timestamp("us"), [datetime.datetime(2024, 2, 29, 1, 2, 3, 4), None, None],
                      ["2024-02-29 01:02:03.000004", None, None]),
        "duration": (pa.duration("ms"), [datetime.timedelta(days=1, milliseconds=500), None, None], [86400.5, None, None]),
        "null": (pa.null(), [None] * 3, [None] * 3),
    }
    table = pa.table({name: pa.array(values, type) for name, (type, values, _) in columns.items()})
    expected = [{name: wanted[i] for name, (_, _, wanted) in columns.items()} for i in range(3)]
    return table, expected


def list_views(pa):
    """Returns conversations and lists in both kinds of list views, enough for several batches."""
    draw = random.Random(7)
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    prompts = [draw.choice([None, [], [{"role": "user", "content": f"q{i}"}],
                            [{"role": "system", "content": None}, {"role": "user", "content": f"q{i}"}]]) for i in range(1000)]
    numbers = [draw.choice([None, [i, None], [], list(range(i % 9))]) for i in range(1000)]
    return pa.table({"prompt": pa.array(prompts, pa.list_view(message)),
                     "numbers": pa.array(numbers, pa.large_list_view(pa.int64())),
                     "nested": pa.array([x and [x, x] for x in numbers], pa.list_view(pa.list_(pa.int64())))})


def with_skippable_frames(pa, lines):
    """Compresses with zstd like pzstd: a skippable frame with the size precedes each frame."""
    cut = lines.index(b"\n", len(lines) // 2) + 1
    frames = [pa.Codec("zstd").compress(part, asbytes=True) for part in (lines[:cut], lines[cut:])]
    return b"".join(struct.pack("<III", 0x184D2A50, 4, len(frame)) + frame for frame in frames)


def damaged_page(path, group_start):
    """Corrupts bytes of a data page."""
    data = bytearray(path.read_bytes())
    for i in range(group_start + 200, group_start + 260):
        data[i] ^= 0x5A
    path.write_bytes(data)


class Comparison:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.files, self.judges = [], []

    def add(self, name, judge):
        """`judge` gets the lines that Keel wrote for the file, and raises AssertionError on a difference."""
        self.files.append(self.folder / name)
        self.judges.append(judge)
        return self.folder / name

    def run(self):
        listed = self.folder / "list.tsv"
        listed.write_text("".join(f"{file}\t{file}.out\n" for file in self.files))
        done = subprocess.run([TESTS, "--gtest_filter=DataRowsParity.*"], cwd=ROOT, capture_output=True, text=True,
                              env=os.environ | {"KEEL_DATA_LIST": str(listed)})
        assert done.returncode == 0, done.stdout + done.stderr
        failed = 0
        for file, judge in zip(self.files, self.judges):
            try:
                lines = pathlib.Path(f"{file}.out").read_text(encoding="utf-8").split("\n")[:-1]
                judge([json.loads(line) for line in lines])
                print(f"ok      {file.name}")
            except AssertionError as error:
                failed += 1
                print(f"FAILED  {file.name}: {error}")
        return failed


def equal_to(expected):
    def judge(lines):
        got = [line.get("row", line) for line in lines]
        assert len(got) == len(expected), f"{len(got)} rows, expected {len(expected)}; the last: {got[-1:]}"
        for i, (ours, theirs) in enumerate(zip(got, expected)):
            assert ours == theirs, f"row {i}: got {ours}, expected {theirs}"
    return judge


def lost_in_group(group, expected, group_rows):
    """Expects that row group `group` is partly lost and counted, and all others are complete."""
    def judge(lines):
        bad = [line for line in lines if "bad" in line]
        assert len(bad) == 1 and f"row group {group + 1}, row " in bad[0]["bad"], bad[:3]
        good = [line["row"] for line in lines if "row" in line]
        assert len(good) + bad[0]["rows"] == len(expected), (len(good), bad)
        kept = group_rows - bad[0]["rows"]
        begin = group * group_rows
        assert good == expected[:begin + kept] + expected[begin + group_rows:], "other rows changed"
    return judge


def is_error(word):
    def judge(lines):
        assert len(lines) == 1 and word in lines[0].get("error", ""), lines[:2]
    return judge


def one_bad(number, word):
    def judge(lines):
        bad = [(i, line["bad"]) for i, line in enumerate(lines) if "bad" in line]
        assert len(bad) == 1 and bad[0][0] == number and word in bad[0][1], bad
    return judge


def add_verl_files(compare, pa, pq):
    """All rows in common codecs, with dictionary and plain pages; some rows in rare formats."""
    table = pa.Table.from_pylist(verl_rows(ROWS, seed=1))
    small = table.slice(0, SOME_ROWS)
    full, part = table.to_pylist(), small.to_pylist()
    for number, codec in enumerate(("snappy", "zstd", "gzip")):
        for dictionary in count((number % 2 == 0,), (True, False)):
            path = compare.add(f"{codec}_{'dictionary' if dictionary else 'plain'}.parquet", equal_to(full))
            pq.write_table(table, path, compression=codec, use_dictionary=dictionary)
            assert pq.read_table(path).equals(table), "pyarrow does not read what it wrote"
    shapes = {"none": {"compression": "none", "use_dictionary": False}, "many_groups": {"row_group_size": 777},
              "pages_2": {"data_page_version": "2.0"}, "small_pages": {"data_page_size": 512, "compression": "lz4"}}
    for name, options in shapes.items():
        path = compare.add(f"{name}.parquet", equal_to(part))
        pq.write_table(small, path, **options)
        assert pq.read_table(path).equals(small), "pyarrow does not read what it wrote"
    return small


def add_bombs(compare, pa, pq):
    """Small files that expand to gigabytes, and a harmless one with a long prompt in all rows."""
    def writer(name, judge, table, **options):
        path = compare.add(name, judge)
        pq.write_table(table, path, compression="zstd", **options)
        return path.stat().st_size

    many = count(17_000_000, 200_000_000)
    nulls = pa.table({"prompt": pa.nulls(many, pa.string())})  # 17 times as many bytes as JSON, of which 256 MiB are harmless
    assert writer("nulls.parquet", is_error("at most 1000 times, as a guard"), nulls, row_group_size=many) < 1_000_000
    same = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000_000, pa.int32()), pa.array(["x" * 10_000]))
    assert writer("same.parquet", is_error("at most 1000 times, as a guard"), pa.table({"prompt": same})) < 100_000
    # One row with more than a gigabyte of nulls in a list, and 64 rows of 100 MB each: too large for memory, reported as bad rows.
    many, kind = count((100_000_000, pa.int64()), (300_000_000, pa.bool_()))
    wide = pa.ListArray.from_arrays(pa.array([0, many], pa.int32()), pa.nulls(many, kind))
    writer("wide.parquet", one_bad(0, "unreadable"), pa.table({"prompt": wide}))
    heavy = pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), pa.array(["x" * 100_000_000]))
    writer("heavy.parquet", lambda lines: None if lines and all("bad" in line for line in lines) else fail(lines),
           pa.table({"prompt": heavy}))
    # 300 MB of rows from a 1 MB file, like a data set with a long system prompt.
    draw = random.Random(3)
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array(["You are a careful helper. " * 120]))
    honest = pa.table({"system": shared, "prompt": [f"{draw.getrandbits(40)} + {draw.getrandbits(40)} =" for _ in range(ROWS)]})
    assert writer("honest.parquet", equal_to(honest.to_pylist()), honest) < 1_500_000


def fail(lines):
    raise AssertionError(str(lines[:2])[:500])


def main():
    if importlib.util.find_spec("pyarrow") is None:
        print("pyarrow is not here: nothing was compared")
        return 77
    import pyarrow as pa
    import pyarrow.parquet as pq

    if "KEEL_ARROW:BOOL=OFF" in (ROOT / "build" / "CMakeCache.txt").read_text():
        print("this build has no Arrow: nothing was compared")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        compare = Comparison(folder)
        small = add_verl_files(compare, pa, pq)
        rows = small.to_pylist()

        odd, expected = odd_table(pa)
        pq.write_table(odd, compare.add("odd_types.parquet", equal_to(expected)))
        views = list_views(pa)
        path = compare.add("list_views.parquet", equal_to(views.to_pylist()))
        pq.write_table(views, path, row_group_size=300)
        assert pq.read_table(path).equals(views), "pyarrow does not read what it wrote"
        pq.write_table(small.slice(0, 0), compare.add("empty.parquet", equal_to([])))

        # Damage in the second of four row groups; with checksums it is also detected in plain pages.
        for name, options in {"damaged_snappy": {}, "damaged_gzip": {"compression": "gzip"}, "damaged_zstd": {"compression": "zstd"},
                              "damaged_plain": {"compression": "none", "use_dictionary": False, "write_page_checksum": True}}.items():
            path = compare.add(f"{name}.parquet", lost_in_group(1, rows, SOME_ROWS // 4))
            pq.write_table(small, path, row_group_size=SOME_ROWS // 4, **options)
            start = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
            damaged_page(path, start)
        whole = compare.add("cut.parquet", is_error("not a valid Parquet file"))
        pq.write_table(small, whole)
        whole.write_bytes(whole.read_bytes()[:-100])

        add_bombs(compare, pa, pq)

        # Invalid UTF-8 in a string column: pyarrow writes it unchecked.
        texts = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc")])
        pq.write_table(pa.table({"prompt": texts}), compare.add("utf8.parquet", one_bad(1, "row group 1, row 2 (both from 1): unreadable: ")))
        pq.write_table(pa.table({"prompt": ["a", "b\0c"]}), compare.add("nul.parquet", one_bad(1, "row group 1, row 2 (both from 1): a NUL")))

        lines = "".join(json.dumps(row, ensure_ascii=i % 2 == 0) + "\n" for i, row in enumerate(rows)).encode()
        compare.add("rows.jsonl", equal_to(rows)).write_bytes(lines)
        compare.add("rows.jsonl.gz", equal_to(rows)).write_bytes(gzip.compress(lines))
        compare.add("rows.jsonl.zst", equal_to(rows)).write_bytes(pa.Codec("zstd").compress(lines, asbytes=True))
        compare.add("skippable.jsonl.zst", equal_to(rows)).write_bytes(with_skippable_frames(pa, lines))
        if shutil.which("pzstd"):
            path = compare.add("pzstd.jsonl.zst", equal_to(rows))
            subprocess.run(["pzstd", "-q", "-p", "2", compare.folder / "rows.jsonl", "-o", path], check=True)
        return 1 if compare.run() else 0


if __name__ == "__main__":
    sys.exit(main())
