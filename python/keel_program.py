"""Becomes the program `keel` that came with the module: apart from it, because the program needs no Python and no torch import."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keel", "bin", "keel")
    os.execv(program, ["keel", *sys.argv[1:]])
