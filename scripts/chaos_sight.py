"""What can be seen of a job from outside: Tables reads the coordinator's database without writing to it,
CheckpointFiles reads what lies on its disk, read_logs what its processes have written."""
import contextlib
import ctypes
import ctypes.util
import dataclasses
import hashlib
import json
import re
import sqlite3
import struct

import chaos_store

OPEN_LIMIT_S = 1
CRASHES = re.compile(r"terminate called|check failed:|Sanitizer|runtime error:|Segmentation fault|core dumped|"
                     r"std::bad_alloc|was ended by SIG(?:ABRT|SEGV|BUS|FPE|ILL)|stack smashing")


@dataclasses.dataclass(frozen=True)
class Round:
    epoch: int
    number: int
    committed_at: float  # seconds since 1970
    tokens: int
    job_tokens: int
    drawn: int  # by the contributions that count
    runs: tuple  # [first, end) of the sequences that they trained

    @property
    def adopted(self):
        """No commit of now: after a restore the job continues from this round, which replicas hold."""
        return not self.runs and self.tokens == 0


@dataclasses.dataclass(frozen=True)
class Holder:
    replica: tuple  # never given to two, also over restores
    agent: int  # its number
    stage: int
    round: int


@dataclasses.dataclass(frozen=True)
class Sight:
    """One look at the tables: of one moment."""
    job: dict
    rounds: tuple  # committed since the look before
    events: tuple
    holders: tuple  # replicas that have not ended and hold a state of the present history
    checkpoints: tuple  # that are stored, the oldest round first: (id, round, parts)
    open_runs: tuple  # leased to the round that is under way
    health_records: tuple  # of agents: (name, violations, quarantines)

    def returned(self):
        """[first, end) of the sequences that were given back."""
        return chaos_store.runs(self.job["returned"])


class Tables:
    def __init__(self, cluster):
        self.path, self.name = cluster.data_of_coordinator() / "state.db", cluster.name
        self.newest_ns, self.event = 0, (0, 0)

    @contextlib.contextmanager
    def open(self):
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=OPEN_LIMIT_S, isolation_level=None)
        connection.row_factory = sqlite3.Row
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()

    def look(self):
        with self.open() as tables:
            job = dict(tables.execute("SELECT * FROM jobs WHERE name = ? ORDER BY id DESC", (self.name,)).fetchone())
            return Sight(job, self.rounds(tables, job), self.events(tables), self.holders(tables, job),
                         self.checkpoints(tables, job), self.open_runs(tables, job), self.health_records(tables))

    def rounds(self, tables, job):
        rows = tables.execute("SELECT * FROM rounds WHERE job = ? AND state = 'committed' AND committed_at_ns > ? "
                              "ORDER BY committed_at_ns", (job["id"], self.newest_ns)).fetchall()
        found = []
        for row in rows:
            parts = tables.execute("SELECT leases, report_drawn FROM contributions WHERE job = ? AND epoch = ? AND "
                                   "round = ? AND stage = 0 AND state = 'committed'",
                                   (job["id"], row["epoch"], row["round"])).fetchall()
            runs = tuple(run for part in parts for run in chaos_store.runs(part["leases"]))
            found.append(Round(row["epoch"], row["round"], row["committed_at_ns"] / 1e9, row["tokens"],
                               row["job_tokens"], sum(part["report_drawn"] for part in parts), runs))
            self.newest_ns = row["committed_at_ns"]
        return tuple(found)

    def events(self, tables):
        """By time: after a restore numbers are given again."""
        rows = tables.execute("SELECT at_ns, seq, kind, severity, message FROM events WHERE (at_ns, seq) > (?, ?) "
                              "ORDER BY at_ns, seq", self.event).fetchall()
        if rows:
            self.event = (rows[-1]["at_ns"], rows[-1]["seq"])
        return tuple((row["kind"], row["message"]) for row in rows)

    @staticmethod
    def holders(tables, job):
        rows = tables.execute("SELECT r.store, r.id, a.name, r.stage, r.held_round "
                              "FROM replicas r JOIN agents a ON a.id = r.agent WHERE r.job = ? AND r.epoch = ? AND "
                              "r.held_round >= 0 AND r.state NOT IN ('released', 'failed')",
                              (job["id"], job["epoch"])).fetchall()
        return tuple(Holder((row["store"], row["id"]), number_of(row["name"]), row["stage"], row["held_round"])
                     for row in rows)

    @staticmethod
    def checkpoints(tables, job):
        rows = tables.execute("SELECT id, round, parts FROM checkpoints WHERE job = ? AND state = 'stored' "
                              "ORDER BY round, id", (job["id"],)).fetchall()
        return tuple((f"ckpt_{row['id']}", row["round"], json.loads(row["parts"])) for row in rows)

    @staticmethod
    def open_runs(tables, job):
        rows = tables.execute("SELECT leases FROM contributions WHERE job = ? AND epoch = ? AND round > ?",
                              (job["id"], job["epoch"], job["committed_round"])).fetchall()
        return tuple(run for row in rows for run in chaos_store.runs(row["leases"]))

    @staticmethod
    def health_records(tables):
        return tuple(tuple(row) for row in tables.execute("SELECT name, violations, quarantines FROM agents"))

    def deviating(self, first, last):
        """What members of committed rounds say of themselves and the rounds do not: sentences."""
        with self.open() as tables:
            rows = tables.execute(
                "SELECT c.round, c.stage, c.replica, c.state, c.reject_reason, c.anchor, c.momentum, r.reduces "
                "FROM contributions c JOIN rounds r USING (job, epoch, round) JOIN jobs j ON j.id = c.job "
                "WHERE j.name = ? AND r.state = 'committed' AND round BETWEEN ? AND ?", (self.name, first, last))
            return [complaint for row in rows for complaint in complaints_about(row)]


