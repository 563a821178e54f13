"""What a storm must never make of a job: the promises of docs/reliability.md, looked at from outside only. The oracle
sees the REST API, the tables (read only), the checkpoint files, the logs and which processes live, and nothing else.
"""
import contextlib
import sqlite3
import threading
import time
import traceback

from chaos_sight import CheckpointFiles, Tables, read_logs

LOOK_S = 0.4
SETTLED = 2  # a round has the digests of all its members when so many more are committed
NEVER = {"agent_quarantined", "agent_refused", "momentum_lost"}  # kinds of events
NEVER_PHASES = {"failed", "cancelled", "completed"}


class Living:
    """Which states living trainers hold, as the tables last told it. A replica lives as long as the process that had it
    when it was first seen: a trainer that restarts holds nothing, even before the tables say so."""

    def __init__(self):
        self.held = ()  # (holder, process ids)
        self.process_of = {}  # by replica

    def seen(self, sight, pids):
        self.process_of = {holder.replica: self.process_of.get(holder.replica) or frozenset(pids.get(holder.agent, ()))
                           for holder in sight.holders}
        self.held = tuple((holder, self.process_of[holder.replica]) for holder in sight.holders)

    def newest_whole(self, stages, alive, held=None):
        """The newest round that living trainers hold of every stage; -1: there is none."""
        of_stage = [max((holder.round for holder, pids in (self.held if held is None else held)
                         if holder.stage == stage and pids and pids <= alive), default=-1) for stage in range(stages)]
        return min(of_stage, default=-1)


class Ledger:
    """The rounds of the present history, and what they trained."""

    def __init__(self, context):
        self.context, self.rounds, self.commits = context, {}, []

    def add(self, found):
        known = self.rounds.get(found.number)
        for number in [one for one in self.rounds if one >= found.number]:
            del self.rounds[number]  # of a history that was given up
        seen_before = found.adopted and known is not None and known.job_tokens == found.job_tokens
        self.rounds[found.number] = known if seen_before else found
        if not found.adopted:
            self.commits.append(found.committed_at)

    def complaints(self, sight):
        history = [self.rounds[number] for number in sorted(self.rounds)]
        yield from self.about_tokens(history)
        runs = sorted((first, end, one.number) for one in history for first, end in one.runs)
        for (_, end, number), (first, _, other) in zip(runs, runs[1:]):
            if first < end:
                yield f"sequence {first} was trained in rounds {number} and {other}"
        complete = not any(one.adopted for one in history)
        if complete and [one.number for one in history] == list(range(1, sight.job["committed_round"] + 1)):
            yield from self.about_sequences(sight, sum(end - first for first, end, _ in runs))

    def about_tokens(self, history):
        for one in history:
            trained = sum(end - first for first, end in one.runs) * self.context
            if not one.tokens == one.drawn == trained:
                yield (f"round {one.number} counts {one.tokens} tokens, its members drew {one.drawn}, "
                       f"their sequences have {trained}")
        for before, after in zip(history, history[1:]):
            follows = after.number == before.number + 1 and not after.adopted
            if follows and after.job_tokens != before.job_tokens + after.tokens:
                yield f"round {after.number}: {before.job_tokens} and {after.tokens} tokens make {after.job_tokens}"

    @staticmethod
    def about_sequences(sight, trained):
        """Every sequence that was ever leased is trained, given back or with a member of the open round."""
        given_back = sum(end - first for first, end in sight.returned())
        under_way = sum(end - first for first, end in sight.open_runs)
        leased = sight.job["next_sequence"]
        if trained + given_back + under_way != leased:
            yield (f"{leased} sequences were leased; {trained} are trained, {given_back} given back and {under_way} "
                   "under way")


