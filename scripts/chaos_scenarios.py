"""The scenarios of chaos.py: what is disturbed, and which promise must hold. One class each."""
import contextlib
import datetime
import shutil
import signal
import statistics
import sys
import threading
import time

import chaos_bad_input
import chaos_store
from chaos_watch import TRAINS_WITHIN_S, Watch, commit_times, disturb, longest_gap
from rig import PATIENCE_S, POLL_S, Cluster, Lines, Trouble, job_text, send

CONTEXT, BATCH = 16, 2  # of the job
SPEED = 0.1  # of a device: four agents and a coordinator leave most of a small machine idle
SLOW = ["--speed", str(SPEED)]


def chaos_job(sync, stages=1, checkpoint=0, min_replicas=1):
    """So small that rounds follow one another fast."""
    return job_text("chaos", model={"layers": 2, "hidden": 16, "heads": 2, "context": CONTEXT},
                    train={"batch": BATCH, "lr": 1e-3}, sync=sync, swarm={"stages": stages, "min_replicas": min_replicas},
                    checkpoint={"every_rounds": checkpoint})


class Scenario:
    """Tries of one kind. Each cluster runs in a thread of its own, one try after the other."""
    lines = False  # needs namespaces
    checkpoint_every = 0
    needs_round_s = True  # measured before the first try
    fresh = False  # a cluster of its own for each try

    def __init__(self, options, pause):
        self.options, self.pause = options, pause

    @staticmethod
    def add_options(parser):
        """Those of this scenario alone."""

    def tries(self):
        return [{} for _ in range(self.options.tries)]

    def cluster(self, folder, lines, what):
        job = chaos_job({"every": self.options.every}, what.get("stages", 1), self.checkpoint_every)
        return Cluster(folder, self.options.agents, job, lines, self.options.coordinator_flag, SLOW, self.options.bin)

    def attempt(self, cluster, what, chance):
        raise NotImplementedError

    def moment(self, cluster, chance):
        """Any moment of a round."""
        return chance.uniform(0, 2 * cluster.usual_s)

    def make_lines(self, label):
        return Lines(label)

    def report(self, result, cluster):
        """Of one try, for people."""
        figures = "  ".join(f"{name} {value}" for name, value in result.items()
                            if name not in ("try", "ok", "broken"))
        verdict = "ok    " if result["ok"] else "BROKEN"
        told = "" if result["ok"] else f"\n        {'; '.join(result['broken'])}\n        logs: {cluster.folder}"
        return f"{result['try'] + 1:4} {verdict} {figures}{told}"


class CoordinatorPause(Scenario):
    """coordinator-pause: the coordinator stands still and continues; every process lives."""

    @staticmethod
    def add_options(parser):
        parser.add_argument("--seconds", type=float, nargs="+", default=[15], help="lengths, each --tries times")
        parser.add_argument("--stages", type=int, default=1, help="of the job")

    def tries(self):
        return [{"seconds": seconds, "stages": self.options.stages} for _ in range(self.options.tries)
                for seconds in self.options.seconds]

    def attempt(self, cluster, what, chance):
        pid = cluster.coordinator.pid
        return disturb(cluster, self.moment(cluster, chance), what["seconds"], lambda: send(pid, signal.SIGSTOP),
                       lambda: send(pid, signal.SIGCONT), self.pause)


class LinesCut(CoordinatorPause):
    """lines-cut: the lines of all agents carry nothing, in both directions, and then do again."""
    lines = True

    def attempt(self, cluster, what, chance):
        everybody = range(1, cluster.count + 1)

        def each(action):
            for number in everybody:
                action(number)
        return disturb(cluster, self.moment(cluster, chance), what["seconds"], lambda: each(cluster.lines.cut),
                       lambda: each(cluster.lines.mend), self.pause)


