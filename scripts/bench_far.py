#!/usr/bin/env python3
"""What lines of a long round trip with loss carry: plain TCP, gloo's ring, the reduce.

    scripts/bench_far.py [--rtt MS…] [--loss PERCENT…] [--mbit N…] [--congestion NAME…] [--seconds S] [--json]

Two hosts, a namespace each, are joined by shoal-line (bench/line). For every line and congestion control first plain
TCP streams: what they carry in the later half of --seconds, one way, then both ways at once as a reduce does. Then gloo's ring of two processes whose sockets take it
from their namespace, where the kernel allows that (not cubic). Last the reduce of two (`shoal-bench all-reduce`, fp32,
plain) in namespaces that say reno: it chooses for itself. A reduce is of as many values as the best streams carry in half of
--seconds, gloo's of as many as one stream does. `lost` and `queue` are shares of segments that the line lost and
dropped, `late` how late it delivered (99 of 100). The network of this host is not touched.
Needs root, iproute2, /dev/net/tun and a finished build.
"""
import argparse
import contextlib
import itertools
import json
import pathlib
import subprocess
import sys

from rig import BIN, ENDING_S, FarLines, Trouble, end_by_signal

FLOW = pathlib.Path(__file__).resolve().parent / "far_flow.py"
CONGESTION = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
PORT = 7200
WARM_S = 30  # that a flow may take to begin
LIMIT_S = 300  # of a reduce with its repetitions


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *[str(word) for word in words]]


