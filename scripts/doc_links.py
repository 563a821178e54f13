#!/usr/bin/env python3
"""Whether what the pages name is there: links between them with their headings, and paths of the repository in
backquotes. Prints file:line: what, like the other checks of lint.sh."""
import glob
import os
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`([\w.*-]+/[\w./*-]*)`")
PLACEHOLDERS = {"migrations/NNNN_name.sql"}


def anchor(heading):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("#").strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page):
    with open(page, encoding="utf-8") as lines:
        return {anchor(line) for line in lines if line.startswith("#")}


def link_problem(page, target):
    if re.match(r"[a-z]+:", target):
        return None
    path, _, heading = target.partition("#")
    file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not os.path.exists(file):
        return f"no file {path}"
    if heading and heading not in anchors(file):
        return f"no heading #{heading} in {file}"
    return None


def path_problem(path, folders):
    named_here = path.split("/")[0] in folders and path not in PLACEHOLDERS
    return f"no {path} here" if named_here and not glob.glob(path) else None


def main():
    folders = {name for name in os.listdir(".") if os.path.isdir(name) and not name.startswith("build")}
    for page in ["README.md", *sorted(glob.glob("docs/*.md"))]:
        with open(page, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                problems = [link_problem(page, target) for target in LINK.findall(line)]
                problems += [path_problem(path, folders) for path in PATH.findall(line)]
                for problem in filter(None, problems):
                    print(f"{page}:{number}: {problem}")


if __name__ == "__main__":
    sys.exit(main())
