#!/usr/bin/env python3
"""Attacks every port of a cluster that trains, and shows that it does not mind.

    ./dev hostile [--faults] [--count N] [--seed S] [--share CPU] [--json]

A coordinator and two agents train a job. In turns of some seconds the cluster is left alone or is sent malformed
requests, frames and handshakes (hostile_attacks.py): 10,000 in all unless --count says otherwise, at a rate that costs
this script a tenth of a core (--share 0.1). Then a table says for each port and kind how many were sent and how they
ended, and for each process its memory before and after; and how fast the job was in either kind of turn. Exit code 1
when a process ended, anything was let in or answered by a fault of the server (5xx but 503), memory grew by more than
a tenth and 16 MiB, a replica or a round was lost, or the job lost more than a tenth of its speed. --faults runs programs that once harmed a
whole cluster instead (hostile_faults.py). Needs a finished build.
"""
import argparse
import collections
import contextlib
import json
import pathlib
import selectors
import shutil
import socket
import statistics
import sys
import tempfile
import time

import hostile_attacks
import hostile_faults
from rig import Cluster, Trouble, end_by_signal

JOB = """name = "hostile"
[model]
family = "llama"
layers = 2
hidden = 64
heads = 2
context = 64
[data]
train = "text.txt"
tokenizer = "bytes"
[train]
steps = 1000000
batch = 4
lr = 1e-3
[sync]
every = 10
[swarm]
min_replicas = 2
[checkpoint]
every_rounds = 0
[eval]
every_rounds = 0
"""
TURN_S = 8
AT_ONCE = 24  # connections
LIMIT_S = 1.0  # of one; then this end closes it, as strangers do
SHARES = {"http": 0.4, "agents": 0.2, "peers": 0.4}  # of the attacks
GROWTH, GROWTH_KIB = 0.10, 16 << 10
LOST = ("replica_failed", "agent_disconnected", "agent_gone", "round_aborted", "round_attempt", "job_rolled_back",
        "replica_absent", "member_distrusted")


class Attack:
    """One connection: says its bytes, listens until the other end closes or the limit is over."""

    def __init__(self, port, address, kind, data):
        self.port, self.kind, self.left, self.heard = port, kind, data, b""
        self.begun = time.monotonic()
        host, number = address.rsplit(":", 1)
        self.socket = socket.socket()
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.socket.connect((host, int(number)))

    def interest(self):
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self.left else 0)

    def move(self, mask):
        """How it ended; None: it still runs."""
        try:
            if mask & selectors.EVENT_WRITE and self.left:
                self.left = self.left[self.socket.send(self.left):]
            if mask & selectors.EVENT_READ:
                some = self.socket.recv(65536)
                self.heard += some
                if not some:
                    return self.verdict("closed")
        except BlockingIOError:
            return None
        except OSError:
            return self.verdict("reset")
        return None

    def verdict(self, how):
        """An answer of HTTP says more than how the connection ended."""
        if not self.heard.startswith(b"HTTP/1.1 "):
            return how
        status = int(self.heard[9:12])
        if status < 400:
            return f"LET IN: {status}"
        return "busy" if status == 503 else f"FAULT: {status}" if status >= 500 else "refused"