class Oracle(threading.Thread):
    """Looks again and again; what must not be is in `broken`."""

    def __init__(self, cluster, context, stages):
        super().__init__(daemon=True)
        self.cluster, self.stages, self.over = cluster, stages, threading.Event()
        self.tables, self.checkpoints = Tables(cluster), CheckpointFiles(cluster)
        self.living, self.ledger = Living(), Ledger(context)
        self.broken, self.kinds, self.guard = [], {}, threading.Lock()
        self.highest, self.rounds_lost, self.rounds_given_up = 0, 0, 0
        self.compared, self.sight, self.looks, self.unread = 0, None, 0, 0
        self.restored_at, self.held_before = None, ()
        self.mismatch_expected = lambda: False
        self.looking = threading.RLock()  # one look at a time, in their order; taken before the cluster's

    def say(self, complaint):
        with self.guard:
            if complaint not in self.broken:
                self.broken.append(complaint)

    def run(self):
        while not self.over.wait(LOOK_S):
            try:
                self.look()
            except Exception:
                self.say("the oracle: " + traceback.format_exc())

    def end(self):
        self.over.set()
        self.join(30)

    # ---- looking

    def told(self):
        """Rounds committed, as the API says; 0: it says nothing."""
        with contextlib.suppress(OSError, ValueError):
            return self.cluster.status(1)["progress"]["rounds_committed"]
        return 0

    def look(self):
        with self.looking:
            self.look_once()

    def look_once(self):
        told = self.told()
        pids = self.cluster.trainer_pids()
        with self.cluster.lock:
            if self.cluster.coordinator.poll() is not None:
                return
            try:
                sight = self.tables.look()
            except sqlite3.Error:  # it is being written at this moment, or its disk is full
                self.unread += 1
                return
        self.looks += 1
        self.sight = sight
        self.seen(sight, told)
        self.living.seen(sight, pids)
        self.checkpoints.seen(sight)
        self.compare_digests(sight)

    def seen(self, sight, told):
        for kind, message in sight.events:
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            self.judge_event(kind, message)
        if sight.job["phase"] in NEVER_PHASES:
            self.say(f"the job is {sight.job['phase']} ({sight.job['reason']}): {sight.job['detail']}")
        if self.restored_at is None:  # what was told before this look must be in the tables
            self.highest = max(self.highest, told)
        self.follow(sight)

    def judge_event(self, kind, message):
        if kind in NEVER:
            self.say(f"event {kind}: {message}")
        if kind == "replica_failed" and "digest_mismatch" in message and not self.mismatch_expected():
            self.say(f"event {kind}: {message}")

    # ---- the round never goes back

    def follow(self, sight):
        if self.restored_at is not None:
            self.follow_restore(sight)
        elif sight.job["committed_round"] < self.highest:
            self.judge_setback(sight.job["committed_round"], self.living.held)
        for one in sight.rounds:
            self.ledger.add(one)
        self.highest = max(self.highest, sight.job["committed_round"]) if self.restored_at is None else self.highest

    def restore_begins(self):
        """Called while no coordinator lives: what its tables say is of the backup until the next commit."""
        if self.restored_at is None:  # else nothing was decided yet after the restore before
            self.held_before = self.living.held
        self.restored_at = time.time()

    def follow_restore(self, sight):
        new = [one for one in sight.rounds if one.committed_at > self.restored_at]
        if not new:
            return
        self.restored_at = None
        went_on_from = new[0].number if new[0].adopted else new[0].number - 1
        if went_on_from < self.highest:
            self.judge_setback(went_on_from, self.held_before)

    def judge_setback(self, to_round, held):
        """The job stands at `to_round`, and stood at a newer one."""
        alive = set().union(*self.cluster.trainer_pids().values())
        living, stored = self.living.newest_whole(self.stages, alive, held), self.checkpoints.floor()
        must = min(self.highest, max(living, stored))
        if to_round < must:
            self.rounds_lost += must - to_round
            self.say(f"the job went back from round {self.highest} to {to_round}; living trainers held {living}, the "
                     f"newest whole checkpoint is of {stored}")
        self.rounds_given_up += self.highest - max(to_round, must)
        self.highest, self.compared = to_round, min(self.compared, to_round)

    # ---- what is compared

    def compare_digests(self, sight):
        last = sight.job["committed_round"] - SETTLED
        if self.restored_at is None and last > self.compared:
            for complaint in self.tables.deviating(self.compared + 1, last):
                self.say(complaint)
            self.compared = last

    def checkpoint_complaints(self):
        """A job that trains deletes old checkpoints: what is gone by the next look was deleted while it was read."""
        found = self.checkpoints.complaints()
        if not found:
            return []
        self.look()
        still = self.checkpoints.complaints()
        return [complaint for complaint in found if complaint in still]

    def check_at_rest(self):
        """In a calm, while the coordinator answers."""
        with self.looking, self.cluster.lock:
            self.look()
            complaints = [*self.ledger.complaints(self.sight), *self.checkpoint_complaints()]
            for complaint in complaints:
                self.say(complaint)
        for name, violations, quarantines in self.sight.health_records:
            if violations or quarantines:
                self.say(f"{name} has {violations} violations and {quarantines} quarantines")

    def check_logs(self):
        for line in read_logs(self.cluster.folder):
            self.say("log: " + line)

    def members(self):
        """Agents that contributed to the newest committed round."""
        with self.tables.open() as tables:
            (count,), = tables.execute(
                "SELECT count(DISTINCT agent) FROM contributions c JOIN jobs j ON j.id = c.job WHERE j.name = ? AND "
                "c.epoch = (SELECT max(epoch) FROM rounds r WHERE r.job = j.id AND r.round = j.committed_round) "
                "AND c.round = j.committed_round AND c.state = 'committed'", (self.cluster.name,)).fetchall()
            return count