class AgentKill(Scenario):
    """agent-kill: an agent is killed, or upgraded in place, and starts again; its trainer must not notice."""
    rounds_after = 5

    @staticmethod
    def add_options(parser):
        parser.add_argument("--way", choices=["kill", "upgrade", "both"], default="both")
        parser.add_argument("--down", type=float, default=3, help="the longest an agent stays away, seconds")
        parser.add_argument("--upgrade-signal", default="SIGUSR2", help="what tells an agent to leave its trainers")

    def tries(self):
        ways = ["kill", "upgrade"] if self.options.way == "both" else [self.options.way]
        return [{"way": way} for _ in range(self.options.tries) for way in ways]

    def replace_binaries(self, cluster):
        """The same program at the same path, as a package manager does it: another file."""
        if cluster.bin == self.options.bin:
            cluster.bin = cluster.folder / "bin"
            shutil.copytree(self.options.bin, cluster.bin, ignore=shutil.ignore_patterns("*_test"))
            return
        for program in ("shoal-agent", "shoal-trainer"):
            new = cluster.bin / f"{program}.new"
            shutil.copy2(self.options.bin / program, new)
            new.rename(cluster.bin / program)

    def end_agent(self, cluster, victim, way):
        agent = cluster.agents[victim]
        if way == "kill":
            return cluster.kill(agent)
        self.replace_binaries(cluster)
        agent.send_signal(getattr(signal, self.options.upgrade_signal))
        return agent.wait(PATIENCE_S)

    def attempt(self, cluster, what, chance):
        victim = chance.randrange(cluster.count)
        cluster.all_take_part()
        trainers, watch = cluster.trainers(victim), Watch(cluster)
        self.pause(self.moment(cluster, chance))
        watch.look()
        before = watch.highest
        self.end_agent(cluster, victim, what["way"])
        self.pause(chance.uniform(0, self.options.down))
        cluster.start_agent(victim)
        since = time.monotonic()
        while watch.highest < before + self.rounds_after and time.monotonic() - since < PATIENCE_S:
            watch.until_trained(watch.highest, time.monotonic(), 5)
        missed = [number for number in range(before + 1, watch.highest + 1)
                  if cluster.members(number) < cluster.count]
        if missed:
            watch.say(f"rounds {missed} were committed without agent-{victim}")
        if watch.highest < before + self.rounds_after:
            watch.say(f"{watch.highest - before} rounds in {PATIENCE_S} s")
        now = cluster.trainers(victim)
        if now != trainers:
            watch.say(f"trainer {trainers} became {now}")
        watch.events()
        return {"victim": victim, "from_round": before, "to_round": watch.highest, "missed": len(missed),
                "broken": watch.broken}


class CoordinatorKill(Scenario):
    """coordinator-kill: SIGKILL under load; what was told is in the tables, which are sound and load to one digest."""
    checkpoint_every = 5
    needs_round_s = False

    def load(self, cluster, stop, taken):
        """Submits and cancels jobs: each acknowledged one is in `taken`."""
        number = 0
        while not stop.is_set():
            number += 1
            with contextlib.suppress(OSError):
                spec = {"name": f"load-{time.time_ns()}", "data": {"train": str(cluster.folder / "text.txt")},
                        "swarm": {"min_replicas": 60}}
                job = cluster.post("/jobs", spec)["id"]
                taken.add(job)
                cluster.post(f"/jobs/{job}/cancel", {})
            stop.wait(0.02)

    def attempt(self, cluster, what, chance):
        taken, stop = set(), threading.Event()
        watch = Watch(cluster)
        thread = threading.Thread(target=self.load, args=(cluster, stop, taken), daemon=True)
        thread.start()
        self.pause(chance.uniform(0.1, 1.5))
        watch.look()
        told = {"round": watch.highest, "event": cluster.newest_event(), "jobs": set(taken)}
        cluster.kill(cluster.coordinator)
        stop.set()
        thread.join(PATIENCE_S)
        copy = chaos_store.copy_of(cluster)
        for complaint in chaos_store.complaints(copy, told):
            watch.say(complaint)
        digest = chaos_store.digest_of(cluster, copy)
        again = chaos_store.digest_of(cluster, copy)
        loaded = cluster.start_coordinator().get("state_digest")
        if not digest == again == loaded:
            watch.say(f"digests differ: the tables give {digest} and {again}, the coordinator loaded {loaded}")
        trains = watch.until_trained(told["round"], time.monotonic())
        if trains is None:
            watch.say(f"no commit within {PATIENCE_S} s")
        watch.events()
        return {"round": told["round"], "jobs": len(taken), "trains_s": trains and round(trains, 2),
                "broken": watch.broken}


