#!/usr/bin/env python3
"""Trains across sites, two of them behind routers that translate addresses, and checks the ways that bytes take.

    sudo ./dev sites [--stages N]

In a network of its own: a coordinator, two agents that relay and do nothing else, an agent that can be dialed, and
two agents in private networks with the same addresses, each behind a router that masquerades (nftables) and lets
nothing in. It checks, step by step:

 1. the open agent and one hidden one train a model, in two stages unless --stages says 1; nothing goes over a relay, because one of them can be dialed;
 2. the agent of the other private network joins the job and takes part; the two hidden ones reach each other over a
    relay, and `shoal network` says for each pair which way it takes;
 3. the relay that carries is killed: the rounds continue with all three, over the other relay;
 4. tcpdump saw no frame header of a stream in clear on any line of the routers.

The exit code is 1, with one line, if a check fails. Needs root, iproute2, nftables, tcpdump and a finished build.
"""
import argparse
import contextlib
import re
import subprocess
import sys
import time
import urllib.request

import rig
from rig import Cluster, Lines, Trouble, cluster_on_lines, run

RELAY_PORT = 7200
SOUTH, FIRST_HIDDEN, SECOND_HIDDEN = 2, 3, 4  # numbers of agents; 0 and 1 relay
ROUNDS = 3  # that each step looks at
LIMIT_S = 90
HIDDEN_ADDRESS = "192.168.1.2"  # in either private network
# Any header of wire/stream/core/frame.h: mark, type, no flags, the length of a head, two bytes of nothing.
HEADER = re.compile(rb"hS[\x00-\x07]\x00..\x00\x00", re.DOTALL)
RULES = """
table ip nat {
  chain leaving { type nat hook postrouting priority 100; oifname "out" masquerade; }
  chain through { type filter hook forward priority 0; policy drop;
    iifname "in" accept
    ct state established accept
  }
}
"""
JOB = """name = "sites"
[model]
family = "llama"
layers = 2
hidden = 64
heads = 2
context = 32
[data]
train = "text.txt"
[train]
steps = 1000000
batch = 1
lr = 1e-4
[sync]
every = 20
codec = "fp32"
[swarm]
stages = {stages}
min_replicas = {least}
[checkpoint]
every_rounds = 0
[eval]
every_rounds = 0
"""


def plain_headers(captured):
    """The number of unencrypted frame headers in these bytes."""
    return len(HEADER.findall(captured))


