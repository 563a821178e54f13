#!/usr/bin/env python3
"""Random and mutated messages with the certificate of a member, at everything that listens.

    ./dev hostile members [--count N] [--seed S] [--share CPU] [--turns N]

A coordinator, two agents that train, one that averages (a reducer) and one that relays. A further host joins with the
join token (tests/hostile/member.cc). In alternating turns the cluster is left alone, or the host sends messages of its
session, random ones and some of them with changed bytes, to the coordinator, and connections with its certificate that
carry random frames to the ports of trainers, reducer and relay. Exit code 1 when a process ended, a process grew by
more than 64 MiB, or the job, which has no replica of that host, lost more than a tenth of its speed (medians). Needs a
finished build.
"""
import argparse
import contextlib
import json
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import hostile_attacks
from hostile import Watch, peers_of
from rig import BIN, Cluster, Trouble, end_by_signal, job_text

JOB = job_text("hostile", model={"layers": 2, "hidden": 64, "heads": 2, "context": 64}, data={"tokenizer": "bytes"},
               train={"batch": 4, "lr": 1e-3}, sync={"every": 10}, swarm={"min_replicas": 2})
GROWTH_KIB = 64 << 10
TO_COORDINATOR = 0.9  # of the messages; the others are connections, which cost far more


class Hosts(Cluster):
    """Agents 0 and 1 train, 2 averages, 3 relays."""

    def __init__(self, folder):
        super().__init__(folder, 4, JOB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.relay = f"127.0.0.1:{probe.getsockname()[1]}"

    def devices_of(self, number):
        if number == 2:
            return ["--role", "reducer"]
        return ["--role", "relay", "--relay", self.relay] if number == 3 else super().devices_of(number)

    def all_take_part(self, limit=120):
        self.until(lambda: self.committed() > 2, "no round is committed", limit)


class Member:
    def __init__(self, cluster, options):
        self.cluster, self.options, self.said = cluster, options, 0
        self.folder = cluster.folder / "evil"
        self.dice = random.Random(options.seed)

    def at_coordinator(self, count):
        """The messages of one turn. Returns how many were said."""
        words = [BIN / "shoal-hostile-member", "mutate", "--grpc", self.cluster.grpc, "--enrol", self.cluster.join_at,
                 "--token-file", self.cluster.token, "--folder", self.folder, "--count", str(count), "--seed",
                 str(self.options.seed + self.said), "--share", str(self.options.share)]
        ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=3600)
        if ran.returncode != 0:
            raise Trouble(f"shoal-hostile-member: {ran.stderr.strip()}")
        return json.loads(ran.stdout.splitlines()[-1])["said"]

    def at_ports(self, addresses, count):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(self.folder / "machine.pem", self.folder / "machine.key")
        begun, spent = time.monotonic(), time.process_time()
        for number in range(count):
            self.connect(context, addresses[number % len(addresses)])
            ahead = (time.process_time() - spent) / self.options.share - (time.monotonic() - begun)
            time.sleep(max(0.0, ahead))
        return count

    def connect(self, context, address):
        host, port = address.rsplit(":", 1)
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5) as line:
            line.settimeout(2)
            with context.wrap_socket(line) as tls:
                tls.sendall(hostile_attacks.MARK + self.dice.randbytes(self.dice.randint(1, 4000)))
                tls.recv(4096)

    def turn(self, addresses, count):
        self.said += self.at_coordinator(max(1, int(count * TO_COORDINATOR)))
        self.said += self.at_ports(addresses, max(1, int(count * (1 - TO_COORDINATOR))))


def run(cluster, options):
    """What is wrong."""
    watch, member = Watch(cluster), Member(cluster, options)
    addresses = peers_of(cluster) + [cluster.relay]
    with watch.turn("alone"):
        member.turn(addresses, 200)
    watch.speeds["alone"].clear()
    before = watch.memory_kib()
    while member.said < options.count:
        begun = time.monotonic()
        with watch.turn("attacked"):
            member.turn(addresses, max(1, options.count // options.turns))
        lasted = time.monotonic() - begun
        with watch.turn("alone"):
            time.sleep(min(lasted, 20))
    after, problems = watch.memory_kib(), []
    for name, kib in before.items():
        print(f"{name:14} {kib:9} KiB before, {after.get(name, 'ended'):>9} after")
        if name not in after:
            problems.append(f"{name} has ended")
        elif after[name] > kib + GROWTH_KIB:
            problems.append(f"{name} grew by {after[name] - kib} KiB")
    print(f"{member.said} messages; the job lost {watch.loss():.1%} of its speed, medians of "
          f"{len(watch.speeds['attacked'])} turns")
    if watch.loss() > 0.10:
        problems.append(f"the job lost {watch.loss():.0%} of its speed")
    return problems


def main():
    parser = argparse.ArgumentParser(prog="./dev hostile members", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--count", type=int, default=200_000, help="messages in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.1, help="of a core that the sender may take")
    parser.add_argument("--turns", type=int, default=20)
    options = parser.parse_args()
    end_by_signal()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-members-"))
    cluster = Hosts(folder)
    try:
        cluster.begin()
        cluster.all_take_part()
        problems = run(cluster, options)
    except Trouble as trouble:
        sys.exit(f"error: {trouble}; the logs are in {folder}")
    finally:
        cluster.stop()
    for problem in problems:
        print("FAILED: " + problem, file=sys.stderr)
    if problems:
        sys.exit(f"the logs are in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
