"""The programs that a wheel carries (`./dev wheel`), as commands of the environment that it is
installed in: `shoal up --trainer-root .` then runs programs with this environment's PyTorch."""

import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def main():
    program = os.path.join(FOLDER, os.path.basename(sys.argv[0]))
    os.environ.setdefault("SHOAL_PYTHON", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])
