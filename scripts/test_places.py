#!/usr/bin/env python3
"""Whether tests and what they share lie where one looks for them; a line per finding.

A header outside tests/ that nothing but tests includes is called *_test_util.h, and only tests include
one of that name. A source of a core has a test of its own name beside it; those that have none yet are in
untested_sources.txt, which may only become shorter.
"""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORES = ("agent/core/", "coordinator/core/", "outer_opt/core/", "replica/core/", "swarm/core/")
UNTESTED = "scripts/untested_sources.txt"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def sources():
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.h",
         "*.cc", "*.cu", "*.cuh"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in sorted(set(listed)) if (ROOT / name).is_file()]


def stem(name):
    return name.rsplit(".", 1)[0]


def is_test(name):
    return name.startswith("tests/") or stem(name).endswith(("_test", "_test_util"))


def misnamed(names):
    users = {}
    for name in names:
        for header in INCLUDE.findall((ROOT / name).read_text()):
            users.setdefault(header, []).append(name)
    for header in names:
        if not header.endswith(".h") or header.startswith("tests/"):
            continue
        foreign = [user for user in users.get(header, []) if stem(user) != stem(header) and not is_test(user)]
        if stem(header).endswith("_test_util"):
            for user in foreign:
                yield f"{user}:1: is no test, and includes {header}"
        # A source of its own, or a test of its own, makes it a part of the product.
        elif users.get(header) and not foreign and not {stem(header) + ".cc", stem(header) + "_test.cc"} & set(names):
            yield f"{header}:1: only tests include it: call it *_test_util.h"


def untested(names):
    known = set(names)
    lines = (ROOT / UNTESTED).read_text().splitlines()
    allowed = {line: number for number, line in enumerate(lines, 1) if line and not line.startswith("#")}
    for name in names:
        if not name.startswith(CORES) or not name.endswith(".cc") or is_test(name):
            continue
        tested = stem(name).removesuffix("_avx2")  # the same source for another processor
        if tested + "_test.cc" in known:
            if name in allowed:
                yield f"{UNTESTED}:{allowed[name]}: {name} has a test now"
        elif name not in allowed:
            yield f"{name}:1: no {pathlib.PurePath(tested).name}_test.cc beside it"
    for name, number in allowed.items():
        if name not in known:
            yield f"{UNTESTED}:{number}: there is no {name}"


if __name__ == "__main__":
    all_sources = sources()
    for finding in [*misnamed(all_sources), *untested(all_sources)]:
        print(finding)
