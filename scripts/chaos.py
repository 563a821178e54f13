#!/usr/bin/env python3
"""Disturbs real clusters and checks what docs/reliability.md promises.

    ./dev chaos [SCENARIO] [--tries N] [--clusters N] [--seed N] [--json] …

A coordinator and agents train a tiny model in rounds of about a second. A line per try says what was seen, the last
one the worst of it. Without a scenario it is `storm`: everything at once. Exit code 1 when a promise was broken: the
folder with the logs is then kept and named. Ctrl-C ends every process and namespace. `storm`, `record` and
`lines-cut` need root and iproute2, `data` root; the network of the host is not touched.
"""
import argparse
import json
import os
import pathlib
import queue
import random
import shutil
import statistics
import sys
import tempfile
import threading
import traceback

import chaos_scenarios
from chaos_data import Data
from chaos_record import Record
from chaos_storm import Storm
from chaos_upgrade import Upgrade
from chaos_watch import usual_round_s
from rig import BIN, Lines, Trouble, end_by_signal

SCENARIOS = {**chaos_scenarios.ALL, "storm": Storm, "record": Record, "data": Data,
             "upgrade": Upgrade}


class Campaign:
    """Gives the tries to clusters that run beside each other, and collects what they say."""

    def __init__(self, options):
        self.options, self.over = options, threading.Event()
        self.scenario = SCENARIOS[options.scenario](options, self.pause)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-chaos-"))
        self.waiting, self.results, self.lock = queue.Queue(), [], threading.Lock()
        self.clusters, self.nets, self.troubles = [], [], []

    def pause(self, seconds):
        if self.over.wait(seconds):
            raise Trouble("interrupted")

    def run(self):
        for number, what in enumerate(self.scenario.tries()):
            self.waiting.put((number, what))
        workers = [threading.Thread(target=self.work, args=(number,), daemon=True)
                   for number in range(min(self.options.clusters, self.waiting.qsize()))]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            self.over.set()
            for cluster in self.clusters:
                cluster.stop()
            for worker in workers:
                worker.join(5)
            for net in self.nets:
                net.take_down()

    def work(self, number):
        try:
            self.work_off(number, self.lines_of(number))
        except queue.Empty:
            pass
        except Trouble as trouble:
            if not self.over.is_set():
                self.troubles.append(str(trouble))
        except Exception:
            if not self.over.is_set():
                self.troubles.append(traceback.format_exc())

    def work_off(self, number, lines):
        """Until no try is left. One that failed leaves its cluster to nobody."""
        cluster = None
        try:
            while not self.over.is_set():
                index, what = self.waiting.get_nowait()
                if cluster is None:
                    cluster = self.begin(self.folder / f"{number}-{index}", lines, what)
                result = self.attempt(cluster, index, what)
                if self.scenario.fresh or not result["ok"]:
                    cluster.stop()
                    cluster = None
        finally:
            if cluster is not None:
                cluster.stop()

    def lines_of(self, number):
        if not self.scenario.lines:
            return None
        lines = self.scenario.make_lines(f"-{number}")
        self.nets.append(lines)
        lines.set_up(self.options.agents)
        lines.enter()
        return lines

    def begin(self, folder, lines, what):
        cluster = self.scenario.cluster(folder, lines, what)
        self.clusters.append(cluster)
        cluster.begin()
        cluster.all_take_part()
        cluster.usual_s = usual_round_s(cluster) if self.scenario.needs_round_s else 1
        return cluster

    def attempt(self, cluster, index, what):
        chance = random.Random(f"{self.options.seed}/{index}")
        seen = self.scenario.attempt(cluster, what, chance)
        result = {"try": index, **what, **seen, "ok": not seen["broken"]}
        with self.lock:
            self.results.append(result)
            if not self.options.json:
                print(self.scenario.report(result, cluster), flush=True)
        return result


def summary_of(options, results):
    """The worst and the median of what a promise is about."""
    summary = {"scenario": options.scenario, "seed": options.seed, "tries": len(results),
               "broken": sum(not one["ok"] for one in results)}
    for name in ("trains_s", "longest_s"):
        values = [one[name] for one in results if one.get(name) is not None]
        if values:
            summary[name] = {"median": round(statistics.median(values), 2), "worst": max(values)}
    return summary


def words():
    """Without a scenario: everything at once."""
    given = sys.argv[1:]
    whole = given and given[0].startswith("-") and given[0] not in ("-h", "--help")
    return ["storm", *given] if whole else given


def parse():
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    scenarios = parser.add_subparsers(dest="scenario", required=True, metavar="SCENARIO")
    for name, scenario in SCENARIOS.items():
        one = scenarios.add_parser(name, help=scenario.__doc__.split(": ", 1)[1])
        one.add_argument("--tries", type=int, default=1, help="of each kind")
        one.add_argument("--clusters", type=int, default=1, help="that run beside each other")
        one.add_argument("--agents", type=int, default=4)
        one.add_argument("--every", type=int, default=100, help="inner steps of a round")
        one.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of moments, victims")
        one.add_argument("--bin", type=pathlib.Path, default=BIN, help="folder of the programs")
        one.add_argument("--coordinator-flag", action="append", default=[], metavar="FLAG",
                         help="of the coordinator, as --coordinator-flag=--lease-s=6")
        one.add_argument("--json", action="store_true")
        scenario.add_options(one)
    return parser.parse_args(words())


def main():
    options = parse()
    only_plan = getattr(options, "plan", False)
    if SCENARIOS[options.scenario].lines and not only_plan and (problem := Lines.problem()):
        sys.exit("error: " + problem)
    if not only_plan and not os.access(options.bin / "shoal-coordinator", os.X_OK):
        sys.exit(f"error: no shoal-coordinator in {options.bin}: ./dev build makes it")
    end_by_signal()
    campaign = Campaign(options)
    if not options.json:
        print(f"seed {options.seed}, logs in {campaign.folder}", flush=True)
    try:
        campaign.run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    summary = summary_of(options, campaign.results)
    good = summary["broken"] == 0 and not campaign.troubles
    for trouble in campaign.troubles:
        print("error: " + trouble, file=sys.stderr)
    if options.json:
        print(json.dumps({**summary, "ok": good, "results": campaign.results}))
    else:
        print(", ".join(f"{name} {value}" for name, value in summary.items()))
    if good:
        shutil.rmtree(campaign.folder, ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
