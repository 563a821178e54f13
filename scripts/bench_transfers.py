#!/usr/bin/env python3
"""What a checkpoint costs whose upload and download break again and again.

    scripts/bench_transfers.py [--mbit N] [--cuts N] [--hidden N] [--json]

A coordinator and an agent, each in a network namespace of its own with a line between them, train one job. It is
paused, which uploads its state, and resumed, which loads it again. Between the two stands a relay, which closes
all connections at even distances and takes no new ones for a moment; once each way the coordinator is killed and
started again instead. Counted is what the relay was sent. Exit code 1 when that is more than the state and what
every cut loses that is under way. The network of this host is not touched. Needs root, iproute2 and a finished
build.
"""
import argparse
import asyncio
import contextlib
import json
import sys
import threading
import time

from rig import Cluster, Lines, cluster_on_lines, job_text

CUT_S = 2  # how long a line stays cut
LOST_PER_CUT = 8 << 20  # under way in buffers
HEADERS = 1.01  # of messages, and all else that the two say
LIMIT_S = 1200


class Relay:
    """Stands between agents and the coordinator, in a thread of its own."""

    def __init__(self):
        self.sent = {"up": 0, "down": 0}
        self.writers, self.refuses = set(), False
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(asyncio.start_server(self.join, Lines.address(0), 7072), self.loop).result()

    async def join(self, reader, writer):
        with contextlib.suppress(OSError):
            if self.refuses:
                raise OSError
            there, back = await asyncio.open_connection(Lines.address(0), 7071)
            await asyncio.gather(self.pass_on(reader, back, "up"), self.pass_on(there, writer, "down"))
        writer.close()

    async def pass_on(self, reader, writer, way):
        self.writers.add(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                self.sent[way] += len(data)
                writer.write(data)
                await writer.drain()
        self.writers.discard(writer)
        writer.close()

    def close_all(self, refuses):
        self.refuses = refuses
        for writer in list(self.writers) if refuses else []:
            writer.transport.abort()

    def cut(self):
        self.loop.call_soon_threadsafe(self.close_all, True)
        time.sleep(CUT_S)
        self.loop.call_soon_threadsafe(self.close_all, False)


class RelayedCluster(Cluster):
    """Its agents dial the relay."""

    relay = None

    def start_agent(self, number):
        direct, self.grpc = self.grpc, f"{Lines.address(0)}:7072"
        super().start_agent(number)
        self.grpc = direct


def restart(cluster):
    cluster.kill(cluster.coordinator)
    cluster.start_coordinator()


def phase(cluster):
    return cluster.status()["phase"]


def state_size(cluster):
    stored = [one for one in cluster.get("/jobs/bench/checkpoints")["items"] if one["state"] == "stored"]
    return sum(file["size"] for file in stored[-1]["files"])


def transfer(cluster, way, begin, done, expected, cuts):
    """Begins a transfer and breaks it `cuts` times until it is done: {"sent", "seconds", "cuts"}."""
    before, started, broken = cluster.relay.sent[way], time.monotonic(), 0
    begin()
    while True:
        with contextlib.suppress(OSError):
            if done():
                break
        if time.monotonic() - started > LIMIT_S:
            sys.exit(f"not done after {LIMIT_S} s; logs: {cluster.folder}")
        so_far = cluster.relay.sent[way] - before
        if broken < cuts and so_far > (broken + 1) * expected / (cuts + 1):
            broken += 1
            restart(cluster) if broken == (cuts + 1) // 2 else cluster.relay.cut()
        time.sleep(0.1)
    return {"sent": cluster.relay.sent[way] - before, "seconds": round(time.monotonic() - started, 1), "cuts": broken}


def measure(cluster, options):
    expected = 16 * 8 * 12.3 * options.hidden**2  # about
    cluster.until(lambda: cluster.committed() >= 2, "no round is committed", LIMIT_S)
    up = transfer(cluster, "up", lambda: cluster.shoal("job", "pause", "bench"),
                  lambda: phase(cluster) == "paused", expected, options.cuts)
    size = state_size(cluster)
    rounds = cluster.committed()
    down = transfer(cluster, "down", lambda: cluster.shoal("job", "resume", "bench"),
                    lambda: cluster.committed() > rounds, size, options.cuts)
    return {"up": {**up, "bytes": size}, "down": {**down, "bytes": size}}


def is_good(one):
    return one["sent"] <= HEADERS * one["bytes"] + one["cuts"] * LOST_PER_CUT


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbit", type=int, default=50, help="of the line")
    parser.add_argument("--cuts", type=int, default=5, help="each way")
    parser.add_argument("--hidden", type=int, default=512, help="width of the model; its state is 400 MB at 512")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    job = job_text("bench", model={"layers": 8, "hidden": options.hidden, "heads": 8, "context": 32},
                   train={"batch": 1, "lr": 1e-4}, sync={"every": 2})
    with cluster_on_lines("shoal-transfers-", 1, options.mbit,
                          lambda folder, lines: RelayedCluster(folder, 1, job, lines)) as cluster:
        cluster.relay = Relay()
        cluster.begin()
        results = measure(cluster, options)
    if options.json:
        print(json.dumps(results))
    else:
        for way, one in results.items():
            print(f"{way:5} {one['bytes'] / 1e6:.0f} MB, cut {one['cuts']} times: {one['seconds']:.0f} s, sent "
                  f"{one['sent'] / 1e6:.1f} MB ({one['sent'] / one['bytes']:.3f} of it)")
    return 0 if all(is_good(one) for one in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
