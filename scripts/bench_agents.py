#!/usr/bin/env python3
"""What many idle agents cost the coordinator: heartbeats over mutual TLS, and how long joining takes.

    scripts/bench_agents.py [--agents N] [--gpus G] [--seconds S] [--json]

Starts a coordinator, joins it as N agents in one other process (shoal-many-agents), and counts the CPU time of the
coordinator while all of them say at their intervals that they live, and every 10 s what has changed of each of their G
GPUs, which train: power varies by 15 W, utilization by 2 %, temperature by 1 degree, clocks by 20 MHz. Exit
code 1 when that takes more than 12 % of a core for 1,000 agents, in proportion, or a session ends. Needs a finished
build.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from rig import BIN, Cluster

SETTLE_S = 5
CORE_PER_AGENT = 0.12 / 1000
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """User and system time of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def told(stream):
    """The next line of JSON; what agents log comes between."""
    for line in stream:
        if line.startswith("{"):
            return json.loads(line)
    sys.exit("the agents did not join")


def measure(cluster, options):
    cluster.start_coordinator()
    made = cluster.shoal("token", "create", "--join", "--uses", str(options.agents), "--ttl", "1h", "--json")
    if made.returncode != 0:
        sys.exit("no join token: " + made.stderr)
    token = cluster.folder / "many.token"
    token.write_text(json.loads(made.stdout)["token"])
    token.chmod(0o600)
    words = [BIN / "shoal-many-agents", "--folder", cluster.folder / "many", "--coordinator", cluster.grpc, "--enrol",
             cluster.join_at, "--join-token", token, "--agents", options.agents,
             "--gpus", options.gpus]
    with subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as agents:
        joined = told(agents.stdout)
        time.sleep(SETTLE_S)
        begun, before = time.monotonic(), cpu_s(cluster.coordinator.pid)
        time.sleep(options.seconds)
        used, took = cpu_s(cluster.coordinator.pid) - before, time.monotonic() - begun
        agents.stdin.close()
        ended = told(agents.stdout)
    return {**joined, **ended, "agents": options.agents, "core": used / took}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--gpus", type=int, default=0, help="of each agent")
    parser.add_argument("--seconds", type=float, default=30, help="that are counted")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-agents-") as folder:
        cluster = Cluster(folder, 0, "")
        try:
            result = measure(cluster, options)
        finally:
            cluster.stop()
    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['agents']} agents: {100 * result['core']:.1f} % of a core of the coordinator; joining "
              f"{result['enrol_ms']:.1f} ms (p99 {result['enrol_p99_ms']:.1f}), a session {result['welcome_ms']:.1f} ms "
              f"(p99 {result['welcome_p99_ms']:.1f}); {result['lost']} sessions ended")
    return 0 if result["core"] <= CORE_PER_AGENT * result["agents"] and result["lost"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
