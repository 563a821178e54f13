#!/usr/bin/env python3
"""The speeds that docs/performance.md and docs/streams.md promise, each measured and held against its bound.

    sudo ./dev bench targets [--repeats N] [--before FOLDER] [--agents N] [--json]

A table of what was measured, its bound and what was seen; exit code 1 when a bound is missed. With --before the
programs of an older build in FOLDER take turns in the runs in memory, which must not have become slower. Lines need
root and are left out without. Some four minutes on two cores, which should be idle. Needs a finished build.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from rig import BIN

LIMIT_S = 280  # of one program
TURNS = 2  # of a build beside another one
SLOWER = 1.05  # than the build before: what repetitions differ by


class Failed(Exception):
    """A program failed: its last line."""


def results_of(*words):
    """The results that a program prints as JSON."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise Failed(f"{words[0]}: {(done.stderr.strip() or str(done.returncode)).splitlines()[-1]}")
    return json.loads(done.stdout)


def by_kind(answer):
    return {one["kind"]: one for one in answer["results"]}


class Table:
    def __init__(self, quiet):
        self.rows, self.quiet = [], quiet

    def add(self, what, bound, seen, unit, most=True):
        """`bound`: at most, or at least."""
        good = seen <= bound if most else seen >= bound
        self.rows.append({"what": what, "seen": seen, "bound": bound, "unit": unit, "most": most, "ok": good})
        if not self.quiet:
            print(f"{'ok' if good else 'MISSED':7}{what:52}{seen:10.3f}  {'at most' if most else 'at least'} "
                  f"{bound:.3f} {unit}", flush=True)


def in_memory(table, options):
    """fp32 and int8 among four processes of this host, beside the build before."""
    builds = {"now": BIN, **({"before": options.before} if options.before else {})}
    seconds = {(build, codec): [] for build in builds for codec in ("fp32", "int8")}
    gloo = []
    for _ in range(TURNS):
        for build, folder in builds.items():
            kinds = by_kind(results_of(folder / "shoal-bench", "all-reduce", "--repeats", options.repeats, "--json"))
            for codec in ("fp32", "int8"):
                seconds[build, codec] += kinds[codec]["seconds"]
            gloo += kinds["gloo"]["seconds"] if "gloo" in kinds else []
    for codec in ("fp32", "int8"):
        now = statistics.median(seconds["now", codec])
        if options.before:
            table.add(f"{codec} in memory, of the time before", SLOWER,
                      now / statistics.median(seconds["before", codec]), "")
        if gloo:
            table.add(f"{codec} in memory, beside gloo's ring over TCP", 1.8, statistics.median(gloo) / now, "x", False)


def over_tls(table, options):
    kinds = by_kind(results_of(BIN / "shoal-bench", "all-reduce", "--tls", "--codecs", "fp32", "--alone", "--repeats",
                               options.repeats, "--json"))
    table.add("fp32 over TCP and TLS, of bare TLS sockets", 0.85, kinds["tls"]["median_s"] / kinds["fp32"]["median_s"],
              "", False)


def on_streams(table, options):
    kinds = by_kind(results_of(BIN / "shoal-streams", "--contenders", "bare", "streams", "--repeats", options.repeats,
                               "--json"))
    table.add("a butterfly on streams, of bare TLS sockets", 0.85,
              kinds["streams"]["gb_per_s"] / kinds["bare"]["gb_per_s"], "", False)
    table.add("a hop of 4 KiB on streams", 70, kinds["streams"]["hop_4k_p50_us"], "us")
    table.add("dial, handshake and first answer", 5, kinds["streams"]["handshake_ms"], "ms")
    hops = results_of(BIN / "shoal-bench", "pipeline", "--json")["results"]
    table.add("a hop of 4 KiB in a pipeline, computation included", 70, hops[0]["us_per_hop"], "us")


def over_lines(table, options):
    answer = results_of(pathlib.Path(__file__).with_name("bench_lines.sh"), "--equal", "--repeats", options.repeats,
                        "--json")
    kinds = by_kind(answer)
    table.add("fp32 over 3 lines of 200 Mbit/s, 32 MiB", 1.64, kinds["fp32"]["median_s"], "s")
    table.add("int8 over the same lines", 0.45, kinds["int8"]["median_s"], "s")


def of_agents(table, options):
    script = pathlib.Path(__file__).with_name("bench_agents.py")
    done = subprocess.run([script, "--agents", str(options.agents), "--json"], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    if not done.stdout.startswith("{"):  # the exit code says only whether the bound was missed
        raise Failed(f"{script.name}: {(done.stderr.strip() or 'no result').splitlines()[-1]}")
    found = json.loads(done.stdout)
    table.add(f"{options.agents} agents over mutual TLS", 12 * options.agents / 1000, 100 * found["core"],
              "% of a core")


def main():
    parser = argparse.ArgumentParser(prog="./dev bench targets", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5, help="of each measurement")
    parser.add_argument("--before", type=pathlib.Path, help="folder of the programs of an older build")
    parser.add_argument("--agents", type=int, default=1000, help="that the coordinator hears of; 0: none")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table, parts = Table(options.json), [in_memory, over_tls, on_streams]
    parts += [over_lines] if os.geteuid() == 0 else []
    parts += [of_agents] if options.agents else []
    failures = []
    for part in parts:
        try:
            part(table, options)
        except (Failed, subprocess.TimeoutExpired) as failed:
            failures.append(str(failed))
            print(f"error: {failed}", file=sys.stderr)
    if options.json:
        print(json.dumps({"name": "targets", "results": table.rows, "failures": failures}))
    return 0 if not failures and all(row["ok"] for row in table.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