class Sites(Lines):
    """The hosts of Lines, with the last two in private networks behind routers of their own."""

    def set_up(self, agents, mbit=0):
        super().set_up(agents - 2, mbit)
        self.routers, self.captures = [], []
        for number in (FIRST_HIDDEN, SECOND_HIDDEN):
            self.hosts.append(self.hide(number + 1))

    def hide(self, number):
        router = self.join(number, 0)  # a host of the open network until it forwards
        run("ip", "-n", router, "link", "set", "line", "down")
        run("ip", "-n", router, "link", "set", "line", "name", "out")
        run("ip", "-n", router, "link", "set", "out", "up")
        hidden = self.add(f"hidden{number}")
        run("ip", "link", "add", "line", "netns", hidden, "type", "veth", "peer", "name", "in", "netns", router)
        for where, device, address in ((router, "in", "192.168.1.1"), (hidden, "line", HIDDEN_ADDRESS)):
            run("ip", "-n", where, "address", "add", f"{address}/24", "dev", device)
            run("ip", "-n", where, "link", "set", device, "up")
        run("ip", "-n", hidden, "route", "add", "default", "via", "192.168.1.1")
        run("ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        subprocess.run(["ip", "netns", "exec", router, "nft", "-f", "-"], input=RULES, text=True, check=True)
        self.routers.append(router)
        return hidden

    def capture(self, folder):
        """Records what passes the routers from now on, on both of their lines."""
        for router in self.routers:
            for device in ("in", "out"):
                path = folder / f"{router}-{device}.pcap"
                words = ["ip", "netns", "exec", router, "tcpdump", "-i", device, "-s", "0", "-U", "-w", str(path), "tcp"]
                process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
                self.captures.append((process, path))

    def captured(self):
        """The files, once nothing is written any more."""
        for process, _ in self.captures:
            process.terminate()
            process.wait(rig.ENDING_S)
        return [path for _, path in self.captures]

    def take_down(self):
        for process, _ in getattr(self, "captures", []):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        super().take_down()


class SitesCluster(Cluster):
    """A cluster whose last hidden agent joins later."""

    def __init__(self, folder, lines, stages):
        super().__init__(folder, 5, JOB.format(stages=stages, least=1 if stages > 1 else 2), lines)
        self.stages = stages

    def begin(self):
        self.count -= 1
        super().begin()
        self.count += 1

    def name_of(self, number):
        return ("relay-1", "relay-2", "south", "hidden-east", "hidden-west")[number]

    def flags_of(self, number):
        return ["--role", "relay", "--relay", f"0.0.0.0:{RELAY_PORT}"] if number < SOUTH else []

    def devices_of(self, number):
        return super().devices_of(number) if number >= SOUTH else []

    def address_of(self, number):
        return HIDDEN_ADDRESS if number > SOUTH else super().address_of(number)

    def metric(self, name):
        """The values of a metric by the name of the agent."""
        request = urllib.request.Request(f"http://{self.http}/metrics", headers=self.login())
        with rig.WITHOUT_PROXY.open(request, timeout=5) as answer:
            text = answer.read().decode()
        names = {one["id"]: one["name"] for one in self.get("/agents")["items"]}
        found = re.findall(rf'^{name}{{agent="(\w+)"}} (\S+)$', text, re.MULTILINE)
        return {names[agent]: float(value) for agent, value in found}

    def ways(self):
        names = {one["id"]: one["name"] for one in self.get("/agents")["items"]}
        return {(names[link["from"]], names[link["to"]]): link["way"] for link in self.get("/network")["items"]}


def say(text):
    print(text, flush=True)


def rounds_of(cluster, members):
    """Waits for ROUNDS rounds in a row with all these members. Returns seconds per round."""
    cluster.until(lambda: cluster.committed() > 0 and cluster.members(cluster.committed()) == members,
                  f"no round of {members} members is committed", LIMIT_S)
    begun = time.monotonic()
    for _ in range(ROUNDS):
        cluster.next_commit()
    number = cluster.committed()
    if cluster.members(number) != members:
        raise Trouble(f"round {number} has {cluster.members(number)} members, not {members}")
    return (time.monotonic() - begun) / ROUNDS


def are_known(ways, stages):
    """Whether each way is the expected one, and the ways that the rounds take are known."""
    hidden = {("hidden-east", "hidden-west"), ("hidden-west", "hidden-east")}
    known = {pair: way for pair, way in ways.items() if way != "unknown"}
    for pair, way in known.items():
        expected = "relayed" if pair in hidden else "direct" if pair[1] == "south" else "reverse"
        if way != expected:
            raise Trouble(f"{pair[0]} reaches {pair[1]} {way}, not {expected}")
    return len(known) == 6 if stages == 1 else bool(hidden & known.keys())


def open_and_hidden(cluster):
    spent = rounds_of(cluster, 2)
    carried = cluster.metric("shoal_relay_bytes_total")
    if len(carried) != 2 or any(carried.values()):
        raise Trouble(f"a relay carried bytes although one end can be dialed: {carried}")
    say(f"1. south and hidden-east train, {spent:.1f} s a round; the relays carried 0 bytes")


def both_hidden(cluster):
    begun = time.monotonic()
    cluster.start_agent(SECOND_HIDDEN)
    spent = rounds_of(cluster, 3)
    cluster.until(lambda: are_known(cluster.ways(), cluster.stages), "not all ways become known", LIMIT_S)
    say(f"2. hidden-west joined, {time.monotonic() - begun:.0f} s until its ways were known, {spent:.1f} s a round")
    print(cluster.shoal("network").stdout)


def lose_the_relay(cluster):
    cluster.until(lambda: any(cluster.metric("shoal_relay_joined").values()), "no relay carries", LIMIT_S)
    joined = cluster.metric("shoal_relay_joined")
    busy = max(joined, key=joined.get)
    other = next(name for name in joined if name != busy)
    before = cluster.metric("shoal_relay_bytes_total")[other]
    cluster.kill(cluster.agents[0 if busy == "relay-1" else 1])
    begun = time.monotonic()
    spent = rounds_of(cluster, 3)
    cluster.until(lambda: cluster.metric("shoal_relay_bytes_total")[other] > before, "the other relay carries nothing",
                  LIMIT_S)
    say(f"3. {busy} was killed; {ROUNDS} rounds of all three {time.monotonic() - begun:.0f} s later, {spent:.1f} s a "
        f"round, over {other}")


def nothing_in_clear(lines):
    size = 0
    for path in lines.captured():
        captured = path.read_bytes()
        size += len(captured)
        if found := plain_headers(captured):
            raise Trouble(f"{found} frame headers in clear in {path}")
    if size < 1 << 20:
        raise Trouble(f"tcpdump has written {size} bytes, which is too little to say anything")
    say(f"4. {size / 1e6:.0f} MB passed the routers, no frame header in clear among them")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=int, choices=(1, 2), default=2)
    stages = parser.parse_args().stages
    for program in ("nft", "tcpdump"):
        if subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True, check=False).returncode != 0:
            sys.exit(f"error: {program} is missing; ./dev deps installs it")
    with cluster_on_lines("shoal-sites-", 5, 0, lambda folder, lines: SitesCluster(folder, lines, stages),
                          Sites()) as cluster:
        cluster.folder.mkdir(parents=True, exist_ok=True)
        cluster.lines.capture(cluster.folder)
        cluster.begin()
        open_and_hidden(cluster)
        both_hidden(cluster)
        lose_the_relay(cluster)
        nothing_in_clear(cluster.lines)


if __name__ == "__main__":
    main()
