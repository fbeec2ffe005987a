"""Prints the ten slowest tests of a ctest run.

    scripts/slowest_tests.py build/Testing/entries.xml      written by ctest --output-junit
"""

import sys
import xml.etree.ElementTree

cases = xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase")
times = sorted(((float(case.get("time")), case.get("name")) for case in cases), reverse=True)
print(f"The slowest of {len(times)} tests ({sum(seconds for seconds, _ in times):.0f} s together):")
for seconds, name in times[:10]:
    print(f"{seconds:8.1f} s  {name}")
