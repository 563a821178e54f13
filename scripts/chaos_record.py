"""The scenario record of chaos.py: the public record of torchft's DiLoCo (32 replicas, 62 faults, 97.7 % of the
throughput kept), tried with Shoal. Trainers wait instead of computing (shoal-timed-trainer), so that 32 fit on one
machine; processes, lines, rounds, outer steps and joins are real.
"""
import chaos_plan
from chaos_hands import Hands
from chaos_hosts import RoughLines, StormCluster, Supervisor
from chaos_losses import find_losses
from chaos_oracle import Oracle
from chaos_scenarios import BATCH, CONTEXT, Scenario, chaos_job
from chaos_storm import Weather

KINDS = ("kill-host", "freeze-host", "cut")
FAULTS_PER_MINUTE = 62 / 30
DOWN_S = 20
UNDISTURBED = 3  # rounds of everybody that say what a replica trains in a second
KEPT_MIN = 0.99


class TimedCluster(StormCluster):
    """Its trainers wait."""
    flips_on_line = False

    def flags_of(self, number):
        return ["--trainer", self.bin / "shoal-timed-trainer"]


class Record(Scenario):
    """record: kills, freezes and cuts at even distances of many replicas that wait; how many tokens still count."""
    lines = True
    fresh = True
    needs_round_s = False
    checkpoint_every = 10

    @staticmethod
    def add_options(parser):
        parser.add_argument("--minutes", type=float, default=30)
        parser.add_argument("--replicas", type=int, default=32)
        parser.add_argument("--round-s", type=int, default=30, help="length of a round")
        parser.add_argument("--step-ms", type=int, default=100, help="of an inner step")

    def __init__(self, options, pause):
        super().__init__(options, pause)
        options.agents = options.replicas
        count = max(1, round(options.minutes * FAULTS_PER_MINUTE))
        self.faults = chaos_plan.every_so_often(options.seed, options.minutes * 60, count, options.replicas, KINDS,
                                                DOWN_S)

    def make_lines(self, label):
        return RoughLines(label)

    def cluster(self, folder, lines, what):
        job = chaos_job({"every": f"{self.options.round_s}s"}, checkpoint=self.checkpoint_every)
        cluster = TimedCluster(folder, self.options.agents, job, lines, self.options.coordinator_flag, [],
                               self.options.bin)
        cluster.environment["SHOAL_TIMED_STEP_MS"] = str(self.options.step_ms)
        cluster.supervisor = Supervisor(cluster)
        return cluster

    def attempt(self, cluster, what, chance):
        oracle = Oracle(cluster, CONTEXT, 1)
        cluster.supervisor.tell(oracle.say)
        weather = Weather(cluster, oracle, Hands(cluster, oracle), self.options, self.pause)
        oracle.look()
        oracle.start()
        try:
            first = self.rounds_of_all(oracle)
            weather.play_until(self.options.minutes * 60, list(self.faults), [])
            last = self.after(oracle, weather)
        finally:
            oracle.end()
        oracle.check_logs()
        return self.figures(oracle, weather, first, last)

    def rounds_of_all(self, oracle):
        """The last of the undisturbed rounds."""
        begin = oracle.highest
        while oracle.highest < begin + UNDISTURBED + 1:
            self.pause(0.2)
        return oracle.highest

    def after(self, oracle, weather):
        """The first round that nothing disturbed since the last heal."""
        begin = oracle.highest
        weather.wait_for_all()
        while oracle.highest < begin + 1 and not oracle.broken:
            self.pause(0.2)
        return oracle.highest

    def figures(self, oracle, weather, first, last):
        rounds, replicas = oracle.ledger.rounds, self.options.replicas
        before, begin, end = rounds[first - UNDISTURBED], rounds[first], rounds[last]
        rate = (begin.job_tokens - before.job_tokens) / (begin.committed_at - before.committed_at) / replicas
        lasted, counted = end.committed_at - begin.committed_at, end.job_tokens - begin.job_tokens
        living = replicas * lasted - DOWN_S * len(self.faults)
        by_clock = 1000 / self.options.step_ms * BATCH * CONTEXT
        kept = counted / (living * rate)
        usual_s = (begin.committed_at - before.committed_at) / UNDISTURBED
        ends = [rounds[number].committed_at for number in range(first, last + 1)]
        struck = [(one.kind, one.begin, one.healed) for one in weather.struck]
        losses = find_losses(ends, replicas, usual_s, counted / rate, struck)
        if kept < KEPT_MIN:
            oracle.say(f"{100 * kept:.2f} % of the tokens that living replicas could have trained count, not "
                       f"{100 * KEPT_MIN:g} %")
        return {"faults": len(weather.struck), "rounds": last - first, "rounds_lost": oracle.rounds_lost,
                "tokens": counted, "of_living": round(kept, 4),
                "of_all": round(counted / (replicas * lasted * rate), 4),
                "of_living_by_clock": round(counted / (living * by_clock), 4), "seconds": round(lasted, 1),
                "undisturbed_by_clock": round(rate / by_clock, 4), "losses": losses.figures(), "events": dict(sorted(oracle.kinds.items())),
                "broken": list(oracle.broken)}
