"""The short form of run.py: a few trials of every kind."""

import sys

import run

if __name__ == "__main__":
    sys.exit(run.main(["--short", "--jobs", "1"]))
