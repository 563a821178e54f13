#!/usr/bin/env python3
"""What Shoal costs a PyTorch program: its inner steps beside those of a plain loop, and the stop at a boundary beside
the C++ trainer's.

usage: bench_python.py [--json] [--python PATH] [--rounds N]

Inner steps: one process takes a step under Shoal and one of a twin in a plain loop, in turn. The stop: two agents
train 10 million parameters with codec int8, jobs of the program and of the C++ trainer in turn; `stall_s` is the
time in which a replica did not train. Expects a finished build in build/.
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import sys

from programs_rig import cluster, job_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/bench_python"
TEXT = FOLDER / "text"
# 9 blocks 304 wide: 10 million parameters with embedding and head.
CPP = "family = \"gpt2\"\nlayers = 9\nhidden = 304\nheads = 4\ncontext = 32\nvocab = 256"


def prepare():
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree(ROOT / "tests/torch", FOLDER / "programs")
    pages = b"".join(page.read_bytes() for page in sorted((ROOT / "docs").glob("*.md")))
    TEXT.write_bytes(pages)


def inner_steps(python, rounds):
    with cluster(ROOT / "build/bin", FOLDER, python, agents=1) as c:
        c.submit("paced", job_file("paced", TEXT, "paced.py", steps=50 * rounds, every=50, batch=8,
                                   model="context = 64"))
        c.finish("paced")
        logs = c.shoal("logs", "paced", "--tail", 1000)
    pairs = [tuple(map(float, pair)) for pair in re.findall(r"paced ([0-9.]+) ([0-9.]+)", logs)]
    if not pairs:
        sys.exit("the program printed no times: " + logs[-2000:])
    mine, plain = (statistics.median(values) for values in zip(*pairs))
    print(f"paced: {mine:.2f} ms, plain {plain:.2f} ms", file=sys.stderr)
    return {"shoal_ms": mine, "plain_ms": plain, "speed": plain / mine, "rounds": len(pairs)}


def stops(python, rounds):
    found = {"program": [], "cpp": []}
    with cluster(ROOT / "build/bin", FOLDER, python, agents=2) as c:
        for number in range(3):
            for kind in found:
                name = f"{kind}{number}"
                entry = "ten_million.py" if kind == "program" else None
                c.submit(name, job_file(name, TEXT, entry, steps=5 * rounds, every=5, batch=1,
                                        model="context = 32" if entry else CPP))
                parameters = c.finish(name)["status"]["parameters"]
                found[kind] += [one["phases"]["stall_s"] for of in c.rounds(name)[1:] for one in of["contributions"]]
                print(f"{name}: {parameters} parameters, {statistics.median(found[kind]):.3f} s", file=sys.stderr)
    mine, cpp = (statistics.median(found[kind]) for kind in ("program", "cpp"))
    return {"program_s": mine, "cpp_s": cpp, "ratio": mine / cpp, "stops": len(found["program"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--python", default="/usr/bin/python3", help="the interpreter that has PyTorch")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    prepare()
    result = {"inner_steps": inner_steps(given.python, given.rounds), "stop": stops(given.python, given.rounds)}
    if given.json:
        return print(json.dumps(result))
    steps, stop = result["inner_steps"], result["stop"]
    print(f"inner step: {steps['shoal_ms']:.2f} ms under Shoal, {steps['plain_ms']:.2f} ms plain: "
          f"{100 * steps['speed']:.1f} % of the plain loop's speed")
    print(f"stop of 10 million parameters: {stop['program_s']:.3f} s, of the C++ trainer {stop['cpp_s']:.3f} s: "
          f"{stop['ratio']:.2f} times")


if __name__ == "__main__":
    main()