def rate_of(told):
    """Mbit/s of payload in the later half of what a receiver tells."""
    ticks = json.loads(told)
    later = ticks[len(ticks) // 2:]
    return sum(later) * 8e-6 / (len(later) * 0.1)


def tcp(lines, congestion, streams, seconds, buffer, ways=1):
    """Mbit/s that each host sends in the later half: the first one, or with two ways both at once."""
    flows, receivers = range(ways), []
    with contextlib.ExitStack() as stack:
        def start(host, role, flow, **options):
            words = [role, lines.address(1 - flow), PORT + flow, streams, seconds, congestion, "--buffer", buffer]
            process = subprocess.Popen(inside(lines.hosts[host], FLOW, *words), **options)
            stack.callback(process.wait, ENDING_S)
            stack.callback(process.kill)
            return process

        for flow in flows:
            receivers.append(start(1 - flow, "receive", flow, stdout=subprocess.PIPE, text=True))
        if any(receiver.stdout.readline() != "ready\n" for receiver in receivers):
            raise Trouble("a receiver does not start")
        for flow in flows:
            start(flow, "send", flow)
        rates = [rate_of(receiver.communicate(timeout=seconds + WARM_S + ENDING_S)[0]) for receiver in receivers]
    return sum(rates) / ways


def choose(lines, congestion):
    """For the sockets that these hosts make from now on, theirs alone. False: the kernel allows it in no namespace."""
    words = ["sysctl", "-qw", f"net.ipv4.tcp_congestion_control={congestion}"]
    return all(subprocess.run(inside(namespace, *words), capture_output=True, check=False).returncode == 0
               for namespace in lines.hosts)


def reduce(lines, options, mbit, rate, kind):
    """Of two members, Mbit/s that each sends; `rate` is expected. `kind`: "fp32" or "gloo"."""
    values = max(1 << 15, int(rate * 1e6 / 32 * options.seconds / 2))
    words = [options.programs / "shoal-bench", "all-reduce", "--processes", 2, "--values", values, "--namespaces",
             ",".join(lines.hosts), "--hosts", ",".join(lines.address(n) for n in (0, 1)), "--mbit", f"{mbit},{mbit}",
             "--codecs", "fp32", "--plain", "--repeats", options.repeats, "--json"]
    words += ["--alone"] if kind == "fp32" else []
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        print(f"{kind}: " + " ".join(done.stderr.split("\n")), file=sys.stderr)
        return 0
    seconds = next(one["median_s"] for one in json.loads(done.stdout)["results"] if one["kind"] == kind)
    return values * 32e-6 / seconds


class Far:
    """The lines of one run, and what they lost since they were last asked."""

    def __init__(self, lines):
        self.lines, self.before = lines, None

    def make(self, rtt, loss, mbit, queue):
        for number in (0, 1):
            self.lines.set_line(number, {"mbit": mbit, "delay_ms": rtt / 2, "loss": loss / 100, "queue_ms": queue},
                                {"mbit": mbit, "queue_ms": queue})

    def news(self):
        """Of what entered since the last call: the shares lost and dropped at the queue; p99 of all lateness."""
        counts = self.lines.order({"counts": True})
        sums = {key: sum(host[way][key] for host in counts["hosts"] for way in ("up", "down"))
                for key in ("entered", "lost", "overflowed")}
        before, self.before = self.before or dict.fromkeys(sums, 0), sums
        entered = max(1, (sums["entered"] - before["entered"]) / 2)  # each passes two lines
        shares = {key: round(100 * (sums[key] - before[key]) / entered, 3) for key in ("lost", "overflowed")}
        return {**shares, "late_ms": counts["late_ms"]["p99"]}


def measure(far, options, rtt, loss, mbit):
    """Yields a result for each kind of traffic."""
    far.make(rtt, loss, mbit, options.queue)
    best = 0

    def result(congestion, kind, rate):
        return {"rtt_ms": rtt, "loss_percent": loss, "mbit": mbit, "congestion": congestion, "kind": kind,
                "mbit_s": round(rate, 1), **far.news()}

    for congestion in options.congestion:
        alone = 0
        for streams in options.streams:
            rate = tcp(far.lines, congestion, streams, options.seconds, options.buffer)
            best, alone = max(best, rate), alone or rate
            yield result(congestion, f"tcp x {streams}", rate)
            both = tcp(far.lines, congestion, streams, options.seconds, options.buffer, ways=2)
            yield result(congestion, f"both x {streams}", both)
        if choose(far.lines, congestion):
            yield result(congestion, "gloo", reduce(far.lines, options, mbit, alone, "gloo"))
    choose(far.lines, "reno")
    yield result("its own", "reduce", reduce(far.lines, options, mbit, best, "fp32"))


def row(one):
    return (f"{one['rtt_ms']:6g} {one['loss_percent']:6g} {one['mbit']:6g} {one['congestion']:>8} {one['kind']:>9} "
            f"{one['mbit_s']:>9} {one['lost']:7.3f} {one['overflowed']:7.3f} {one['late_ms']:7.2f}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    available = CONGESTION.read_text().split()
    parser.add_argument("--rtt", type=float, nargs="+", default=[100, 300], help="ms")
    parser.add_argument("--loss", type=float, nargs="+", default=[0.1, 1], help="percent, each way")
    parser.add_argument("--mbit", type=float, nargs="+", default=[20, 200, 1000], help="of every direction")
    parser.add_argument("--queue", type=float, default=50, help="of the rate, ms")
    parser.add_argument("--congestion", nargs="+", choices=available, default=available)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8], help="of plain TCP")
    parser.add_argument("--buffer", type=int, default=0, help="of plain TCP's sockets, bytes; 0: the kernel chooses")
    parser.add_argument("--seconds", type=float, default=10, help="of a measurement")
    parser.add_argument("--repeats", type=int, default=3, help="of the reduce")
    parser.add_argument("--programs", type=pathlib.Path, default=BIN, help="folder of shoal-bench")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    if problem := FarLines.problem():
        sys.exit("error: " + problem)
    end_by_signal()
    lines, results = FarLines("-far"), []
    if not options.json:
        print(f"{'rtt':>6} {'loss %':>6} {'mbit':>6} {'control':>8} {'kind':>9} {'Mbit/s':>9} {'lost %':>7} "
              f"{'queue %':>7} {'late ms':>7}", flush=True)
    with contextlib.ExitStack() as stack:
        stack.callback(lines.take_down)
        try:
            lines.set_up(1)
            far = Far(lines)
            for setting in itertools.product(options.rtt, options.loss, options.mbit):
                for one in measure(far, options, *setting):
                    results.append(one)
                    if not options.json:
                        print(row(one), flush=True)
        except Trouble as trouble:
            sys.exit(f"error: {trouble}")
    if options.json:
        print(json.dumps({"results": results, "counts": lines.counts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
