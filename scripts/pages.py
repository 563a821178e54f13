#!/usr/bin/env python3
"""Whether the pages can be read and what they name is there: links between them with their headings, paths of the
repository in backquotes, the length of pages and lines, and a line for each page in docs/README.md. Prints
file:line: what, like the other checks of lint.sh."""
import glob
import os
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`([\w.*-]+/[\w./*-]*)`")
PLACEHOLDERS = {"migrations/NNNN_name.sql"}
LINES_MOST = 250
HISTORY = "CHANGELOG.md"  # grows with every version
# Columns as they are read, without the targets of links. Cells and commands cannot be broken.
PROSE_MOST, ROW_MOST, CODE_MOST = 100, 160, 120


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


def width_problem(line, in_code):
    if line.startswith("!["):
        return None
    columns = len(LINK.sub("]", line))
    most = CODE_MOST if in_code else ROW_MOST if line.startswith("|") else PROSE_MOST
    return f"over {most} columns" if columns > most else None


def page_problems(page, folders):
    in_code = False
    with open(page, encoding="utf-8") as lines:
        for number, line in enumerate(lines.read().splitlines(), 1):
            if line.lstrip().startswith("```"):
                in_code = not in_code
            yield number, width_problem(line, in_code)
            for target in LINK.findall(line):
                yield number, link_problem(page, target)
            for path in PATH.findall(line):
                yield number, path_problem(path, folders)
            if number == LINES_MOST + 1 and page != HISTORY:
                yield number, f"over {LINES_MOST} lines"


def unlisted(pages, index="docs/README.md"):
    with open(index, encoding="utf-8") as file:
        listed = {os.path.normpath(os.path.join("docs", target)) for target in LINK.findall(file.read())}
    return [page for page in pages if page.startswith("docs/") and page != index and page not in listed]


def main():
    folders = {name for name in os.listdir(".") if os.path.isdir(name) and not name.startswith("build")}
    pages = sorted(glob.glob("*.md")) + sorted(glob.glob("docs/*.md"))
    for page in pages:
        for number, problem in page_problems(page, folders):
            if problem:
                print(f"{page}:{number}: {problem}")
    for page in unlisted(pages):
        print(f"{page}:1: not in docs/README.md")


if __name__ == "__main__":
    sys.exit(main())
