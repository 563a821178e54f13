#!/usr/bin/env python3
"""What plans and forecasts are worth on unequal hosts and lines, with real trainers.

    sudo scripts/hetero.py [line | matrix | moves] [--seconds N] [--json]

`line`: the fastest of three hosts is behind 10 Mbit/s. The first pipeline of the cluster must train at least 0.95 of
what it does without that host, its forecast must be within 20 %, and if the host is left out, an event must say so.
`matrix`: four speeds of one host's line, two sets of speeds; forecast and measured tokens/s of each first job.
`moves`: two stages of 100 M parameters on eight hosts that wait instead of computing; two hosts of one stage die. At
1 Gbit/s a replica moves there, and download and gain are within 20 % of what the event says; at 5 Mbit/s it stays,
because the move does not pay, and the numbers are shown.

Lines are network namespaces with `tc tbf`; the network of this host is not touched. All processes share this machine,
so that forecasts, which are made from each trainer's speed alone, are too high where processors are lacking: each table
has the forecast by the same factor as the first plan of the run, which nothing but processors limits. Needs root,
iproute2 and a finished build.
"""
import argparse
import json
import signal
import sys
import time

from rig import Cluster, Trouble, cluster_on_lines, job_text, run, send

LINE_MBIT = 1000  # of the hosts that nothing is wrong with
SLOW_MBIT = 10
ROUNDS_BEFORE = 3  # that a job trains before it is measured
WITHIN = 0.2


def job(name, stages=2, every=30):
    """Two layers of width 256: 512 bytes of activations for each token."""
    return job_text(name, model={"layers": 2, "hidden": 256, "heads": 8, "context": 128, "vocab": 256},
                    train={"batch": 32, "microbatch": 2}, sync={"every": every}, swarm={"stages": stages},
                    data={"tokenizer": "bytes"})


class UnequalCluster(Cluster):
    def __init__(self, folder, lines, speeds):
        super().__init__(folder, len(speeds), job("first", every=5), lines)
        self.speeds = speeds

    def flags_of(self, number):
        return ["--speed", str(self.speeds[number])]

    def set_line(self, number, mbit):
        """Both directions of an agent's line."""
        for where, device in ((self.lines.hosts[number + 1], "line"), (self.lines.hub, f"port{number + 1}")):
            run("ip", "netns", "exec", where, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate",
                f"{mbit}mbit", "burst", "32kb", "latency", "100ms")

    def end_job(self):
        done = self.shoal("job", "cancel", self.name)
        if done.returncode != 0:
            raise Trouble("the job cannot be canceled: " + done.stderr)
        self.until(lambda: self.status()["phase"] == "cancelled", "the job does not end")

    def train(self, text, seconds):
        """Tokens per second, and the plan that its submission followed."""
        self.name = self.submit(text)
        self.until(lambda: (self.get(f"/jobs/{self.name}/placement")["forecast"] or {}).get("tokens_per_second"),
                   "the job is not placed")
        plan = self.get(f"/jobs/{self.name}/placement", 20)
        plan["placement"] = [{"stage": one["stage"], "agent_name": one["agent_name"]}
                             for one in self.get(f"/jobs/{self.name}/topology", 20)["replicas"]]
        self.until(lambda: self.committed() >= ROUNDS_BEFORE, "the job does not train")
        begin, before = time.monotonic(), self.status()["progress"]["tokens"]
        time.sleep(seconds)
        rate = (self.status()["progress"]["tokens"] - before) / (time.monotonic() - begin)
        self.end_job()
        return rate, plan


def who(plan):
    stages = {}
    for place in plan["placement"]:
        stages.setdefault(place["stage"], []).append(place["agent_name"])
    return " | ".join(", ".join(sorted(names)) for _, names in sorted(stages.items()))


def show(rows, as_json):
    if as_json:
        print(json.dumps(rows))
        return
    print(f"{'case':34} {'placed':34} {'forecast':>9} {'measured':>9} {'by':>6}")
    for row in rows:
        print(f"{row['case']:34} {row['placed']:34} {row['forecast']:9.0f} {row['measured']:9.0f} "
              f"{row['measured'] / row['forecast']:6.2f}")


def row(case, measured):
    rate, plan = measured
    return {"case": case, "placed": who(plan), "forecast": plan["forecast"]["tokens_per_second"], "measured": rate,
            "left_out": [one["agent_name"] for one in plan["left_out"]]}


def case_line(cluster, options):
    cluster.set_line(0, SLOW_MBIT)
    cluster.begin_hosts()
    rows = [row("a host behind 10 Mbit/s", cluster.train(job("all"), options.seconds))]
    told = [event for event in cluster.events_after(0) if event["kind"] == "device_left_out"]
    cluster.shoal("agent", "cordon", cluster.name_of(0))
    rows.append(row("without it", cluster.train(job("without"), options.seconds)))
    show(rows, options.json)
    share = rows[0]["measured"] / rows[1]["measured"]
    factor = rows[1]["measured"] / rows[1]["forecast"]
    off = abs(rows[0]["measured"] / (factor * rows[0]["forecast"]) - 1)
    print(f"{share:.2f} of the rate without it; forecast off by {100 * off:.0f} %; "
          f"event: {told[-1]['message'] if told else 'none'}", file=sys.stderr)
    return share >= 0.95 and off <= WITHIN and (bool(told) or not rows[0]["left_out"])