class Attacker:
    def __init__(self, addresses, seed, share):
        self.addresses, self.share = addresses, share
        self.sources = {port: hostile_attacks.attacks(port, seed) for port in SHARES}
        self.sent = {port: 0 for port in SHARES}
        self.ends = collections.Counter()  # by port, kind and end
        self.cpu_s = self.wall_s = 0.0

    def total(self):
        return sum(self.sent.values())

    def next_attack(self):
        """Of the port that is furthest behind its share."""
        port = min(SHARES, key=lambda one: self.sent[one] / SHARES[one])
        kind, data = next(self.sources[port])
        address = self.addresses[port][self.sent[port] % len(self.addresses[port])]
        self.sent[port] += 1
        return Attack(port, address, kind, data)

    def turn(self, seconds, most):
        """Attacks for so long, but never costs more than its share of a core."""
        begin, spent, running = time.monotonic(), time.process_time(), {}
        with selectors.DefaultSelector() as ready:
            while (now := time.monotonic()) - begin < seconds or running:
                cheap = time.process_time() - spent < self.share * (now - begin)
                is_time = now - begin < seconds and self.total() < most
                while cheap and is_time and len(running) < AT_ONCE and self.total() < most:
                    attack = self.next_attack()
                    running[attack.socket] = attack
                    ready.register(attack.socket, attack.interest())
                    cheap = time.process_time() - spent < self.share * (time.monotonic() - begin)
                if not is_time and not running:
                    break
                self.serve(ready, running)
        self.cpu_s += time.process_time() - spent
        self.wall_s += time.monotonic() - begin

    def serve(self, ready, running):
        moved = dict((key.fileobj, mask) for key, mask in ready.select(0.02))
        now = time.monotonic()
        for one, attack in list(running.items()):
            end = attack.move(moved[one]) if one in moved else None
            if end is None and now - attack.begun > LIMIT_S:
                end = attack.verdict("left waiting")
            if end is None:
                if one in moved:
                    ready.modify(one, attack.interest())
                continue
            self.ends[attack.port, attack.kind, end] += 1
            ready.unregister(one)
            one.close()
            del running[one]


