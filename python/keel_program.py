"""Executes the program `keel` installed with the module. A separate file, so that torch is not imported."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keel", "bin", "keel")
    if not os.path.exists(program):
        sys.exit("keel: the module was installed without the program (KEEL_PROGRAM=OFF); pip install . in Keel's repository installs both.")
    os.execv(program, ["keel", *sys.argv[1:]])
