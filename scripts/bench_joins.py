#!/usr/bin/env python3
"""What an agent behind a slow line costs that joins a job, and how long it takes.

    sudo ./dev bench joins [--mbit N] [--cuts N] [--rounds N] [--json]

Two agents of a line each train with trainers that wait instead of computing (shoal-timed-trainer), in rounds of two
seconds. When they have found their pace a third one comes. Counted is the time from its assignment to the first
committed round that it contributed to, beside what the state takes on an empty line divided by 1 - r, with r the
share of the line that the averages of the rounds take; and the pace of the two meanwhile. `--cuts` breaks the line
of the third one that often on its way. Also counted is what the line brought the third one beside state and averages
(headers, control, and whatever was sent twice), and where the time of a round of the two goes. All processes share
this machine: how busy its processors are is said of both times, because a pace that they lack is not what a joiner
costs where each agent has its own. Exit code 1 when it takes longer than 1.5 times that and three rounds, or the two
lose more than 10 % of their pace. The network of this host is not touched. Needs root, iproute2 and a finished build.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time

from rig import Cluster, cluster_on_lines, job_text

STEP_MS, STEPS = 100, 20  # of a round
BYTES_PER_VALUE = 8  # anchor and outer momentum; AdamW's moments begin at zero (train.join)
FRAGMENTS = 4
CUT_S = 3
LIMIT_S = 600


class GrowingCluster(Cluster):
    """The last agent comes when it is told to."""

    def begin(self):
        self.count -= 1
        super().begin()
        self.count += 1

    def start_agent(self, number):
        os.environ["SHOAL_TIMED_STEP_MS"] = str(STEP_MS)
        super().start_agent(number)

    def flags_of(self, number):
        return ["--trainer", self.bin / "shoal-timed-trainer"]


def happened(cluster, kind, after):
    return any(event["kind"] == kind for event in cluster.events_after(after))


def watch_rounds(cluster, until):
    """Lengths of the rounds that are committed until `until(number)` holds of one."""
    lengths, (last, _) = [], cluster.next_commit()
    while True:
        now, number = cluster.next_commit()
        lengths.append(now - last)
        last = now
        if until(number):
            return lengths
        if sum(lengths) > LIMIT_S:
            sys.exit(f"not done after {LIMIT_S} s; logs: {cluster.folder}")


def processor_times():
    """Of all processors of this machine since it started: busy, and all there was."""
    with open("/proc/stat", encoding="ascii") as file:
        times = [int(word) for word in file.readline().split()[1:9]]
    return sum(times) - times[3] - times[4], sum(times)  # without idle and waiting for disks


def busy_since(begin):
    busy, whole = (after - before for after, before in zip(processor_times(), begin))
    return busy / max(1, whole)


def brought(cluster, number):
    """Bytes that the line has brought to an agent's host."""
    found = subprocess.run(["ip", "-n", cluster.lines.hub, "-s", "-j", "link", "show", f"port{number + 1}"],
                           check=True, capture_output=True, text=True).stdout
    return json.loads(found)[0]["stats64"]["tx"]["bytes"]


PHASES = "train_s", "stall_s", "wait_s", "reduce_s", "vote_s", "apply_s"


def phases(cluster, numbers):
    """Where the time of rounds went, in the middle of them and of their members."""
    found = [part["phases"] for number in numbers
             for part in cluster.get(f"/jobs/{cluster.name}/rounds/{number}")["contributions"]
             if part["state"] == "committed"]
    return {phase: statistics.median([one[phase] or 0 for one in found]) for phase in PHASES} if found else {}


def said(spent):
    return ", ".join(f"{phase.removesuffix('_s')} {seconds:.2f}" for phase, seconds in spent.items())


def cut_line(cluster, number):
    cluster.lines.cut(number + 1)
    time.sleep(CUT_S)
    cluster.lines.mend(number + 1)


