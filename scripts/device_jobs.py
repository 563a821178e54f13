#!/usr/bin/env python3
"""Jobs of whole clusters on the device of one machine: a part of scripts/device_check.sh.

usage: device_jobs.py PROGRAMS [--devices cuda|cpu] [--python PATH] JOB...

  mixed     the C++ trainer: two replicas on the device and one on the CPU, in fragments with overlap
  boundary  the C++ trainer: how long two replicas stop at boundaries, beside what their line needs
  example   examples/python/train.py: two replicas on the device, the package in PROGRAMS/../python
  llama     a Llama of `transformers`, likewise

PROGRAMS holds shoal, shoal-agent, shoal-coordinator and the shoal-trainer of the jobs. With cpu the same on the
CPU, and smaller.
"""
import argparse
import pathlib
import shutil
import statistics
import sys

from programs_rig import cluster, job_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build-device-jobs"
TEXT = FOLDER / "text"
MBIT = 1000  # of each replica's line, both ways
LARGE = "layers = 24\nhidden = 1024\nheads = 16\ncontext = 512\nvocab = 256"  # 305 M parameters
SMALL = "layers = 4\nhidden = 128\nheads = 4\ncontext = 64\nvocab = 256"


def prepare():
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree(ROOT / "tests/torch", FOLDER / "programs")
    shutil.copy(ROOT / "examples/python/train.py", FOLDER / "programs")
    shutil.copytree(ROOT / "tests/golden/transformers/llama3", FOLDER / "programs/llama3")
    TEXT.write_bytes(b"".join(page.read_bytes() for page in sorted((ROOT / "docs").glob("*.md"))))


def start(given, link=None):
    """A cluster whose agents 2 and 3 have the device; the one of `shoal up` has the CPU."""
    c = cluster(given.programs, FOLDER, given.python, agents=1)
    return c, {"devices": "auto" if given.devices == "cuda" else "cpu:1", "link": link}


def join_two(c, how):
    for number in (2, 3):
        c.join_agent(number, **how)
    c.wait("agents", lambda: len(c.get("/agents")["items"]) == 3, "three agents did not join")


def finish(c, name, replicas):
    job, rounds = c.finish(name), c.rounds(name)
    last = [one for one in rounds[-1]["contributions"] if one["state"] == "committed"]
    if len(last) != replicas:
        sys.exit(f"{name}: {len(last)} of {replicas} replicas contributed to the last round")
    for one in rounds[1:]:
        if len({c["digest"] for c in one["contributions"] if c["state"] == "committed"}) > 1:
            sys.exit(f"{name}: round {one['round']}: averages differ")
    losses = [one["train_loss"] for one in rounds if one["train_loss"]]
    print(f"{name}: {len(rounds)} rounds of {replicas} replicas, loss {losses[0]:.3f} to {losses[-1]:.3f}, held out "
          f"{job['status']['validation_loss']:.3f}", flush=True)
    if not losses[-1] < losses[0]:
        sys.exit(f"{name}: the loss did not fall")
    return rounds


def mixed(given):
    manager, how = start(given)
    with manager as c:
        join_two(c, how)
        job = job_file("mixed", TEXT, steps=200, every=20, model="layers = 4\nhidden = 64\nheads = 4\ncontext = 64")
        c.submit("mixed", job.replace("[sync]", "[sync]\nfragments = 2\noverlap_steps = 2\nblend = 0.5"))
        finish(c, "mixed", 3)


def boundary(given):
    manager, how = start(given, f"up={MBIT}mbit,down={MBIT}mbit")
    with manager as c:
        join_two(c, how)
        c.shoal("agent", "cordon", "agent-1")
        on_gpu = given.devices == "cuda"
        job = job_file("boundary", TEXT, steps=40, every=10, batch=4, model=LARGE if on_gpu else SMALL)
        if on_gpu:
            job = job.replace("[train]", '[train]\nprecision = "bf16"')
        c.submit("boundary", job.replace("[eval]\nbatches = 20", "[eval]\nbatches = 1"))
        stops = [(one["phases"]["stall_s"], one["bytes_sent"] * 8e-6 / MBIT)
                 for of in finish(c, "boundary", 2)[2:] for one in of["contributions"]]
        stall, line = (statistics.median(values) for values in zip(*stops))
        print(f"boundary: stops {stall:.3f} s, the line alone needs {line:.3f} s: {100 * line / stall:.0f} %")


def program(given, name, entry, steps):
    manager, how = start(given)
    with manager as c:
        join_two(c, how)
        c.shoal("agent", "cordon", "agent-1")
        c.submit(name, job_file(name, TEXT, entry, steps=steps, every=20))
        finish(c, name, 2)


def example(given):
    program(given, "example", "train.py", 100)


def llama(given):
    program(given, "llama", "llama.py", 60)


JOBS = {"mixed": mixed, "boundary": boundary, "example": example, "llama": llama}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", help="the folder of shoal and its programs")
    parser.add_argument("jobs", nargs="+", choices=JOBS, metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--devices", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--python", default=shutil.which("python3"), help="the interpreter that has PyTorch")
    given = parser.parse_args()
    prepare()
    for name in given.jobs:
        JOBS[name](given)


if __name__ == "__main__":
    main()
