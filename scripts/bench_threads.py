#!/usr/bin/env python3
"""What a second thread of a CPU trainer brings, on cores of its own and beside other work.

    scripts/bench_threads.py [--threads N] [--busy N] [--repeats N] [--only SIZE] [--trainer FILE] [--json]

Trains models of several sizes with one thread and with --threads, in turns, so that what else the machine does
meets both, while --busy processes compute beside them. Ratios are those of neighbors in time. Exit code 1 when
more threads are slower by their median. Needs a finished build.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys

TRAINER = pathlib.Path(__file__).resolve().parent.parent / "build" / "bin" / "shoal-trainer"
# Layers, hidden, heads, context and batch; steps that take a second or so.
SIZES = {
    "2 x 32": ((2, 32, 2, 32, 4), 300),
    "2 x 64": ((2, 64, 2, 64, 16), 40),
    "4 x 128": ((4, 128, 4, 128, 8), 8),
    "6 x 384": ((6, 384, 6, 256, 4), 2),
}
SLOWER = 0.95  # of one thread: what noise may hide


@contextlib.contextmanager
def busy(count):
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def tokens_per_s(options, size, threads):
    names = ("--layers", "--hidden", "--heads", "--context", "--batch")
    model, steps = SIZES[size]
    words = [str(word) for pair in zip(names, model) for word in pair]
    done = subprocess.run([options.trainer, "bench", "--json", "--threads", str(threads), "--steps", str(steps), *words],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["tokens_per_s"]


def measure(options, size):
    speeds = {1: [], options.threads: []}
    for repeat in range(options.repeats):
        for threads in sorted(speeds, reverse=repeat % 2 == 1):
            speeds[threads].append(tokens_per_s(options, size, threads))
    ratios = sorted(more / one for one, more in zip(speeds[1], speeds[options.threads]))
    return {"size": size, "busy": options.busy, "threads": options.threads, "one": statistics.median(speeds[1]),
            "more": statistics.median(speeds[options.threads]), "ratio": statistics.median(ratios),
            "least": ratios[0], "most": ratios[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute beside the trainer")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=sorted(SIZES), action="append")
    parser.add_argument("--trainer", default=TRAINER)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.threads < 2 or options.busy < 0 or options.repeats < 1:
        parser.error("--threads is at least 2, --busy at least 0, --repeats at least 1")
    rows = []
    with busy(options.busy):
        for size in options.only or SIZES:
            rows.append(measure(options, size))
            if not options.json:
                print("| {size} | {busy} | {one:,.0f} | {more:,.0f} | {ratio:.2f} ({least:.2f} to {most:.2f}) |".format(
                    **rows[-1]), flush=True)
    if options.json:
        print(json.dumps(rows, indent=2))
    return 1 if any(row["ratio"] < SLOWER for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