def complaints_about(part):
    who = f"round {part['round']}, replica {part['replica']}"
    if part["reject_reason"] in ("non_finite", "outlier"):
        yield f"{who} is rejected: {part['reject_reason']}"
    reduce = json.loads(part["reduces"])[part["stage"]]
    for what in ("anchor", "momentum"):
        if part[what] and reduce[what] and part[what] != reduce[what]:
            yield f"{who} has {what} {part[what]}, its stage {reduce[what]}"


def number_of(name):
    """agent-3, or agent-3.1 on its second disk."""
    return int(name.removeprefix("agent-").split(".")[0])


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def digest_function():
    """base/digest.h, of bytes; None where libxxhash is not installed."""
    name = ctypes.util.find_library("xxhash")
    if name is None:
        return None
    function = ctypes.CDLL(name).XXH3_128bits
    function.restype, function.argtypes = Hash128, [ctypes.c_char_p, ctypes.c_size_t]

    def digest(content):
        value = function(content, len(content))
        return f"{value.high:016x}{value.low:016x}"
    return digest


class CheckpointFiles:
    """Of the checkpoints that the newest look at the tables calls stored."""

    def __init__(self, cluster):
        self.root, self.digest = cluster.data_of_coordinator() / "checkpoints", digest_function()
        self.stored, self.bad = (), {}  # bad: path of a file that was spoiled, and what it is since then

    def seen(self, sight):
        self.stored = sight.checkpoints

    def files_of(self, checkpoint):
        return [self.root / checkpoint[0] / one["path"] for part in checkpoint[2] for one in part["files"]]

    def spoiled(self, path):
        self.bad[path] = path.read_bytes()

    def is_bad(self, path):
        """A restore may have put a sound copy in its place."""
        with contextlib.suppress(OSError):
            return path in self.bad and path.read_bytes() == self.bad[path]
        return False

    def any_spoiled(self):
        return any(self.is_bad(path) for path in self.bad)

    def whole(self):
        return [one for one in self.stored if not any(self.is_bad(path) for path in self.files_of(one))]

    def floor(self):
        """The newest round that can be gone back to when nothing lives."""
        return max((one[1] for one in self.whole()), default=0)

    def complaints(self):
        return [complaint for one in self.whole() for part in one[2] for entry in part["files"]
                for complaint in self.about(one[0], part, entry)]

    def about(self, name, part, entry):
        path = self.root / name / entry["path"]
        try:
            content = path.read_bytes()
        except OSError as problem:
            yield f"{name} is stored, and {entry['path']} is not: {problem.strerror}"
            return
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            yield f"{name}: {entry['path']} has another SHA-256 than its record"
        elif self.digest is not None and path.suffix == ".safetensors":
            yield from (f"{name}: {problem}" for problem in self.reload(entry["path"], content, part))

    def reload(self, path, content, part):
        """Whether the tensors have the digests of the record."""
        length, = struct.unpack_from("<Q", content)
        header, data = json.loads(content[8:8 + length]), content[8 + length:]
        if "outer_momentum" in header:
            begin, end = header["outer_momentum"]["data_offsets"]
            what, digest = "momentum", self.digest(data[begin:end])
        elif "anchor" in header["__metadata__"]:
            what, digest = "anchor", self.digest(data)
        else:
            return
        if digest != part[what]:
            yield f"{path} has the {what} {digest}, its record {part[what]}"


def read_logs(folder):
    """Lines that no process may write."""
    paths = sorted({*folder.rglob("*.log"), *folder.rglob("*.log.*")})
    found = [f"{path.relative_to(folder)}: core file" for path in sorted(folder.glob("core*")) if path.is_file()]
    for path in paths:
        with contextlib.suppress(OSError):
            for line in path.read_text(errors="replace").splitlines():
                if CRASHES.search(line):
                    found.append(f"{path.relative_to(folder)}: {line.strip()[:300]}")
    return found