class Restore(Scenario):
    """restore: a backup of some rounds ago is put back, under live agents or with none."""
    checkpoint_every = 5

    @staticmethod
    def add_options(parser):
        parser.add_argument("--rounds", type=int, default=20, help="between the backup and its return")
        parser.add_argument("--with-agents", dest="agents_are", choices=["live", "bare", "both"], default="both")
        parser.add_argument("--checkpoints", choices=["kept", "lost", "both"], default="both",
                            help="where no agent lives: what the disk has besides the backup")
        parser.add_argument("--stages", type=int, default=1, help="of the job")

    def tries(self):
        kinds = [] if self.options.agents_are == "bare" else [{"agents": "live", "checkpoints": "kept"}]
        if self.options.agents_are != "live":
            ways = ["kept", "lost"] if self.options.checkpoints == "both" else [self.options.checkpoints]
            kinds += [{"agents": "bare", "checkpoints": way} for way in ways]
        return [{"stages": self.options.stages, **kind} for _ in range(self.options.tries) for kind in kinds]

    def rounds_on(self, watch, count):
        goal = watch.highest + count
        while watch.highest < goal:
            if watch.until_trained(watch.highest, time.monotonic()) is None:
                raise Trouble("no round is committed before the restore")

    def end_all(self, cluster):
        for number in range(cluster.count):
            trainers = cluster.trainers(number)
            cluster.kill(cluster.agents[number])
            for pid in trainers:
                send(pid, signal.SIGKILL)

    def attempt(self, cluster, what, chance):
        watch = Watch(cluster)
        self.rounds_on(watch, self.checkpoint_every + 1)
        backup = chaos_store.back_up(cluster)
        saved = watch.highest
        self.rounds_on(watch, self.options.rounds)
        self.pause(self.moment(cluster, chance))
        watch.look()
        cluster.kill(cluster.coordinator)
        if what["agents"] == "bare":
            self.end_all(cluster)
        newest, trained = chaos_store.put_back(cluster, backup, what["checkpoints"] == "kept")
        floor = chaos_store.newest_on_disk(cluster)
        since = time.monotonic(), time.time()
        cluster.start_coordinator()
        after = Watch(cluster)
        after.broken = watch.broken
        if what["agents"] == "bare":
            trains = self.goes_on_bare(cluster, after, floor, since)
        else:
            trains = self.goes_on_live(cluster, after, newest, since[0], trained)
        return {"backup_round": saved, "on_disk": floor, "from_round": newest, "to_round": after.highest,
                "trains_s": trains and round(trains, 2), "broken": after.broken}

    def goes_on_live(self, cluster, after, newest, since, trained):
        """From the newest round of all, which the agents hold."""
        trains = after.until_trained(newest, since)
        if trains is None:
            after.say(f"no round after {newest} within {PATIENCE_S} s: {self.said(after)}")
            return None
        self.rounds_on(after, 3)
        after.events()
        for complaint in chaos_store.trained_twice(cluster, trained, newest):
            after.say(complaint)
        return trains

    def goes_on_bare(self, cluster, after, floor, since):
        """From the newest checkpoint on disk, in the open."""
        for number in range(cluster.count):
            cluster.start_agent(number)
        trains = self.until_committed(cluster, *since)
        after.highest = cluster.committed()
        if trains is None:
            after.say(f"nothing is committed within {PATIENCE_S} s: {self.said(after)}")
        elif not floor < after.highest <= floor + 3:
            after.say(f"the newest checkpoint is of round {floor}, it went on at {after.highest}")
        elif not {"job_rolled_back", "job_restored"} & {one["kind"] for one in cluster.events_after(after.seq)}:
            after.say("no event tells from where it went on")
        return trains

    @staticmethod
    def until_committed(cluster, since, since_wall):
        """Seconds until a round is committed: what the tables tell at first is of the backup."""
        while time.monotonic() - since < PATIENCE_S:
            with contextlib.suppress(OSError):
                if (times := commit_times(cluster, cluster.committed())) and times[-1] > since_wall:
                    return time.monotonic() - since
            time.sleep(POLL_S)
        return None

    @staticmethod
    def said(watch):
        status = watch.status or {}
        return f"phase {status.get('phase')}, reason {status.get('reason')}, {status.get('detail') or 'no detail'}"


