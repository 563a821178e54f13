"""The scenario storm of chaos.py: everything at once, out of a seed, and an oracle that looks from outside.

chaos_plan.py says what happens, chaos_hands.py does it, chaos_hosts.py is what it happens to, chaos_oracle.py judges.
After each burst the cluster must train again within a bound, with everybody who is there.
"""
import dataclasses
import datetime
import pathlib
import shlex
import sys
import time

import chaos_plan
from chaos_hands import Hands, Spared
from chaos_hosts import RoughLines, StormCluster, Supervisor
from chaos_oracle import Oracle
from chaos_scenarios import CONTEXT, SLOW, Scenario, chaos_job

TRAINS_WITHIN_S = 60  # from the last heal to a commit
ALL_WITHIN_S = 120  # until everybody contributes
WAITS_FOR_LEFT_S = 60  # for state of a node that left, before a job goes back to a checkpoint (docs/backup.md)


@dataclasses.dataclass
class Struck:
    """One fault that happened, in seconds since 1970."""
    kind: str
    begin: float
    healed: float = 0
    trains: float = 0  # the next commit after it began


class Weather:
    """Plays the bursts of a plan, and waits after each one for what is promised."""

    def __init__(self, cluster, oracle, hands, options, pause):
        self.cluster, self.oracle, self.hands, self.options, self.pause = cluster, oracle, hands, options, pause
        self.clock = 0.0  # of the plan
        self.struck, self.spared, self.healed, self.all_back = [], {}, [], []
        self.bursts, self.checked = 0, 0  # checked: how many of `struck` a calm has followed

    def play(self, bursts, moves):
        """Until the minutes are over: a burst that has begun is played to its end."""
        moves, began = list(moves), time.monotonic()
        for burst in bursts:
            if time.monotonic() - began > self.options.minutes * 60 or self.oracle.broken and self.options.stop:
                return
            self.bursts += 1
            self.play_burst(burst, moves)
            self.wait_for_all()
        while moves and time.monotonic() - began < self.options.minutes * 60:
            self.play_until(moves[0].at_s + chaos_plan.CALM_S, [], moves)
            self.wait_for_all()

    def play_burst(self, burst, moves):
        self.play_until(burst.begin_s, [], moves)
        self.hands.take_backup()
        self.play_until(burst.healed_s, list(burst.faults), moves)
        self.play_until(burst.healed_s + chaos_plan.CALM_S / 2, [], moves)

    def play_until(self, end, faults, moves):
        """Strikes, heals and moves in the order of their times."""
        end = max([end, *(fault.healed_s for fault in faults)])
        under_way = []  # (when it is healed, what undoes it, what was struck)
        base = time.monotonic() - self.clock
        try:
            while True:
                nexts = [fault.at_s for fault in faults[:1]] + [at for at, _, _ in under_way]
                nexts += [move.at_s for move in moves[:1]]
                at = min([one for one in nexts if one <= end], default=end)
                self.pause(max(0.0, base + at - time.monotonic()))
                self.clock = at
                under_way = self.heal(under_way, at)
                while moves and moves[0].at_s <= at:
                    self.move(moves.pop(0))
                if faults and faults[0].at_s <= at:
                    under_way += self.strike(faults.pop(0))
                if at >= end and not under_way and not faults:
                    return
        finally:
            self.heal(under_way, float("inf"))

    def strike(self, fault):
        struck = Struck(fault.kind, time.time())
        try:
            undo = self.hands.strike(fault)
        except Spared as why:
            self.spared[fault.kind] = self.spared.get(fault.kind, 0) + 1
            self.note(f"{fault}  spared: {why}")
            return []
        self.note(str(fault))
        self.struck.append(struck)
        if undo is None:
            struck.healed = time.time()
            return []
        return [(fault.healed_s, undo, struck)]

    def heal(self, under_way, at):
        left = []
        for when, undo, struck in under_way:
            if when > at:
                left.append((when, undo, struck))
                continue
            undo()
            struck.healed = time.time()
            self.note(f"{self.clock:8.2f} s  healed {struck.kind}")
        return left

    def move(self, move):
        struck = Struck("join" if move.joins else "leave", time.time())
        self.hands.move(move)
        struck.healed = time.time()
        self.struck.append(struck)
        self.note(str(move))

    def note(self, line):
        """For whoever reads the logs."""
        with open(self.cluster.folder / "faults.log", "a", encoding="utf-8") as log:
            log.write(f"{datetime.datetime.utcnow().isoformat(timespec='milliseconds')}Z {line}\n")

    # ---- after a burst

    def wait_for_all(self):
        """A commit after the last heal, a round of everybody, and what is at rest is sound."""
        healed = max([one.healed for one in self.struck], default=time.time())
        waits = WAITS_FOR_LEFT_S if any(one.kind == "leave" for one in self.struck[self.checked:]) else 0
        self.checked = len(self.struck)
        trains = self.until(healed, TRAINS_WITHIN_S + waits, lambda: self.next_commit(healed) is not None)
        if trains is None:
            return self.oracle.say(f"no commit within {TRAINS_WITHIN_S + waits} s of the last heal: {self.state()}")
        self.healed.append(self.next_commit(healed) - healed)
        back = self.until(healed, ALL_WITHIN_S + waits, lambda: self.oracle.members() >= self.cluster.present())
        if back is None:
            return self.oracle.say(f"{self.oracle.members()} of {self.cluster.present()} agents contribute "
                                   f"{ALL_WITHIN_S + waits} s after the last heal")
        self.all_back.append(back)
        return self.oracle.check_at_rest()

    def until(self, since, limit, holds):
        """Seconds since `since`; None: not within the limit."""
        while time.time() - since < limit:
            if holds():
                return time.time() - since
            self.pause(0.2)
        return None

    def next_commit(self, since):
        return min((at for at in self.oracle.ledger.commits if at > since), default=None)

    def state(self):
        job = self.oracle.sight.job
        return f"phase {job['phase']}, reason {job['reason']}, {job['detail'] or 'no detail'}"