def measure(cluster, options):
    cluster.until(lambda: cluster.committed() >= 3, "no round is committed", LIMIT_S)
    counted, times = iter(range(options.rounds)), processor_times()
    alone = watch_rounds(cluster, lambda _: next(counted, None) is None)
    busy_alone, first = busy_since(times), cluster.committed()
    phases_alone = phases(cluster, range(first - options.rounds, first))
    joiner, seen = cluster.count - 1, cluster.newest_event()
    cluster.start_agent(joiner)
    cluster.until(lambda: happened(cluster, "replica_assigned", seen), "it is not assigned")
    begun, cuts = time.monotonic(), iter(range(options.cuts))
    before, times = brought(cluster, joiner), processor_times()

    def is_in(number):
        with contextlib.suppress(StopIteration):
            next(cuts)
            threading.Thread(target=cut_line, args=(cluster, joiner)).start()
        return cluster.members(number) == cluster.count

    joining = watch_rounds(cluster, is_in)
    return {"alone_s": statistics.median(alone), "joining_s": statistics.mean(joining),
            "took_s": time.monotonic() - begun, "rounds": len(joining), "phases_alone": phases_alone,
            "phases_joining": phases(cluster, range(cluster.committed() - len(joining), cluster.committed() - 1)),
            "busy_alone": busy_alone, "busy_joining": busy_since(times),
            "brought_bytes": brought(cluster, joiner) - before}


def judge(result, values, options):
    rate = options.mbit * 1e6 / 8
    state, average = BYTES_PER_VALUE * values, values / FRAGMENTS / 2 * (1 + 1 / 32)
    bare = state / rate
    share = average / (rate * result["alone_s"])
    bound = 1.5 * bare / (1 - share) + 3 * result["alone_s"] + options.cuts * CUT_S
    pace = result["alone_s"] / result["joining_s"]
    beside = result["brought_bytes"] - state - average * result["rounds"]
    return {**result, "state_bytes": state, "beside_bytes": beside, "bare_s": bare, "r": share,
            "bound_s": bound, "pace": pace, "good": result["took_s"] <= bound and pace >= 0.9}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbit", type=int, default=10, help="of each line")
    parser.add_argument("--cuts", type=int, default=0, help="of the joiner's line, three seconds each")
    parser.add_argument("--rounds", type=int, default=12, help="that are measured before it comes")
    parser.add_argument("--hidden", type=int, default=384, help="width of the model")
    parser.add_argument("--layers", type=int, default=4, help="of the model; its state is 57 MB with both defaults")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    job = job_text("bench", model={"layers": options.layers, "hidden": options.hidden, "heads": 8, "context": 32},
                   train={"batch": 1, "lr": 1e-4},
                   sync={"every": STEPS * FRAGMENTS, "fragments": FRAGMENTS, "codec": "int4"})
    with cluster_on_lines("shoal-joins-", 3, options.mbit,
                          lambda folder, lines: GrowingCluster(folder, 3, job, lines)) as cluster:
        cluster.begin()
        result = measure(cluster, options)
        result = judge(result, cluster.status()["parameters"], options)
    if options.json:
        print(json.dumps(result))
    else:
        print(f"state {result['state_bytes'] / 1e6:.1f} MB at {options.mbit} Mbit/s: bare {result['bare_s']:.1f} s, "
              f"r {result['r']:.2f}; contributed after {result['took_s']:.1f} s (bound {result['bound_s']:.1f}), "
              f"{result['rounds']} rounds of {result['joining_s']:.1f} s, {result['alone_s']:.1f} before; the two at "
              f"{result['pace']:.2f} of their pace; processors {result['busy_joining']:.0%} busy, "
              f"{result['busy_alone']:.0%} before; the line brought "
              f"{result['beside_bytes'] / 1e6:.1f} MB beside state and averages")
        print(f"seconds of a round alone: {said(result['phases_alone'])}; beside it: {said(result['phases_joining'])}")
    return 0 if result["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
