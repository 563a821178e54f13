#!/usr/bin/env python3
"""Hosts that are slower than they said, become so, or run out of memory, with real trainers on this machine.

    sudo scripts/unequal.py [CASE …] [--seconds N] [--keep]

Every case prints one line per demand and ends with 0 if all hold:

`memory`  the kernel kills the trainers of one of three hosts: the job trains on the others.
`slow`    the only host of a stage is slowed to a tenth: a replica moves there, routers draw by what is seen, the host
          is not green, the forecast follows.
`large`   the same with a stage of 71 M parameters, slowed to a twentieth.
`auto`    the number of stages that is chosen trains at least 0.95 of the best fixed one; the shown rate is true.
`lost`    both hosts of a stage die while a checkpoint of the round exists: training goes on.
`small`   two replicas in each of two stages, one of them slowed, with swarm.copies_min = 1.
`quarter` the fastest of three hosts is slowed to a quarter.

Hosts are slowed by the quota of a cgroup around their trainers, so root is needed.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

from rig import Cluster, Trouble, end_by_signal, job_text, send

GROUPS = pathlib.Path("/sys/fs/cgroup")
PERIOD_US = 100_000
ROUNDS_BEFORE = 3
S = {"layers": 6, "hidden": 192, "heads": 6, "context": 128, "vocab": 256}
B = {"layers": 4, "hidden": 1024, "heads": 16, "context": 128, "vocab": 32000}


def job_s(name, **swarm):
    every = swarm.pop("every", 20)
    return job_text(name, model=S, train={"batch": 16, "microbatch": 2}, sync={"every": every},
                    swarm={"stages": 2} | swarm, data={"tokenizer": "bytes"})


def job_b(name, **swarm):
    return job_text(name, model=B, train={"batch": 4, "microbatch": 1}, sync={"every": 2},
                    swarm={"stages": 2} | swarm, data={"tokenizer": "bytes"})


class Group:
    """A cgroup of version 1 or 2 that limits what its processes get."""

    def __init__(self, name):
        self.name, self.old = f"shoal-{os.getpid()}-{name}", (GROUPS / "cpu").is_dir()

    def folder(self, controller):
        return GROUPS / (controller if self.old else "") / self.name

    def limit(self, controller, file, text, processes):
        folder = self.folder(controller)
        folder.mkdir(exist_ok=True)
        (folder / file).write_text(text)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(process))

    def processor(self, share, processes):
        if self.old:
            self.limit("cpu", "cpu.cfs_quota_us", str(int(share * PERIOD_US)), processes)
        else:
            self.limit("cpu", "cpu.max", f"{int(share * PERIOD_US)} {PERIOD_US}", processes)

    def memory(self, size, processes):
        self.limit("memory", "memory.limit_in_bytes" if self.old else "memory.max", str(size), processes)

    def free(self):
        for controller in ("cpu", "memory"):
            with contextlib.suppress(OSError):
                self.folder(controller).rmdir()


class UnequalHosts(Cluster):
    def __init__(self, folder, speeds, job):
        super().__init__(folder, len(speeds), job)
        self.speeds, self.groups, self.demands = speeds, [], []

    def flags_of(self, number):
        return ["--speed", str(self.speeds[number])]

    def group(self, name):
        self.groups.append(Group(name))
        return self.groups[-1]

    def slow(self, number, share):
        self.group(f"slow{number}").processor(share, self.trainers(number))

    def demand(self, holds, words):
        self.demands.append(holds)
        print(f"{'met   ' if holds else 'MISSED'}  {words}", flush=True)

    def seconds_until(self, holds, limit):
        """How long it takes; none: longer than the limit."""
        begin = time.monotonic()
        try:
            self.until(holds, "", limit)
        except Trouble:
            return None
        return time.monotonic() - begin

    def trains(self, rounds=ROUNDS_BEFORE, limit=180):
        self.until(lambda: self.committed() >= rounds, "the job does not train", limit)

    def rate(self, seconds):
        """Tokens per second, and the mean of the rate that is shown."""
        begin, before, shown = time.monotonic(), self.status()["progress"]["tokens"], []
        while time.monotonic() < begin + seconds:
            time.sleep(1)
            shown.append(self.status()["progress"]["tokens_per_second"] or 0)
        rate = (self.status()["progress"]["tokens"] - before) / (time.monotonic() - begin)
        return rate, sum(shown) / len(shown)

    def placement(self):
        return self.get(f"/jobs/{self.name}/placement", 20)

    def topology(self):
        return self.get(f"/jobs/{self.name}/topology", 20)

    def serving(self, stage):
        return [one for one in self.topology()["replicas"] if one["stage"] == stage]

    def allowed(self, tokens_per_microbatch):
        """What the measured service times allow with the fill and drain of each step; and each stage without it."""
        stages = {}
        for one in self.topology()["replicas"]:
            if one["service_s"]:
                stages[one["stage"]] = stages.get(one["stage"], 0) + tokens_per_microbatch / one["service_s"]
        return min(stages.values()) * (1 - self.placement()["forecast"]["bubble"]), stages

    def alone_in(self, stage):
        """The number of the agent that serves the stage alone."""
        names = {one["agent_name"] for one in self.serving(stage)}
        if len(names) != 1:
            raise Trouble(f"stage {stage} is served by {sorted(names)}, not by one host")
        return int(names.pop().split("-")[1])

    def is_green(self, number):
        agents = {one["name"]: one for one in self.get("/agents")["items"]}
        return agents[self.name_of(number)]["health"] == "green"

    def told(self, kind, after):
        return [one for one in self.events_after(after) if one["kind"] == kind]

    def finish(self):
        self.shoal("job", "cancel", self.name)
        self.until(lambda: self.status()["phase"] == "cancelled", "the job does not end")

    def stop(self):
        super().stop()
        for group in self.groups:
            group.free()


def told_text(events):
    return events[-1]["message"] if events else "none"


def moves_to_the_slow(cluster, number, share, tokens_per_microbatch, seconds):
    """The host that serves a stage alone is slowed."""
    stage = [one["stage"] for one in cluster.topology()["replicas"]
             if one["agent_name"] == cluster.name_of(number)][0]
    before, seq = cluster.rate(seconds / 2)[0], cluster.newest_event()
    cluster.slow(number, share)
    begin = time.monotonic()
    moved = cluster.seconds_until(lambda: cluster.told("replica_moved", seq), 120)
    cluster.demand(moved is not None and moved <= 60, f"a move within 60 s: {moved and round(moved)} s; "
                   f"{told_text(cluster.told('replica_moved', seq) or cluster.told('move_refused', seq))}")
    left = max(1, 60 - (time.monotonic() - begin))
    yellow = cluster.seconds_until(lambda: not cluster.is_green(number), left)
    kinds = sorted({one["kind"] for one in cluster.events_after(seq) if one["severity"] != "info"})
    cluster.demand(yellow is not None, f"{cluster.name_of(number)} is not green within 60 s; events: {kinds}")
    if moved is None:
        return
    cluster.until(lambda: len([one for one in cluster.serving(stage) if one["service_s"]]) > 1,
                  "the one that moved does not serve", 240)
    at = cluster.committed()  # routers share their work anew with the next round
    cluster.until(lambda: cluster.committed() > at, "no round is committed", 300)
    after = cluster.rate(seconds)[0]
    most, stages = cluster.allowed(tokens_per_microbatch)
    forecast = cluster.placement().get("forecast", {})
    cluster.demand(after >= 0.9 * most, f"{after:.0f} tokens/s after the move, {before:.0f} before; service times "
                   f"allow {most:.0f} ({', '.join(f'{n}: {rate:.0f}' for n, rate in sorted(stages.items()))}): "
                   f"{after / most:.2f}; forecast {forecast}")


def case_slow(cluster, options):
    cluster.begin()
    cluster.trains()
    moves_to_the_slow(cluster, cluster.alone_in(0), 0.1, 256, options.seconds)


def case_large(cluster, options):
    cluster.job = job_b("large")
    cluster.begin()
    cluster.trains()
    moves_to_the_slow(cluster, cluster.alone_in(0), 0.05, 128, options.seconds)


def case_quarter(cluster, options):
    cluster.begin()
    cluster.trains()
    before, seq = cluster.rate(options.seconds / 2)[0], cluster.newest_event()
    number = cluster.speeds.index(max(cluster.speeds))
    cluster.slow(number, 0.25 * cluster.speeds[number])
    at = cluster.committed()
    cluster.until(lambda: cluster.committed() >= at + 2, "no two rounds", 300)
    time.sleep(10)
    after = cluster.rate(options.seconds)[0]
    forecast = cluster.placement()["forecast"]["tokens_per_second"]
    cluster.demand(after >= 0.9 * forecast, f"{after:.0f} tokens/s, {before:.0f} before; forecast with the new speeds "
                   f"{forecast:.0f}; events {[one['message'] for one in cluster.events_after(seq)][-6:]}")


def case_memory(cluster, options):
    cluster.begin()
    cluster.until(lambda: cluster.committed() >= 1, "the first job does not train", 180)
    cluster.finish()
    for number in range(cluster.count):
        if cluster.speeds[number] == max(cluster.speeds):
            break
    group = cluster.group("memory")
    group.memory(700_000_000, [cluster.agents[number].pid, *cluster.trainers(number)])
    cluster.name = cluster.submit(job_b("memory"))
    begin = time.monotonic()
    cluster.until(lambda: cluster.committed() >= 1, "the job does not train", 180)
    took = time.monotonic() - begin
    agent = [one for one in cluster.get("/agents")["items"] if one["name"] == cluster.name_of(number)][0]
    cluster.demand(took <= 30, f"the first round after {took:.0f} s; the host with little memory: {agent['health']}")


def case_auto(cluster, options):
    cluster.begin()
    cluster.trains()
    cluster.finish()
    rates = {}
    for stages in (1, 2, "auto"):
        cluster.name = cluster.submit(job_s(f"stages{stages}", every=5, stages=stages))
        cluster.trains(2, 400)
        rate, shown = cluster.rate(options.seconds)
        rates[stages] = rate
        plan = cluster.placement()
        print(f"        stages = {stages}: {rate:.0f} tokens/s, shown {shown:.0f}, "
              f"forecast {plan.get('forecast')}", flush=True)
        cluster.demand(abs(shown / rate - 1) <= 0.1, f"the shown rate is {shown / rate:.2f} of the true one")
        cluster.finish()
    best = max(rates[1], rates[2])
    cluster.demand(rates["auto"] >= 0.95 * best, f"auto trains {rates['auto'] / best:.2f} of the best fixed number")


def case_lost(cluster, options):
    text = job_text("lost", model={"layers": 4, "hidden": 96, "heads": 4, "context": 128, "vocab": 256},
                    train={"batch": 16, "microbatch": 2}, sync={"every": 100}, checkpoint={"every_rounds": 1},
                    swarm={"stages": 2}, data={"tokenizer": "bytes"})
    cluster.job = text
    cluster.begin()
    cluster.until(lambda: cluster.committed() >= 2, "the job does not train", 300)
    cluster.until(lambda: cluster.status()["progress"]["inner_step"] % 100 > 60, "no round is nearly done", 120)
    gone = sorted({int(one["agent_name"].split("-")[1]) for one in cluster.serving(0)})
    for number in gone:
        for process in [cluster.agents[number].pid, *cluster.trainers(number)]:
            send(process, 9)
    tokens, begin = cluster.status()["progress"]["tokens_committed"], time.monotonic()
    step = {}

    def trains_again():
        progress = cluster.status()["progress"]
        step.setdefault("first", progress["inner_step"])
        return len({one["agent_name"] for one in cluster.serving(0) if one["service_s"]}
                   - {cluster.name_of(number) for number in gone}) > 0

    took = cluster.seconds_until(trains_again, 120)
    cluster.demand(took is not None and took <= 20, f"training again {took and round(took)} s after stage 0 was lost "
                   f"(agents {gone}); tokens committed {tokens}")


def case_small(cluster, options):
    cluster.job = job_s("small", copies_min=1)
    cluster.begin()
    cluster.trains()
    before, seq = cluster.rate(options.seconds / 2)[0], cluster.newest_event()
    number = int(cluster.serving(1)[0]["agent_name"].split("-")[1])
    cluster.slow(number, 0.1 * cluster.speeds[number])
    moved = cluster.seconds_until(lambda: cluster.told("replica_moved", seq), 180)
    time.sleep(45)
    after = cluster.rate(options.seconds)[0]
    most, stages = cluster.allowed(256)
    cluster.demand(after >= 0.9 * most, f"{after:.0f} tokens/s, {before:.0f} before; moved after "
                   f"{moved and round(moved)} s; service times allow {most:.0f} ({stages})")


CASES = {"memory": (case_memory, [0.6, 0.5, 0.5]), "slow": (case_slow, [0.9, 0.3, 0.3, 0.3]),
         "large": (case_large, [0.9, 0.3, 0.3, 0.3]), "auto": (case_auto, [0.8, 0.4, 0.2, 0.1]),
         "lost": (case_lost, [0.4, 0.4, 0.4, 0.4]), "small": (case_small, [0.4, 0.4, 0.4, 0.4]),
         "quarter": (case_quarter, [0.9, 0.4, 0.4])}


def run_case(name, options):
    case, speeds = CASES[name]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-unequal-"))
    cluster = UnequalHosts(folder, options.speeds or speeds, job_s("first"))
    print(f"{name}: {cluster.speeds}", flush=True)
    try:
        case(cluster, options)
    except Trouble as trouble:
        cluster.demand(False, str(trouble))
    finally:
        cluster.stop()
    if not options.keep and all(cluster.demands):
        shutil.rmtree(folder)
    else:
        print(f"        logs: {folder}")
    return all(cluster.demands)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", choices=[*CASES, []], default=[])
    parser.add_argument("--seconds", type=float, default=30, help="of each measurement")
    parser.add_argument("--speeds", type=json.loads, help="of the hosts, as [0.9, 0.3, 0.3]")
    parser.add_argument("--keep", action="store_true", help="the logs")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("error: cgroups need root")
    end_by_signal()
    good = [run_case(name, options) for name in options.case or CASES]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
