#!/usr/bin/env python3
"""How long a round is delayed by a member that is killed, frozen or cut off.

    scripts/bench_faults.py [--repeats N] [--agents N] [--limit SECONDS] [--mbit N] [--only FAULT] [--json]

A coordinator and agents, each in a network namespace of its own with a line to a bridge, train one job without
end. Again and again one agent's trainer is killed (SIGKILL) or frozen (SIGSTOP), or it is frozen with its agent, or
the agent's line is taken down; once the others have committed a round without it, all that is undone, and when it
takes part again the next fault follows. The delay of a fault: the time between the two commits around it, less the
median of the undisturbed ones. Exit code 1 when one is above the limit or a round that was committed is
lost. The network of this host is not touched. Needs root, iproute2 and a finished build.
"""
import argparse
import json
import random
import signal
import statistics
import sys
import time

from rig import Cluster, cluster_on_lines, job_text, send

FAULTS = ("kill", "freeze", "freeze_both", "cut")


def strike(cluster, fault, number):
    """Returns what undoes it."""
    if fault == "cut":
        cluster.lines.cut(number + 1)
        return lambda: cluster.lines.mend(number + 1)
    trainers = cluster.trainers(number)
    if fault == "kill":
        for pid in trainers:
            send(pid, signal.SIGKILL)
        return lambda: None
    frozen = trainers + ([cluster.agents[number].pid] if fault == "freeze_both" else [])
    for pid in frozen:
        send(pid, signal.SIGSTOP)
    return lambda: [send(pid, signal.SIGCONT) for pid in frozen]


def measure(cluster, fault, chance):
    """One fault: {"delay_s", "usual_s", "victim", "members"} of the round that it hit."""
    everybody = len(cluster.agents)
    cluster.until(lambda: cluster.members(cluster.next_commit()[1]) == everybody, "not all members come back")
    times = [cluster.next_commit()[0] for _ in range(5)]
    usual = statistics.median(b - a for a, b in zip(times, times[1:]))
    victim = chance.randrange(everybody)
    time.sleep(chance.random() * usual)
    before = cluster.committed()
    undo = strike(cluster, fault, victim)
    # A round that was all but done may still be committed with the victim: the next one is not.
    commits = [times[-1]]
    while True:
        at, number = cluster.next_commit()
        commits.append(at)
        members = cluster.members(number)
        if members < everybody or len(commits) > 4:
            break
    undo()
    if cluster.committed() < before:
        sys.exit("a committed round was lost")
    delay = max(b - a for a, b in zip(commits, commits[1:])) - usual
    return {"delay_s": round(delay, 2), "usual_s": round(usual, 2), "victim": victim, "members": members}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--every", type=int, default=100, help="inner steps of a round")
    parser.add_argument("--mbit", type=int, default=200, help="of every line")
    parser.add_argument("--limit", type=float, default=10, help="the longest delay that is good, seconds")
    parser.add_argument("--only", choices=FAULTS, help="this fault alone")
    parser.add_argument("--seed", type=int, default=1, help="of victims and moments")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    job = job_text("faults", model={"layers": 2, "hidden": 64, "heads": 4, "context": 64},
                   train={"batch": 4, "lr": 1e-3}, sync={"every": options.every}, swarm={"min_replicas": 2})
    results = {}
    with cluster_on_lines("shoal-faults-", options.agents, options.mbit,
                          lambda folder, lines: Cluster(folder, options.agents, job, lines)) as cluster:
        cluster.begin()
        chance = random.Random(options.seed)
        for fault in [options.only] if options.only else FAULTS:
            for _ in range(options.repeats):
                one = measure(cluster, fault, chance)
                results.setdefault(fault, []).append(one)
                if not options.json:
                    print(f"{fault:12} delay {one['delay_s']:6.2f} s   a round takes {one['usual_s']:.2f} s, "
                          f"{one['members']} of {options.agents} in it", flush=True)
    worst = max(one["delay_s"] for series in results.values() for one in series)
    if options.json:
        print(json.dumps(results))
    else:
        print(f"worst {worst:.2f} s, limit {options.limit:g} s")
    return 0 if worst <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
