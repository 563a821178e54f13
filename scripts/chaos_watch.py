"""What a disturbed job must never do, seen from outside through REST: Watch, and the verdict on one try."""
import contextlib
import datetime
import statistics
import time

from rig import PATIENCE_S, POLL_S

TRAINS_WITHIN_S = 10  # after the end of a disturbance


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Watch:
    """Looks at the status of the job, and remembers what must not be."""

    def __init__(self, cluster):
        self.cluster, self.highest, self.lost, self.broken = cluster, 0, set(), []
        self.commits, self.status = [], None  # times of new rounds; the last answer
        self.seq = cluster.newest_event()
        self.look()

    def look(self, timeout_s=5):
        """The status, or None while nobody answers."""
        with contextlib.suppress(OSError):
            self.status = self.cluster.status(timeout_s)
            committed = self.status["progress"]["rounds_committed"]
            if committed < self.highest and self.highest not in self.lost:
                self.lost.add(self.highest)  # said once: it may count up again
                self.say(f"round {self.highest} was committed, then the job was at {committed}")
            if committed > self.highest:
                self.commits.append(time.monotonic())
            self.highest = max(self.highest, committed)
            return self.status
        return None

    def say(self, complaint):
        if complaint not in self.broken:
            self.broken.append(complaint)

    def trains(self, beyond):
        """Whether the status says so and a round after `beyond` is committed."""
        return self.status is not None and self.status["phase"] == "training" and self.highest > beyond

    def until_trained(self, beyond, since, limit=PATIENCE_S):
        """Seconds from `since` to the first commit after round `beyond`; None: not within the limit."""
        while time.monotonic() - since < limit:
            if self.look() is not None and self.trains(beyond):
                return time.monotonic() - since
            time.sleep(POLL_S)
        return None

    def follow(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(POLL_S)

    def events(self):
        """Kinds since the beginning, counted; a rollback is told with its sentence."""
        counts = {}
        for event in self.cluster.events_after(self.seq):
            counts[event["kind"]] = counts.get(event["kind"], 0) + 1
            if event["kind"] == "job_rolled_back":
                self.say(event["message"])
        return counts


def usual_round_s(cluster):
    """The median time between commits while nothing happens."""
    watch = Watch(cluster)
    while len(watch.commits) < 6:
        if watch.until_trained(watch.highest, time.monotonic()) is None:
            cluster.until(lambda: False, "no round is committed", 0.1)
    return statistics.median(b - a for a, b in zip(watch.commits[1:], watch.commits[2:]))


def disturb(cluster, moment_s, seconds, strike, undo, pause, within_s=TRAINS_WITHIN_S):
    """One disturbance that leaves every process alive. `pause` waits, and can be interrupted."""
    watch = Watch(cluster)
    pause(moment_s)
    watch.look()
    before = watch.highest
    strike()
    try:
        pause(seconds)
    finally:
        undo()
    since = time.monotonic()
    trains = watch.until_trained(before, since)
    watch.follow(max(0, within_s - (time.monotonic() - since)))
    counts = watch.events()
    if trains is None or trains > within_s + cluster.usual_s:
        seen = f"{trains:.1f} s" if trains is not None else f"not within {PATIENCE_S} s"
        watch.say(f"the next commit came after {seen} (phase {watch.status['phase'] if watch.status else 'unknown'})")
    return {"from_round": before, "to_round": watch.highest, "trains_s": trains and round(trains, 2),
            "agents_gone": counts.get("agent_gone", 0), "replicas_failed": counts.get("replica_failed", 0),
            "replicas_assigned": counts.get("replica_assigned", 0), "broken": watch.broken}


def commit_times(cluster, first_round):
    """When each round from `first_round` on was committed, by the coordinator's clock, oldest first."""
    times = []
    for one in cluster.pages(f"/jobs/{cluster.name}/rounds", 100):
        if one["round"] < first_round:
            break
        if one["committed_at"]:
            times.append(seconds_of(one["committed_at"]))
    return sorted(times)


def longest_gap(times, freezes=()):
    """The longest time between two commits, less what [begin, end] of a freeze of the coordinator takes of it."""
    worst = 0.0
    for begin, end in zip(times, times[1:]):
        frozen = sum(max(0.0, min(end, until) - max(begin, since)) for since, until in freezes)
        worst = max(worst, end - begin - frozen)
    return worst
