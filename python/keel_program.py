"""Becomes the program `keel` that came with the module: apart from it, because the program needs no Python and no torch import."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keel", "bin", "keel")
    if not os.path.exists(program):
        sys.exit("keel: the module was installed without the program (KEEL_PROGRAM=OFF); pip install . in Keel's repository brings both.")
    os.execv(program, ["keel", *sys.argv[1:]])
