#!/usr/bin/env python3
"""Whether the files that comments of C++ and CUDA name exist; a line per finding.

A path with a folder (decisions/audit.h) is resolved from the folder of the comment and from every folder above it. A
name without one (audit_rounds.cc) may be that of any file. Not checked: paths into folders that are not ours
(linux/tcp.h), and names of files that are no sources of C++, SQL or protobuf, because programs read and write those.
"""
import pathlib
import re
import subprocess
import sys

COMMENT = re.compile(r"//(.*)")
NAME = re.compile(r"(?<![\w./<*-])([\w.-]+(?:/[\w.-]+)*\.(?:h|cc|cu|cuh|py|sh|md|proto|sql|ts|tsx))\b(?![\w/*-])")
LONE = re.compile(r"\.(h|cc|cu|cuh|proto|sql)$")


def tracked():
    listed = subprocess.run(["git", "-c", f"safe.directory={pathlib.Path.cwd()}", "ls-files", "--cached", "--others",
                             "--exclude-standard"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in listed if pathlib.Path(name).is_file()}


def exists(name, source, files, lone):
    if "/" not in name:
        return name in lone or not LONE.search(name)
    return any((folder / name).as_posix() in files for folder in pathlib.PurePath(source).parents)


def main():
    files = tracked()
    folders = {part for name in files for part in pathlib.PurePath(name).parts[:-1]}
    lone = {pathlib.PurePath(name).name for name in files}
    for source in sorted(files):
        if not source.endswith((".h", ".cc", ".cu", ".cuh")):
            continue
        for number, line in enumerate(pathlib.Path(source).read_text(encoding="utf-8").splitlines(), 1):
            comment = COMMENT.search(line)
            for name in NAME.findall(comment.group(1)) if comment else []:
                ours = "/" not in name or name.split("/")[0] in folders
                if ours and not exists(name, source, files, lone):
                    print(f"{source}:{number}: a comment names {name}, which is not here")


if __name__ == "__main__":
    sys.exit(main())
