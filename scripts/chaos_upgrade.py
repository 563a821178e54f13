"""The scenario `upgrade`: the programs of a cluster are replaced while it trains, as docs/upgrades.md says: the
coordinator, the agents one after another, and then the trainers, so that those of both versions average together."""
import os
import pathlib
import signal
import time

from chaos_scenarios import SLOW, Scenario, chaos_job
from chaos_watch import TRAINS_WITHIN_S, Watch
from rig import ENDING_S, PATIENCE_S, Cluster, Trouble, send


def program_of(pid):
    """The folder that a process was started from."""
    return pathlib.Path(os.readlink(f"/proc/{pid}/exe")).parent


class Upgrade(Scenario):
    """upgrade: the programs in --from are replaced by those in --bin, one process after another, under a job."""
    checkpoint_every = 5
    fresh = True
    rounds_after = 3

    @staticmethod
    def add_options(parser):
        parser.add_argument("--from", dest="old", type=pathlib.Path, required=True,
                            help="folder of the programs of the version before")
        parser.add_argument("--stages", type=int, nargs="+", default=[1, 2], help="of the jobs, one after the other")

    def tries(self):
        if not os.access(self.options.old / "shoal-coordinator", os.X_OK):
            raise SystemExit(f"error: no shoal-coordinator in {self.options.old}")
        return [{"stages": stages} for _ in range(self.options.tries) for stages in self.options.stages]

    def cluster(self, folder, lines, what):
        # A stage with one replica loses its state with that trainer, and the job then goes back as it promises.
        job = chaos_job({"every": self.options.every}, what["stages"], self.checkpoint_every, min_replicas=2)
        return Cluster(folder, self.options.agents, job, lines, self.options.coordinator_flag, SLOW,
                       self.options.old.resolve())

    def attempt(self, cluster, what, chance):
        cluster.all_take_part()
        watch, took = Watch(cluster), {}
        cluster.bin = self.options.bin.resolve()
        took["coordinator_s"] = self.replace_coordinator(cluster, watch)
        # An agent of the version before is given a replica by the new coordinator.
        took["orders_s"] = self.replace_trainer(cluster, watch, 0, self.options.old.resolve())
        took["agents_s"] = max(self.replace_agent(cluster, watch, number) for number in range(cluster.count))
        took["trainers_s"] = max(self.replace_trainer(cluster, watch, number, cluster.bin)
                                 for number in range(cluster.count))
        counts = watch.events()
        if refused := counts.get("agent_refused", 0):
            watch.say(f"{refused} agents were refused")
        return {"stages": what["stages"], "to_round": watch.highest, **took,
                "replicas_failed": counts.get("replica_failed", 0), "broken": watch.broken}

    def goes_on(self, cluster, watch, what, before):
        """Seconds until some more rounds are committed, the last one by all agents."""
        since = time.monotonic()
        first = watch.until_trained(before, since)
        while first is not None and watch.highest < before + self.rounds_after:
            if watch.until_trained(watch.highest, time.monotonic()) is None:
                break
        if watch.highest < before + self.rounds_after:
            watch.say(f"{what}: {watch.highest - before} rounds in {PATIENCE_S} s")
            return PATIENCE_S
        try:
            cluster.until(lambda: cluster.members(cluster.committed()) >= cluster.present(), what)
        except Trouble:
            watch.say(f"{what}: not all agents are in the rounds that follow")
        return round(first, 2)

    def replace_coordinator(self, cluster, watch):
        watch.look()
        before, old = watch.highest, cluster.coordinator
        old.terminate()
        old.wait(ENDING_S)
        cluster.start_coordinator()
        took = self.goes_on(cluster, watch, "after the coordinator", before)
        if took > TRAINS_WITHIN_S + 2 * cluster.usual_s:
            watch.say(f"the first round of the new coordinator took {took} s")
        return took

    def replace_agent(self, cluster, watch, number):
        """Its trainer stays, and continues with the old program."""
        trainers = cluster.trainers(number)
        watch.look()
        before = watch.highest
        cluster.agents[number].send_signal(signal.SIGUSR2)
        cluster.agents[number].wait(PATIENCE_S)
        cluster.start_agent(number)
        took = self.goes_on(cluster, watch, f"after agent-{number}", before)
        if cluster.trainers(number) != trainers:
            watch.say(f"agent-{number} was replaced, and trainer {trainers} became {cluster.trainers(number)}")
        return took

    def replace_trainer(self, cluster, watch, number, programs):
        """The next one is of these programs, and loads the state from a trainer of either version."""
        watch.look()
        before, old = watch.highest, cluster.trainers(number)
        for pid in old:
            send(pid, signal.SIGKILL)
        took = self.goes_on(cluster, watch, f"after the trainer of agent-{number}", before)
        now = set(cluster.trainers(number)) - set(old)
        if not now or any(program_of(pid) != programs for pid in now):
            watch.say(f"agent-{number} has no trainer out of {programs}")
        return took
