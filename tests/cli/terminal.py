"""Runs the program on a pseudo-terminal of a given width."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

import support


def on_terminal(*arguments, columns=80, both=True, **environment):
    """Returns the exit code and the exact bytes that a pseudo-terminal gets: newlines are not changed. Standard error is included only
    if requested."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    environment = support.environment(**{"TERM": "xterm", **environment})
    process = subprocess.Popen([support.KEEL, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs if both else subprocess.DEVNULL,
                               env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # a pseudo-terminal's error after the other side has closed
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    return process.wait(), text.decode()