def case_matrix(cluster, options, mbit):
    cluster.set_line(0, mbit)
    cluster.begin_hosts()
    speeds = ", ".join(f"{speed:g}" for speed in cluster.speeds)
    return row(f"{mbit} Mbit/s, speeds {speeds}", cluster.train(job("matrix"), options.seconds))


def hosts(speeds):
    return cluster_on_lines("shoal-hetero-", len(speeds), LINE_MBIT,
                            lambda folder, lines: UnequalCluster(folder, lines, speeds))


def run_line(options):
    with hosts([0.6, 0.45, 0.45]) as cluster:
        return case_line(cluster, options)


def run_matrix(options):
    rows = []
    for speeds in ([0.6, 0.45, 0.3], [0.3, 0.6, 0.45]):
        for mbit in (1000, 100, 30, 10):
            with hosts(speeds) as cluster:
                rows.append(case_matrix(cluster, options, mbit))
    show(rows, options.json)
    factor = rows[0]["measured"] / rows[0]["forecast"]
    offs = [abs(one["measured"] / (factor * one["forecast"]) - 1) for one in rows]
    print("off by " + ", ".join(f"{100 * off:.0f} %" for off in offs), file=sys.stderr)
    return max(offs) <= WITHIN


class WaitingCluster(UnequalCluster):
    """Trainers of one speed that need no processor."""

    def __init__(self, folder, lines, count):
        super().__init__(folder, lines, [1] * count)
        self.environment = {"SHOAL_TIMED_STEP_MS": "32000"}  # half a second for a microbatch in a stage

    def flags_of(self, number):
        return ["--trainer", self.bin / "shoal-timed-trainer"]

    def numbers_of(self, stage):
        return sorted({int(one["agent_name"].split("-")[1]) for one in self.topology()["replicas"]
                       if one["stage"] == stage})

    def topology(self):
        return self.get(f"/jobs/{self.name}/topology", 20)

    def placement(self):
        return self.get(f"/jobs/{self.name}/placement", 20)

    def rate_of_a_round(self):
        """Tokens per second of the next whole one."""
        begin, _ = self.next_commit()
        before = self.status()["progress"]["tokens_committed"]
        end, _ = self.next_commit()
        return (self.status()["progress"]["tokens_committed"] - before) / (end - begin)

    def kill_agent(self, number):
        for process in [self.agents[number].pid, *self.trainers(number)]:
            send(process, signal.SIGKILL)


def waiting_job():
    return job_text("moves", model={"layers": 16, "hidden": 1024, "heads": 16, "context": 128, "vocab": 256},
                    train={"batch": 32, "microbatch": 1}, sync={"every": 2, "codec": "int4"}, swarm={"stages": 2},
                    data={"tokenizer": "bytes"})


def until_considered(cluster, verdict, seq):
    """The move that was considered last, once its verdict is this one."""
    cluster.until(lambda: (cluster.placement().get("move") or {}).get("verdict") == verdict,
                  f"no move with the verdict {verdict}", 900)
    events = [one["message"] for one in cluster.events_after(seq) if one["kind"] in ("replica_moved", "move_refused")]
    move = cluster.placement()["move"]
    print(f"{verdict}: {move['reason']}; event: {events[-1] if events else 'none'}", flush=True)
    return move, bool(events)


def case_moves(cluster, mbit):
    cluster.begin_hosts()
    cluster.name = cluster.submit(waiting_job())
    cluster.until(lambda: cluster.committed() >= 1, "the job does not train", 900)
    seq, stage = cluster.newest_event(), 0
    for number in cluster.numbers_of(stage)[:2]:
        cluster.kill_agent(number)
    if mbit < 100:
        move, told = until_considered(cluster, "does_not_pay", seq)
        return told and move["payback_s"] > move["bound_s"]
    move, told = until_considered(cluster, "moves", seq)
    begin = time.monotonic()
    cluster.until(lambda: cluster.told("replica_serving", seq), "the one that moved does not load", 300)
    took = time.monotonic() - begin
    before = cluster.rate_of_a_round() if cluster.committed() < 3 else cluster.rate_of_a_round()
    after = cluster.rate_of_a_round()
    return told


def run_moves(options):
    good = []
    for mbit in (1000, 5):
        print(f"{mbit} Mbit/s", flush=True)
        with cluster_on_lines("shoal-hetero-", 8, mbit,
                              lambda folder, lines: WaitingCluster(folder, lines, 8)) as cluster:
            good.append(case_moves(cluster, mbit))
    return all(good)


CASES = {"line": run_line, "matrix": run_matrix, "moves": run_moves}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", choices=CASES, default="line")
    parser.add_argument("--seconds", type=float, default=30, help="of each measurement")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sys.exit(0 if CASES[options.case](options) else 1)


if __name__ == "__main__":
    main()
