#!/usr/bin/env python3
"""How long a job waits, and what it loses, when another host takes over from a coordinator that is lost for good.

    sudo ./dev bench standby [--copies N] [--every SECONDS] [--agents N] [--json]

A coordinator and agents train one job, each in a network namespace of its own, with trainers that wait instead of
computing (shoal-timed-trainer), in rounds of two seconds; the agents know the coordinator by a name. Every minute its
state is copied with `shoal admin backup`. A minute after the last copy, when most is at stake, its line goes silent, it
is killed, and its folder is deleted. What docs/clusters.md tells an operator is then done for a standby in a namespace
with another address: the copy is checked and put into a folder, a coordinator starts on it, the name moves. Counted are
these steps, the time to the first round after it, the rounds that are lost, and the sequences that are trained twice.
Exit code 1 when anything is lost. The network of this host is not touched; files with the name are in /etc/netns
meanwhile. Needs root, iproute2 and a finished build.
"""
import argparse
import contextlib
import datetime
import json
import pathlib
import shutil
import sqlite3
import sys
import time

import chaos_store
from rig import Cluster, cluster_on_lines, job_text

STEP_MS, STEPS = 100, 20  # of a round
NAME = "coordinator.example"
TABLES = pathlib.Path("/etc/netns")  # `ip netns exec` mounts the files in a folder of the namespace's name over /etc


class NamedCluster(Cluster):
    """Agents find the coordinator by its name, which they look up in a file of their namespace."""
    place = "coordinator"  # its folder

    def __init__(self, folder, agents, job, lines):
        super().__init__(folder, agents, job, lines, coordinator_flags=["--host-name", NAME])
        self.grpc = "0.0.0.0:7071"
        self.environment = {"SHOAL_TIMED_STEP_MS": str(STEP_MS)}

    def begin(self):
        self.name_leads_to(0)
        super().begin()

    def data_of_coordinator(self):
        return self.folder / self.place

    def name_leads_to(self, number):
        for namespace in self.lines.hosts:
            (TABLES / namespace).mkdir(parents=True, exist_ok=True)
            # In place: a process that runs has the file mounted.
            (TABLES / namespace / "hosts").write_text(f"127.0.0.1 localhost\n{self.lines.address(number)} {NAME}\n")
            # Nobody else is asked: a name server that cannot be reached from there would be waited for.
            (TABLES / namespace / "resolv.conf").write_text("nameserver 127.0.0.1\n")

    def forget_name(self):
        for folder in TABLES.glob(f"{self.lines.prefix}-*"):
            shutil.rmtree(folder)
        with contextlib.suppress(OSError):  # others use it
            TABLES.rmdir()

    def flags_of(self, number):
        return ["--trainer", self.bin / "shoal-timed-trainer"]

    def start_agent(self, number):
        listens, self.grpc, self.join_at = self.grpc, f"{NAME}:7071", f"{NAME}:7070"
        super().start_agent(number)
        self.grpc = listens

    def heard_since(self, moment):
        """How many agents the coordinator has heard of since then."""
        seen = [one["last_seen_at"] for one in self.get("/agents")["items"]]
        return sum(datetime.datetime.fromisoformat(at).timestamp() > moment for at in seen if at)

    def lose_coordinator(self):
        """Returns the newest round of its tables and what was trained until then."""
        self.lines.cut(0)
        self.kill(self.coordinator)
        tables = chaos_store.copy_of(self)
        (newest,), = chaos_store.read(tables, "SELECT max(committed_round) FROM jobs")
        shutil.rmtree(self.data_of_coordinator())
        return newest, chaos_store.trained(tables)


def copy(cluster, number):
    folder = cluster.folder / f"copy{number}"
    begun = time.monotonic()
    chaos_store.admin(cluster, "backup", "--data-dir", str(cluster.data_of_coordinator()), "--to", str(folder))
    return folder, time.monotonic() - begun


def take_over(cluster, newest_copy, standby):
    """As docs/clusters.md says. Returns when each step was done."""
    done = {}
    chaos_store.admin(cluster, "restore-check", str(newest_copy))
    done["checked"] = time.monotonic()
    cluster.place = "standby"
    shutil.copytree(newest_copy, cluster.data_of_coordinator())
    done["copied"] = time.monotonic()
    cluster.lines.hosts[0] = cluster.lines.hosts[standby]
    cluster.lines.enter()
    cluster.start_coordinator()
    done["started"] = time.monotonic()
    cluster.name_leads_to(standby)
    return done


def measure(cluster, options):
    cluster.all_take_part()
    copies, begun = [], time.monotonic()
    for number in range(options.copies):
        copies.append(copy(cluster, number))
        time.sleep(max(0, begun + (number + 1) * options.every - time.monotonic()))
    at_copy = chaos_store.read(copies[-1][0], "SELECT max(committed_round) FROM jobs")[0][0]
    newest, trained = cluster.lose_coordinator()
    lost_at, moment = time.monotonic(), time.time()
    done = take_over(cluster, copies[-1][0], options.agents + 1)
    cluster.until(lambda: cluster.heard_since(moment) == options.agents, "not all agents come back")
    done["agents back"] = time.monotonic()
    cluster.until(lambda: cluster.committed() > newest, "no round is committed after the loss")
    done["first round"] = time.monotonic()
    for _ in range(3):
        cluster.next_commit()
    cluster.all_take_part()
    return {"copy_s": round(max(seconds for _, seconds in copies), 2), "round_of_copy": at_copy,
            "round_of_loss": newest, "rounds_lost": newest + 1 - first_trained(cluster, at_copy),
            "trained_twice": chaos_store.trained_twice(cluster, trained, newest),
            "seconds": {step: round(at - lost_at, 1) for step, at in done.items()},
            "said": [one["message"] for one in cluster.events_after(0) if one["kind"] == "job_restored"]}


def first_trained(cluster, at_copy):
    """The first round that was trained on the standby; the one that it adopted has no contributions."""
    tables = sqlite3.connect(f"file:{cluster.data_of_coordinator()}/state.db?mode=ro", uri=True)
    with contextlib.closing(tables):
        return tables.execute("SELECT min(round) FROM contributions WHERE round > ? AND state = 'committed'",
                              (at_copy,)).fetchone()[0]


def text_of(result):
    steps = ", ".join(f"{step} {seconds:g} s" for step, seconds in result["seconds"].items())
    return (f"a copy took {result['copy_s']:g} s; its round {result['round_of_copy']}, lost at round "
            f"{result['round_of_loss']}\nafter the loss: {steps}\nrounds lost: {result['rounds_lost']}; "
            f"{'; '.join(result['trained_twice']) or 'nothing was trained twice'}\n" + "\n".join(result["said"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=1, help="before the loss")
    parser.add_argument("--every", type=float, default=60, help="seconds from copy to copy, and to the loss")
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--mbit", type=int, default=200, help="of every line")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    job = job_text("standby", model={"layers": 2, "hidden": 64, "heads": 4, "context": 64},
                   train={"batch": 1, "lr": 1e-4}, sync={"every": STEPS}, swarm={"min_replicas": 2},
                   checkpoint={"every_rounds": 10})
    with cluster_on_lines("shoal-standby-", options.agents + 1, options.mbit,
                          lambda folder, lines: NamedCluster(folder, options.agents, job, lines)) as cluster:
        try:
            cluster.begin()
            result = measure(cluster, options)
        finally:
            cluster.forget_name()
    print(json.dumps(result) if options.json else text_of(result))
    return 1 if result["rounds_lost"] or result["trained_twice"] else 0


if __name__ == "__main__":
    sys.exit(main())
