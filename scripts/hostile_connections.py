#!/usr/bin/env python3
"""Fills the port for agents with connections that say nothing, and shows that agents do not mind.

    ./dev hostile connections [--count N] [--seconds S] [--files N]

A coordinator with at most 256 open files (--files) serves an agent. 400 idle connections (--count) are opened and, when
the coordinator closes them, opened again, for a minute (--seconds). Exit code 1 when the session of the agent ends, a
further agent does not join within 10 s, or /readyz is not "ok" throughout. Needs a finished build.
"""
import argparse
import contextlib
import pathlib
import selectors
import shutil
import socket
import sys
import tempfile
import time

from rig import WITHOUT_PROXY, Cluster, Trouble, end_by_signal

JOIN_S = 10
REOPENED_EACH_TURN = 100


class Bounded(Cluster):
    """Whose coordinator may have so many files open."""

    files = 256

    def around(self, program):
        limited = ["sh", "-c", f'ulimit -n {self.files} && exec "$0" "$@"']
        return limited if program == "shoal-coordinator" else []


class Idle:
    """Connections that are open and say nothing."""

    def __init__(self, address, count):
        host, port = address.rsplit(":", 1)
        self.address, self.count, self.closed = (host, int(port)), count, 0
        self.ready = selectors.DefaultSelector()

    def fill(self):
        missing = self.count - len(self.ready.get_map())
        for _ in range(min(missing, REOPENED_EACH_TURN)):
            one = socket.socket()
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(self.address)
            self.ready.register(one, selectors.EVENT_READ)

    def drop_closed(self):
        for key, _ in self.ready.select(0):
            self.ready.unregister(key.fileobj)
            key.fileobj.close()
            self.closed += 1

    def end(self):
        for key in list(self.ready.get_map().values()):
            key.fileobj.close()


def readiness(cluster):
    try:
        with WITHOUT_PROXY.open(f"http://{cluster.http}/readyz?verbose=true", timeout=5) as answer:
            return answer.read().decode().strip()
    except OSError as refused:
        return f"{refused}"


def agents_here(cluster):
    return {one["name"] for one in cluster.get("/agents")["items"] if one["state"] != "gone"}


def attack(cluster, options):
    problems, idle = [], Idle(cluster.grpc, options.count)
    seq, begin, joined_after = cluster.newest_event(), time.monotonic(), None
    asked_at = 0.0
    try:
        while (now := time.monotonic()) - begin < options.seconds:
            idle.drop_closed()
            idle.fill()
            if joined_after is None and now - begin > 5 and cluster.agents[1] is None:
                cluster.start_agent(1)
                joins_at = time.monotonic()
            if cluster.agents[1] is not None and joined_after is None:
                if cluster.name_of(1) in agents_here(cluster):
                    joined_after = time.monotonic() - joins_at
                elif time.monotonic() - joins_at > JOIN_S:
                    joined_after = float("inf")
                    problems.append(f"the second agent did not join within {JOIN_S} s")
            if now - asked_at > 1:
                asked_at = now
                if (said := readiness(cluster)) != "ok":
                    problems.append(f"after {now - begin:.0f} s /readyz says: {said}")
            time.sleep(0.1)
        lost = [one["message"] for one in cluster.events_after(seq) if one["kind"] in ("agent_disconnected", "agent_gone")]
    finally:
        idle.end()
    print(f"{options.count} idle connections for {options.seconds:g} s, {idle.closed} closed by the coordinator; "
          f"the second agent joined after {joined_after or 0:.1f} s")
    return problems + lost


def main():
    parser = argparse.ArgumentParser(prog="./dev hostile connections", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--count", type=int, default=400, help="idle connections")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--files", type=int, default=256, help="that the coordinator may have open")
    options = parser.parse_args()
    end_by_signal()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-hostile-connections-"))
    cluster = Bounded(folder, 2, "")
    cluster.files = options.files
    try:
        cluster.start_coordinator()
        cluster.start_agent(0)
        cluster.until(lambda: agents_here(cluster), "the first agent does not come")
        problems = attack(cluster, options)
    except Trouble as trouble:
        sys.exit(f"error: {trouble}; the logs are in {folder}")
    finally:
        cluster.stop()
    for problem in problems:
        print("FAILED: " + problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
