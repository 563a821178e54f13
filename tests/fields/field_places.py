#!/usr/bin/env python3
"""How many files a new field touches: field_places.py --root SOURCES --scratch FOLDER

In a copy of the sources it adds an option of a job (train.cooldown) and a field of a record that people see
(JobRecord::naps), each where docs/changing.md says, writes the emitted files again, and runs the tests that look at
both (probe.cc). It fails when one of them is not seen somewhere, when another file differs than those that were
edited, and when a field needs more than three files beside its migration. Emitted files (api/openapi.json,
web/src/api_types.ts) are written by a test and count as nobody's work.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

FILES_MOST = 3
FOLDERS = ("base;job;data;threads;identity;outer_opt/core;messages;swarm/core;coordinator/core;proto;transfer;"
           "coordinator/meters;coordinator/store;tests/fields")
EMITTED = {"api/openapi.json", "web/src/api_types.ts"}
EMITTING = "AnswerSchema.*:JobSpecFields.AreThoseOfTheDescribedApi"
MIGRATION = "ALTER TABLE jobs ADD COLUMN naps INTEGER NOT NULL DEFAULT 0;\n"


def member(struct, declaration, name):
    """A member behind the others of a struct, and in front of the list."""
    def listed(match):
        return match[1] + (f"&T::{name}, " if match[1].endswith("<") else f"field<&T::{name}>(), ")

    return [(rf"(^struct {struct} \{{$.*?)(^  bool operator==\(const {struct}&\)|^\}};$)", rf"\1  {declaration}\n\2"),
            (rf"(fields_of\(Of<{struct}>\) \{{.*?return fields[<(])", listed)]


# For each field the edits: a file, named by what it must contain, and what changes in it.
OPTION = {
    r"^struct TrainSpec \{$": member("TrainSpec", "std::int64_t cooldown = 3;", "cooldown"),
    r"^void check_train\(const TrainSpec& train, FieldChecker& checker\) \{$": [
        (r"(^void check_train\(.*?\{\n)", r'\1  checker.within("/train/cooldown", train.cooldown, 0, 1000);\n')],
    r"^\| `train\.seed` \|": [(r"(^\| `train\.seed` \|)", r"| `train.cooldown` | 3 | steps of rest |\n\1")],
}
FIELD = {
    r"^struct JobRecord \{$": member("JobRecord", "std::int64_t naps = 0;", "naps"),
    r"^struct JobStatusAnswer \{$": member("JobStatusAnswer", "std::int64_t naps = 0;", "naps"),
    r"^JobStatusAnswer status_of\(": [(r"(\n +)(\.yields_to = known_if\([^}]*\))\}", r"\1\2,\1.naps = job.naps}")],
}


def tracked(root):
    listed = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "--cached", "--others",
                             "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (root / name).is_file()]


def write(path, data):
    """Only what differs, so that the second run builds little."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def edited(names, root, places):
    """File by file, the text after the edits."""
    changed = {}
    for content, edits in places.items():
        found = [name for name in names if name.endswith((".h", ".cc", ".md")) and not name.startswith("tests/") and
                 re.search(content, changed.get(name) or (root / name).read_text(errors="replace"), re.M)]
        if len(found) != 1:
            sys.exit(f"error: {content} is in {found}, not in one file; mend {__file__}")
        text = changed.get(found[0]) or (root / found[0]).read_text()
        for pattern, replacement in edits:
            text, count = re.subn(pattern, replacement, text, count=1, flags=re.M | re.S)
            if count != 1:
                sys.exit(f"error: {found[0]} has no {pattern}; mend {__file__}")
        changed[found[0]] = text
    return changed


def copy(names, root, tree, changed):
    for name in names:
        write(tree / name, changed[name].encode() if name in changed else (root / name).read_bytes())
    for path in tree.rglob("*"):
        if path.is_file() and str(path.relative_to(tree)) not in names:
            path.unlink()
    last = max(int(path.name[:4]) for path in (tree / "migrations").glob("*.sql"))
    write(tree / f"migrations/{last + 1:04}_naps.sql", MIGRATION.encode())


def build(tree, folder):
    configured = ["cmake", "-S", tree, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DSHOAL_TRAINER=OFF",
                  "-DSHOAL_BENCH=OFF", f"-DSHOAL_FOLDERS={FOLDERS}"]
    subprocess.run(configured, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, "fields_probe"], check=True)


def check(tree, folder):
    probe = folder / "bin/fields_probe"
    for _ in range(2):  # the page's types follow from the document; a test that rewrites fails first
        subprocess.run([probe, f"--gtest_filter={EMITTING}", "--gtest_brief=1"], check=False,
                       env={**os.environ, "SHOAL_REWRITE_GOLDENS": "1"}, stdout=subprocess.DEVNULL)
    subprocess.run([probe, "--gtest_brief=1"], check=True)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--root", type=pathlib.Path, required=True)
    options.add_argument("--scratch", type=pathlib.Path, required=True)
    given = options.parse_args()
    tree, folder = given.scratch / "tree", given.scratch / "build"
    names = tracked(given.root)
    by_field = {"option train.cooldown": edited(names, given.root, OPTION),
                "field JobRecord::naps": edited(names, given.root, FIELD)}
    changed = {name: text for texts in by_field.values() for name, text in texts.items()}
    copy(names, given.root, tree, changed)
    build(tree, folder)
    check(tree, folder)
    differing = {name for name in names if (tree / name).read_bytes() != (given.root / name).read_bytes()}
    failed = differing != set(changed) | EMITTED
    if failed:
        print(f"error: {sorted(differing ^ (set(changed) | EMITTED))} should not differ, or should", file=sys.stderr)
    for field, texts in by_field.items():
        print(f"{field}: {len(texts)} files: {', '.join(sorted(texts))}")
        if len(texts) > FILES_MOST:
            print(f"error: {field} touches more than {FILES_MOST} files", file=sys.stderr)
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
