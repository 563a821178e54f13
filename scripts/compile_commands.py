#!/usr/bin/env python3
"""The compile commands of a build folder, one for each source: compile_commands.py BUILD_FOLDER

CMake lists only the files that it compiles. In a unity build (cmake/Unity.cmake) such a file includes several sources,
and an editor or clang-tidy would find no command for them. This prints the list of BUILD_FOLDER with an entry for each
included source in place of the one of its group. A list without groups is printed as it is.
"""

import json
import os
import re
import sys


def sources_of(file: str) -> list[str]:
    """The sources that a file of a unity build includes; none for any other file."""
    if os.path.basename(os.path.dirname(file)) != "Unity":
        return []
    with open(file, encoding="utf-8") as text:
        return re.findall(r'^#include "(/.+)"$', text.read(), re.MULTILINE)


def alone(entry: dict) -> list[dict]:
    """The entry of a file, or one for each source of its group."""
    sources = sources_of(entry["file"])
    if not sources:
        return [entry]
    group = entry["file"]
    return [{"directory": entry["directory"], "command": entry["command"].replace(group, source), "file": source}
            for source in sources]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(os.path.join(sys.argv[1], "compile_commands.json"), encoding="utf-8") as commands:
        entries = json.load(commands)
    json.dump([source for entry in entries for source in alone(entry)], sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