class Watch:
    """Speed and memory of a cluster."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.pids = {"coordinator": cluster.coordinator.pid}
        for number, agent in enumerate(cluster.agents):
            self.pids[f"agent {number + 1}"] = agent.pid
            for pid in cluster.trainers(number)[:1]:
                self.pids[f"trainer {number + 1}"] = pid
        self.speeds = {"alone": [], "attacked": []}

    def tokens(self):
        return self.cluster.status()["progress"]["tokens"]

    @contextlib.contextmanager
    def turn(self, name):
        """From one commit to another, so that no round is counted in part."""
        begin, _ = self.cluster.next_commit()
        tokens = self.tokens()
        yield
        end, _ = self.cluster.next_commit()
        self.speeds[name].append((self.tokens() - tokens) / (end - begin))

    def memory_kib(self):
        found = {}
        for name, pid in self.pids.items():
            with contextlib.suppress(OSError, IndexError):
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                found[name] = int(status.split("VmRSS:", 1)[1].split()[0])
        return found

    def loss(self):
        """Share of the speed that attacks cost."""
        alone, attacked = (statistics.median(self.speeds[name]) for name in ("alone", "attacked"))
        return 1 - attacked / alone


def peers_of(cluster):
    """The ports of the replicas, once all of them have the state of the job."""
    limit = time.monotonic() + 60
    while True:
        replicas = cluster.get(f"/jobs/{cluster.name}/replicas")["items"]
        live = [one for one in replicas if one["state"] not in ("released", "failed")]
        if live and all(one["state"] == "serving" for one in live):
            return [one["address"] for one in live]
        if time.monotonic() > limit:
            raise SystemExit(f"hostile: no replica serves after a minute: {[one['state'] for one in replicas]}")
        time.sleep(0.2)


def attack(cluster, options):
    """Everything that there is to say of it."""
    peers = peers_of(cluster)
    attacker = Attacker({"http": [cluster.http], "agents": [cluster.grpc], "peers": peers}, options.seed, options.share)
    watch, seq = Watch(cluster), cluster.newest_event()
    with watch.turn("alone"):  # it warms up
        attacker.turn(2, min(200, options.count // 10))
    watch.speeds["alone"].clear()
    before = watch.memory_kib()
    while attacker.total() < options.count:
        with watch.turn("alone"):
            time.sleep(options.turn)
        with watch.turn("attacked"):
            attacker.turn(options.turn, options.count)
    time.sleep(3)  # counts of trainers come with heartbeats
    lost = [event for event in cluster.events_after(seq) if event["kind"] in LOST]
    return {"attacker": attacker, "watch": watch, "before": before, "after": watch.memory_kib(),
            "lost": [f'{one["kind"]}: {one["message"]}' for one in lost]}


def problems_of(found):
    attacker, watch, said = found["attacker"], found["watch"], []
    for (port, kind, end), count in sorted(attacker.ends.items()):
        if end.startswith(("LET IN", "FAULT")):
            said.append(f"{port}, {kind}: {count} times {end}")
    for name, before in found["before"].items():
        after = found["after"].get(name)
        if after is None:
            said.append(f"{name} has ended")
        elif after > before * (1 + GROWTH) + GROWTH_KIB:
            said.append(f"{name} grew from {before} to {after} KiB")
    if watch.loss() > 0.10:
        said.append(f"the job lost {watch.loss():.0%} of its speed")
    return said + found["lost"]


def report(found):
    attacker, watch = found["attacker"], found["watch"]
    kinds = sorted({(port, kind) for port, kind, _ in attacker.ends})
    print(f"{'port':8} {'what':16} {'sent':>6}  how it ended")
    for port, kind in kinds:
        ends = {end: count for (p, k, end), count in attacker.ends.items() if (p, k) == (port, kind)}
        words = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
        print(f"{port:8} {kind:16} {sum(ends.values()):6}  {words}")
    print(f"\n{attacker.total()} in {attacker.wall_s:.0f} s, for {attacker.cpu_s / attacker.wall_s:.1%} of a core\n")
    print(f"{'process':14} {'KiB before':>11} {'after':>9}")
    for name, before in found["before"].items():
        print(f"{name:14} {before:11} {found['after'].get(name, 'ended'):>9}")
    for name in ("alone", "attacked"):
        speeds = watch.speeds[name]
        print(f"\ntokens a second, {name}: median {statistics.median(speeds):.0f} of {len(speeds)} turns "
              f"({min(speeds):.0f} to {max(speeds):.0f})", end="")
    print(f"; lost: {watch.loss():.1%}")


def as_json(found):
    attacker, watch = found["attacker"], found["watch"]
    ends = [{"port": port, "kind": kind, "end": end, "count": count}
            for (port, kind, end), count in sorted(attacker.ends.items())]
    return {"sent": attacker.total(), "core": attacker.cpu_s / attacker.wall_s, "ends": ends,
            "memory_kib": {"before": found["before"], "after": found["after"]}, "tokens_per_s": watch.speeds,
            "loss": watch.loss(), "problems": problems_of(found)}


def main():
    parser = argparse.ArgumentParser(prog="./dev hostile", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--count", type=int, default=10_000, help="attacks in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.1, help="of a core that the attacker may take")
    parser.add_argument("--turn", type=float, default=TURN_S, help="seconds of a turn")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--faults", action="store_true", help="programs that once harmed a cluster, instead of attacks")
    options = parser.parse_args()
    end_by_signal()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-hostile-"))
    problems = run_faults(folder) if options.faults else run_attacks(folder, options)
    for problem in problems:
        print("FAILED: " + problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    shutil.rmtree(folder)


def run_faults(folder):
    if why := hostile_faults.why_not():
        print(f"the programs are left out: {why}")
        return []
    try:
        return hostile_faults.run(folder / "faults")
    except Trouble as trouble:
        sys.exit(f"error: {trouble}; the logs are in {folder}")


def run_attacks(folder, options):
    cluster = Cluster(folder, 2, JOB)
    try:
        cluster.begin()
        cluster.all_take_part()
        found = attack(cluster, options)
    except Trouble as trouble:
        sys.exit(f"error: {trouble}; the logs are in {folder}")
    finally:
        cluster.stop()
    problems = problems_of(found)
    if options.json:
        print(json.dumps(as_json(found)))
    else:
        report(found)
    return problems


if __name__ == "__main__":
    main()