class Storm(Scenario):
    """storm: everything at once for --minutes, out of --seed; --trace adds joins and leaves."""
    lines = True
    fresh = True
    needs_round_s = False
    checkpoint_every = 5

    @staticmethod
    def add_options(parser):
        parser.set_defaults(agents=6, every=20)
        parser.add_argument("--minutes", type=float, default=5)
        parser.add_argument("--stages", type=int, default=2, help="of the job")
        parser.add_argument("--kinds", nargs="*", choices=list(chaos_plan.KINDS), default=list(chaos_plan.KINDS),
                            metavar="KIND", help="only these, none without a word: " + ", ".join(chaos_plan.KINDS))
        parser.add_argument("--trace", type=pathlib.Path, help="CSV: time in ms, add or remove, node")
        parser.add_argument("--speed", type=float, default=1, help="the trace goes so many times faster")
        parser.add_argument("--plan", action="store_true", help="print what would happen, and do nothing")
        parser.add_argument("--go-on", dest="stop", action="store_false", help="also when a promise was broken")

    def __init__(self, options, pause):
        super().__init__(options, pause)
        self.trace = self.read_trace()
        if self.trace:
            options.agents = len(self.trace.nodes)
        self.plan = chaos_plan.make_plan(options.seed, options.minutes * 60, options.agents, options.kinds)
        if options.plan:
            self.print_plan()
            sys.exit(0)

    def read_trace(self):
        if self.options.trace is None:
            return None
        if self.options.speed <= 0:
            sys.exit("error: --speed must be above 0")
        try:
            return chaos_plan.read_trace(self.options.trace, self.options.speed)
        except (OSError, UnicodeDecodeError, chaos_plan.BadTrace) as problem:
            sys.exit(f"error: --trace: {problem}")

    def print_plan(self):
        steps = [fault for burst in self.plan for fault in burst.faults] + list(self.trace.moves if self.trace else ())
        for step in sorted(steps, key=lambda one: one.at_s):
            print(step)

    def make_lines(self, label):
        return RoughLines(label)

    def cluster(self, folder, lines, what):
        job = chaos_job({"every": self.options.every}, self.options.stages, self.checkpoint_every)
        cluster = StormCluster(folder, self.options.agents, job, lines, self.options.coordinator_flag, SLOW,
                               self.options.bin)
        if self.trace:
            cluster.away = set(range(self.options.agents)) - self.trace.first
        cluster.supervisor = Supervisor(cluster)
        return cluster

    def attempt(self, cluster, what, chance):
        oracle = Oracle(cluster, CONTEXT, self.options.stages)
        hands = Hands(cluster, oracle)
        oracle.mismatch_expected = lambda: hands.flips_on_line > 0 or bool(oracle.checkpoints.bad)
        cluster.supervisor.tell(oracle.say)
        weather = Weather(cluster, oracle, hands, self.options, self.pause)
        oracle.look()
        oracle.start()
        try:
            weather.play(self.plan, self.trace.moves if self.trace else ())
        finally:
            oracle.end()
        oracle.check_logs()
        return self.result(cluster, oracle, hands, weather)

    def result(self, cluster, oracle, hands, weather):
        faults = {}
        for one in weather.struck:
            one.trains = weather.next_commit(one.begin) or 0
            kind = faults.setdefault(one.kind, {"injected": 0, "recovered": 0, "spared": 0, "worst_s": 0.0})
            kind["injected"] += 1
            if one.trains:
                kind["recovered"] += 1
                kind["worst_s"] = round(max(kind["worst_s"], one.trains - one.begin), 1)
        for name, count in weather.spared.items():
            faults.setdefault(name, {"injected": 0, "recovered": 0, "spared": 0, "worst_s": 0.0})["spared"] = count
        return {"faults": dict(sorted(faults.items())), "injected": len(weather.struck),
                "recovered": sum(one["recovered"] for one in faults.values()), "bursts": weather.bursts,
                "rounds": oracle.highest, "rounds_lost": oracle.rounds_lost,
                "rounds_given_up": oracle.rounds_given_up, "bits_flipped_on_lines": hands.flips_on_line,
                "ended_full": cluster.supervisor.ended_full, "starts": cluster.supervisor.starts,
                "worst_s": round(max([one.trains - one.begin for one in weather.struck if one.trains], default=0), 1),
                "trains_s": round(max(weather.healed, default=0), 1),
                "all_back_s": round(max(weather.all_back, default=0), 1), "events": dict(sorted(oracle.kinds.items())),
                "looks": oracle.looks, "broken": list(oracle.broken)}

    def report(self, result, cluster):
        """A table of the kinds, and what came of it."""
        lines = [f"{'fault':20} {'injected':>8} {'recovered':>9} {'spared':>6} {'worst delay':>11}"]
        for kind, one in result["faults"].items():
            lines.append(f"{kind:20} {one['injected']:8} {one['recovered']:9} {one['spared']:6} "
                         f"{one['worst_s']:9.1f} s")
        lines += [f"{result['injected']} faults in {result['bursts']} bursts, {result['recovered']} recovered; "
                  f"{result['rounds']} rounds committed, {result['rounds_lost']} lost",
                  f"{result['rounds_given_up']} rounds were trained again: nothing that lived held them",
                  f"next commit: {result['worst_s']} s after a fault at worst, {result['trains_s']} s after the last "
                  f"heal of a burst; everybody contributed again after {result['all_back_s']} s"]
        if not result["ok"]:
            lines += ["BROKEN", *(f"  {one}" for one in result["broken"]), f"logs: {cluster.folder}",
                      f"again: {self.command()}"]
        return "\n".join(lines)

    def command(self):
        words = ["./dev", "chaos", "storm", "--minutes", f"{self.options.minutes:g}", "--seed", str(self.options.seed),
                 "--agents", str(self.options.agents), "--stages", str(self.options.stages), "--every",
                 str(self.options.every)]
        if self.trace:
            words += ["--trace", str(self.options.trace), "--speed", f"{self.options.speed:g}"]
        if self.options.kinds != list(chaos_plan.KINDS):
            words += ["--kinds", *self.options.kinds]
        return shlex.join(words)