class Mixed(Scenario):
    """mixed: kills and freezes of trainers and agents, one every few seconds; the longest time between two commits."""
    fresh = True
    LONGEST_FREEZE_S = 14
    EVERY_S = (6, 16)

    @staticmethod
    def add_options(parser):
        parser.add_argument("--minutes", type=float, default=5)
        parser.add_argument("--stages", type=int, nargs="+", default=[1, 2], help="of the jobs, one after the other")
        parser.add_argument("--coordinator", action="store_true", help="freeze the coordinator, too")

    def tries(self):
        return [{"stages": stages} for _ in range(self.options.tries) for stages in self.options.stages]

    def faults(self):
        kinds = ["kill trainer", "freeze trainer", "kill agent", "freeze agent"]
        return kinds + (["freeze coordinator"] if self.options.coordinator else [])

    def strike(self, cluster, kind, victim, seconds):
        """Returns what undoes it, or None."""
        agent = cluster.agents[victim]
        if kind == "kill trainer":
            for pid in cluster.trainers(victim):
                send(pid, signal.SIGKILL)
            return None
        if kind == "kill agent":
            cluster.kill(agent)
            return lambda: cluster.start_agent(victim)
        frozen = {"freeze trainer": cluster.trainers(victim), "freeze agent": [agent.pid],
                  "freeze coordinator": [cluster.coordinator.pid]}[kind]
        for pid in frozen:
            send(pid, signal.SIGSTOP)
        return lambda: [send(pid, signal.SIGCONT) for pid in frozen]

    def disturb(self, cluster, watch, chance):
        """Returns how many faults struck, and [begin, end] of the coordinator's freezes."""
        end = time.monotonic() + self.options.minutes * 60
        following = time.monotonic() + chance.uniform(*self.EVERY_S)
        under_way, faults, freezes = {}, 0, []  # by victim: when it ends, what undoes it
        try:
            while time.monotonic() < end:
                now = time.monotonic()
                for victim in [one for one, (at, _) in under_way.items() if at <= now]:
                    under_way.pop(victim)[1]()
                if now >= following:
                    following = now + chance.uniform(*self.EVERY_S)
                    kind, victim = chance.choice(self.faults()), chance.randrange(cluster.count)
                    seconds = chance.uniform(2, self.LONGEST_FREEZE_S)
                    if kind == "freeze coordinator":
                        victim = -1
                        freezes.append((time.time(), time.time() + seconds))
                    if victim not in under_way:
                        faults += 1
                        self.note(cluster, f"{kind} {victim} {seconds:.1f} s")
                        undo = self.strike(cluster, kind, max(victim, 0), seconds)
                        if undo:
                            under_way[victim] = (now + (min(seconds, 3) if kind == "kill agent" else seconds), undo)
                watch.look(1)
                self.pause(POLL_S)
        finally:
            for _, undo in under_way.values():
                undo()
        return faults, freezes

    @staticmethod
    def note(cluster, fault):
        """For whoever reads the logs."""
        with open(cluster.folder / "faults.log", "a", encoding="utf-8") as log:
            log.write(f"{datetime.datetime.utcnow().isoformat(timespec='milliseconds')}Z {fault}\n")

    def attempt(self, cluster, what, chance):
        watch = Watch(cluster)
        first = watch.highest
        faults, freezes = self.disturb(cluster, watch, chance)
        if watch.until_trained(watch.highest, time.monotonic()) is None:
            watch.say(f"no commit within {PATIENCE_S} s of the last fault")
        counts = watch.events()
        worst = longest_gap(commit_times(cluster, max(1, first)), freezes)
        limit = TRAINS_WITHIN_S + cluster.usual_s
        if worst > limit:
            watch.say(f"{worst:.1f} s between two commits, limit {limit:.1f}")
        return {"stages": what["stages"], "faults": faults, "round_s": round(cluster.usual_s, 2),
                "from_round": first, "to_round": watch.highest, "longest_s": round(worst, 2),
                "replicas_failed": counts.get("replica_failed", 0), "broken": watch.broken}


class UnequalCluster(Cluster):
    """Its agents are as fast as `speeds` says, the fastest as fast as elsewhere."""
    speeds = ()

    def flags_of(self, number):
        return ["--speed", str(SPEED * self.speeds[number] / max(self.speeds))]


