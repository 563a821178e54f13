#!/usr/bin/env python3
"""What carries bytes between peers: streams of our own, bare TLS sockets. Options of shoal-streams follow `--`.

    scripts/bench_streams.py                            on this host (build/bin/shoal-streams)
    sudo scripts/bench_streams.py nat                   one process behind a router that translates addresses
    sudo scripts/bench_streams.py lines [--mbit N]      three hosts, 200 Mbit/s
    sudo scripts/bench_streams.py far [--rtt MS] [--loss PERCENT] [--mbit N] [--lanes N…]

nat: process 1 is in a network of its own. A router masquerades what leaves it (nftables) and drops what comes to it
uncalled, so process 1 can dial process 0, and 0 cannot dial 1. Streams carry both directions over what 1 dialed.
lines: three hosts behind token buckets of tc, 200 Mbit/s each way unless --mbit says otherwise.
far: two hosts joined by shoal-line. Streams with so many connections.
Both run a butterfly; `mbit` in the table is what each host sends. The network of this host is not touched.
Needs root (except the first), iproute2, nftables for nat, /dev/net/tun for far, and a finished build.
"""
import argparse
import contextlib
import json
import subprocess
import sys

from rig import BIN, FarLines, Lines, Trouble, end_by_signal, run

LIMIT_S = 300  # of one run
RULES = """
table ip nat {
  chain leaving { type nat hook postrouting priority 100; oifname "open" masquerade; }
  chain through { type filter hook forward priority 0; policy drop;
    iifname "hidden" accept
    ct state established accept
  }
}
"""


def streams(*words):
    """The results of shoal-streams, or what it complained of."""
    done = subprocess.run([str(BIN / "shoal-streams"), *[str(word) for word in words], "--json"],
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        return [], done.stderr.strip().split("\n")[-1]
    return json.loads(done.stdout)["results"], ""


class Router(Lines):
    """Two hosts, `hidden` behind a router that masquerades, `open` in front of it."""

    HIDDEN, OPEN = "10.81.0.2", "10.82.0.2"

    def set_up(self, agents=2, mbit=0):
        self.hub = self.add("router")
        self.hosts = [self.add("open"), self.add("hidden")]
        for name, namespace, address in (("hidden", self.hosts[1], self.HIDDEN), ("open", self.hosts[0], self.OPEN)):
            gate = address.rsplit(".", 1)[0] + ".1"
            run("ip", "link", "add", "line", "netns", namespace, "type", "veth", "peer", "name", name, "netns", self.hub)
            for where, device, own in ((namespace, "line", address), (self.hub, name, gate)):
                run("ip", "-n", where, "address", "add", f"{own}/24", "dev", device)
                run("ip", "-n", where, "link", "set", device, "up")
        run("ip", "-n", self.hosts[1], "route", "add", "default", "via", "10.81.0.1")
        run("ip", "-n", self.hosts[0], "route", "add", "default", "via", "10.82.0.1")
        run("ip", "netns", "exec", self.hub, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        subprocess.run(["ip", "netns", "exec", self.hub, "nft", "-f", "-"], input=RULES, text=True, check=True)


def behind_router(_, rest):
    router = Router("-nat")
    with contextlib.ExitStack() as stack:
        stack.callback(router.take_down)
        router.set_up()
        where = ["--namespaces", ",".join(router.hosts), "--hosts", f"{Router.OPEN},{Router.HIDDEN}"]
        found, complaint = streams(*where, "--contenders", "streams", "--measures", "flow,hop", *rest)
        if found:
            print(f"both ways, {found[0]['gb_per_s']:.2f} GB/s, hop of 64 KiB {found[0]['hop_64k_p50_us']:.0f} us")
        else:
            print(f"not reached: {complaint}")


def butterflies(lines, mbit, kinds, rest):
    """A butterfly of all hosts by each of (contender, connections): Mbit/s that each host sends, and of the line."""
    members = len(lines.hosts)
    where = ["--processes", members, "--namespaces", ",".join(lines.hosts), "--hosts",
             ",".join(lines.address(n) for n in range(members)), "--measures", "flow"]
    print(f"{'kind':>10} {'lanes':>5} {'mbit':>8} {'line %':>7}  each, in its order")
    for kind, lanes in kinds:
        found, complaint = streams(*where, "--contenders", kind, "--lanes", lanes, *rest)
        if not found:
            print(f"{kind:>10} {lanes:5}  {complaint}", flush=True)
            continue
        rate = 8000 * found[0]["gb_per_s"]
        each = " ".join(f"{8000 * one:.0f}" for one in found[0]["all_gb_per_s"])
        print(f"{kind:>10} {lanes:5} {rate:8.1f} {100 * rate / mbit:7.1f}  {each}", flush=True)


def over_lines(options, rest):
    lines = Lines("-streams")
    with contextlib.ExitStack() as stack:
        stack.callback(lines.take_down)
        lines.set_up(2, options.mbit)
        kinds = [("streams", 1), ("streams", 2), ("streams-tcp", 1)]
        butterflies(lines, options.mbit, kinds, rest)


def over_far_lines(options, rest):
    lines = FarLines("-streams")
    with contextlib.ExitStack() as stack:
        stack.callback(lines.take_down)
        lines.set_up(1)
        for number in (0, 1):
            lines.set_line(number, {"mbit": options.mbit, "delay_ms": options.rtt / 2, "loss": options.loss / 100},
                           {"mbit": options.mbit})
        butterflies(lines, options.mbit, [("streams", lanes) for lanes in options.lanes], rest)


def main():
    arguments = sys.argv[1:]
    own, rest = arguments, []
    if "--" in arguments:
        at = arguments.index("--")
        own, rest = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", nargs="?", choices=["here", "nat", "lines", "far"], default="here")
    parser.add_argument("--rtt", type=float, default=100, help="ms")
    parser.add_argument("--loss", type=float, default=1, help="percent, each way")
    parser.add_argument("--mbit", type=int, help="of every direction; without: 200 for lines, 1000 for far")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 4, 8, 16], help="connections of a pair")
    options = parser.parse_args(own)
    options.mbit = options.mbit or {"lines": 200, "far": 1000}.get(options.where)
    if options.where == "here":
        return subprocess.call([str(BIN / "shoal-streams"), *rest])
    if problem := Lines.problem():
        sys.exit("error: " + problem)
    end_by_signal()
    try:
        {"nat": behind_router, "lines": over_lines, "far": over_far_lines}[options.where](options, rest)
    except Trouble as trouble:
        sys.exit(f"error: {trouble}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