class Fair(Scenario):
    """fair: agents of unequal speed and nothing that disturbs them; whose work is clipped or rejected."""
    needs_round_s = False
    fresh = True
    CLIP_FACTOR_MIN = 0.9  # in the mean of each agent

    @staticmethod
    def add_options(parser):
        parser.add_argument("--speeds", nargs="+", default=["4,1,1,1", "1,4,4,4"], help="of the agents, relative")
        parser.add_argument("--seconds", type=int, nargs="*", default=[3], help="lengths of rounds by time")
        parser.add_argument("--rounds", type=int, default=100)
        parser.add_argument("--only-timed", action="store_true", help='without the job of `balance = "speed"`')

    def tries(self):
        ways = [] if self.options.only_timed else [{}]
        ways += [{"seconds": seconds} for seconds in self.options.seconds]
        return [{"speeds": speeds, **way} for _ in range(self.options.tries) for speeds in self.options.speeds
                for way in ways]

    def cluster(self, folder, lines, what):
        speeds = [float(one) for one in what["speeds"].split(",")]
        by_steps = {"every": self.options.every, "balance": "speed"}
        job = chaos_job({"every": f"{what['seconds']}s"} if "seconds" in what else by_steps)
        cluster = UnequalCluster(folder, len(speeds), job, lines, self.options.coordinator_flag,
                                 programs=self.options.bin)
        cluster.speeds = speeds
        return cluster

    def attempt(self, cluster, what, chance):
        watch = Watch(cluster)
        first = watch.highest + 1
        while watch.highest < first + self.options.rounds - 1:
            if watch.until_trained(watch.highest, time.monotonic()) is None:
                watch.say(f"no commit within {PATIENCE_S} s")
                break
        work = chaos_store.contributions_of(cluster, first, watch.highest)
        for agent, parts in work.items():
            clipped = statistics.fmean(part["clip_factor"] for part in parts if part["clip_factor"] is not None)
            if clipped < self.CLIP_FACTOR_MIN:
                watch.say(f"{agent} is clipped to {clipped:.2f} in the mean")
            if rejected := [part["reject_reason"] for part in parts if part["reject_reason"]]:
                watch.say(f"{agent} is rejected {len(rejected)} times, {rejected[0]} at first")
        counts = watch.events()
        return {"rounds": watch.highest - first + 1, **self.figures(work),
                "replicas_failed": counts.get("replica_failed", 0), "broken": watch.broken}

    @staticmethod
    def figures(work):
        """By agent, in the order of their numbers: steps of a round, clip factors."""
        def by_agent(name, combine):
            return [round(combine([part[name] for part in work[agent] if part[name] is not None]), 3)
                    for agent in sorted(work)]
        return {"steps": by_agent("steps", statistics.fmean), "clip_mean": by_agent("clip_factor", statistics.fmean),
                "clip_least": by_agent("clip_factor", min)}


class BadInput(Scenario):
    """bad-input: damaged files, full and read-only disks, jumping clocks, other data; what comes of each."""
    checkpoint_every = 3
    needs_round_s = False

    @staticmethod
    def add_options(parser):
        parser.add_argument("--case", nargs="+", choices=chaos_bad_input.CASES, default=list(chaos_bad_input.CASES),
                            metavar="CASE", help="; ".join(chaos_bad_input.CASES))

    def tries(self):
        wanted = [{"case": name} for _ in range(self.options.tries) for name in self.options.case]
        skipped = {name: why for name in self.options.case
                    if (why := chaos_bad_input.unusable(chaos_bad_input.CASES[name][1]))}
        for name, why in skipped.items():
            print(f"     left out  case {name}: {why}", file=sys.stderr)
        return [one for one in wanted if one["case"] not in skipped]

    def cluster(self, folder, lines, what):
        job = chaos_job({"every": self.options.every}, checkpoint=self.checkpoint_every)
        return chaos_bad_input.make_cluster(folder, self.options.agents, job, self.options.coordinator_flag,
                                            self.options.bin)

    def attempt(self, cluster, what, chance):
        cluster.all_take_part()
        return chaos_bad_input.BadInputLab(cluster).run(what["case"])


ALL = {"coordinator-pause": CoordinatorPause, "lines-cut": LinesCut, "agent-kill": AgentKill,
       "coordinator-kill": CoordinatorKill, "restore": Restore, "mixed": Mixed, "fair": Fair,
       "bad-input": BadInput}
