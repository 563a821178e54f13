"""What a storm does to a cluster, and when: a pure function of the seed. Nothing here touches a process.

A plan is a row of bursts. In a burst faults strike every few seconds, last for seconds and overlap; after the last of
them is healed comes a calm. Times are those of the plan, whose clock stands still while a calm lasts longer than
planned because the cluster is waited for. Joins and leaves out of a trace are moves on the same clock.
"""
import csv
import dataclasses
import random

BURST_S = (25, 60)
CALM_S = 12
EVERY_S = (2, 7)  # between two faults of a burst
NODES_MAX = 64


class BadTrace(Exception):
    """What is wrong with the file of a trace: a sentence for people."""


@dataclasses.dataclass(frozen=True)
class Kind:
    weight: int  # how often in a deck
    seconds: tuple  # it lasts so long; (0, 0): it is over at once
    of_agent: bool = False  # strikes one agent, else the coordinator or everybody
    keeps: str = ""  # busy so long: no other fault that keeps the same of the same victim begins meanwhile


KINDS = {
    "kill-trainer": Kind(3, (0, 0), True),
    "kill-agent": Kind(3, (0, 0), True),
    "kill-host": Kind(2, (1, 15), True, "host"),
    "kill-coordinator": Kind(3, (0, 0)),
    "kill-all": Kind(1, (0, 0)),
    "freeze-trainer": Kind(3, (1, 20), True, "trainer"),
    "freeze-agent": Kind(2, (1, 20), True, "agent"),
    "freeze-host": Kind(2, (1, 20), True, "host"),
    "freeze-coordinator": Kind(2, (1, 20), False, "coordinator"),
    "freeze-all": Kind(1, (2, 12), False, "everything"),
    "cut": Kind(2, (2, 20), True, "line"),
    "cut-outward": Kind(2, (2, 20), True, "line"),
    "cut-inward": Kind(2, (2, 20), True, "line"),
    "cut-coordinator": Kind(2, (2, 15), False, "line"),
    "slow-line": Kind(3, (5, 30), True, "line"),
    "full-tables": Kind(1, (2, 10), False, "tables"),
    "full-checkpoints": Kind(2, (5, 20), False, "checkpoints"),
    "full-agent": Kind(2, (5, 20), True, "disk"),
    "flip-checkpoint": Kind(2, (0, 0)),
    "flip-on-line": Kind(2, (10, 20), False, "flipper"),
    "restore": Kind(1, (3, 3), False, "tables"),
}
SLOW_MBIT = (1, 2, 5, 10, 20)
# These need the disks of the coordinator: none of them while another one has it.
ON_ITS_DISKS = {"full-tables", "full-checkpoints", "restore"}


@dataclasses.dataclass(frozen=True)
class Fault:
    number: int
    at_s: float
    kind: str
    victim: int = -1  # number of an agent; -1: the coordinator or everybody
    seconds: float = 0
    detail: str = ""  # "5 mbit", "up"

    @property
    def healed_s(self):
        return self.at_s + self.seconds

    def __str__(self):
        words = [f"{self.at_s:8.2f} s", f"{self.kind:18}", f"agent-{self.victim}" if self.victim >= 0 else "",
                 f"{self.seconds:.2f} s" if self.seconds else "", self.detail]
        return "  ".join(word for word in words if word)


@dataclasses.dataclass(frozen=True)
class Burst:
    faults: tuple

    @property
    def begin_s(self):
        return self.faults[0].at_s

    @property
    def healed_s(self):
        return max(one.healed_s for one in self.faults)


@dataclasses.dataclass(frozen=True)
class Move:
    """A node comes or goes."""
    at_s: float
    joins: bool
    node: int

    def __str__(self):
        return f"{self.at_s:8.2f} s  {'join' if self.joins else 'leave':18}  agent-{self.node}"


@dataclasses.dataclass(frozen=True)
class Trace:
    nodes: tuple  # names; the place is the number of the agent
    first: frozenset  # numbers of those that are there when it begins
    moves: tuple


class Deck:
    """Kinds in random order, each as often as it weighs; then the deck is shuffled again."""

    def __init__(self, chance, kinds):
        self.chance, self.kinds, self.left = chance, [name for name in KINDS if name in kinds], []

    def draw(self):
        if not self.left:
            self.left = [name for name in self.kinds for _ in range(KINDS[name].weight)]
            self.chance.shuffle(self.left)
        return self.left.pop()


def make_plan(seed, seconds, agents, kinds=tuple(KINDS)):
    """Bursts that begin within so many seconds."""
    chance = random.Random(f"storm/{seed}")
    deck, bursts, begin, number = Deck(chance, kinds), [], 1.0, 0
    while kinds and begin < seconds:
        bursts.append(make_burst(chance, deck, begin, number, agents))
        number += len(bursts[-1].faults)
        begin = round(bursts[-1].healed_s + CALM_S, 3)
    return tuple(bursts)


def make_burst(chance, deck, begin, number, agents):
    faults, at, end = [], begin, begin + chance.uniform(*BURST_S)
    while at < end:
        fault = make_fault(chance, deck.draw(), at, number + len(faults), agents)
        if not any(in_the_way(fault, other) for other in faults):
            faults.append(fault)
        at = round(at + chance.uniform(*EVERY_S), 3)
    return Burst(tuple(faults))


def make_fault(chance, name, at, number, agents):
    kind = KINDS[name]
    victim = chance.randrange(agents) if kind.of_agent else -1
    seconds = round(chance.uniform(*kind.seconds), 2)
    detail = ""
    if name == "slow-line":
        detail = f"{chance.choice(SLOW_MBIT)} mbit"
    elif name == "flip-on-line":
        detail = chance.choice(["up", "down"])
    return Fault(number, at, name, victim, seconds, detail)


def in_the_way(fault, earlier):
    """What the earlier one keeps busy is what this one needs."""
    if fault.at_s > earlier.healed_s + 1:
        return False
    if {fault.kind, earlier.kind} <= ON_ITS_DISKS:
        return True
    keeps = KINDS[fault.kind].keeps
    return bool(keeps) and keeps == KINDS[earlier.kind].keeps and fault.victim == earlier.victim


def every_so_often(seed, seconds, count, victims, kinds, down_s):
    """Faults at even distances, as many of each kind as can be, in random order. Nobody is struck twice at a time."""
    if down_s * count > seconds * (victims - 1):
        raise ValueError(f"{count} faults of {down_s} s in {seconds} s leave nobody of {victims} to train")
    chance = random.Random(f"record/{seed}")
    names = [kinds[number % len(kinds)] for number in range(count)]
    chance.shuffle(names)
    faults = []
    for number, name in enumerate(names):
        at = round((number + 0.5) * seconds / count, 3)
        busy = {one.victim for one in faults if one.healed_s + down_s > at}
        victim = chance.choice([one for one in range(victims) if one not in busy] or list(range(victims)))
        faults.append(Fault(number, at, name, victim, down_s))
    return tuple(faults)


# ---- traces


def read_trace(path, speed):
    """Rows of time in ms, add or remove, node. The clock begins at the first row; its time is divided by `speed`."""
    with open(path, newline="", encoding="utf-8") as lines:
        rows = [(number, [cell.strip() for cell in row]) for number, row in enumerate(csv.reader(lines), 1) if row]
    if rows and not is_number(rows[0][1][0]):
        rows = rows[1:]  # a heading
    if not rows:
        raise BadTrace(f"{path}: no row (each has a time in ms, add or remove, a node)")
    steps = [read_row(path, number, row) for number, row in rows]
    steps.sort(key=lambda step: step[0])
    return build_trace(path, steps, speed)


def is_number(text):
    try:
        return float(text) >= 0
    except ValueError:
        return False


def read_row(path, number, row):
    if len(row) != 3 or not is_number(row[0]) or row[1] not in ("add", "remove") or not row[2]:
        raise BadTrace(f"{path}:{number}: '{','.join(row)}' is no row of a trace (write a time in ms from 0 on, add or "
                       "remove, the name of a node, with commas between them)")
    return float(row[0]), row[1] == "add", row[2]


def build_trace(path, steps, speed):
    nodes, there, moves, first = [], set(), [], set()
    for at_ms, joins, name in steps:
        if name not in nodes:
            nodes.append(name)
        node = nodes.index(name)
        if joins == (node in there):
            what = "added, and is there" if joins else "removed, and is not there"
            raise BadTrace(f"{path}: at {at_ms:g} ms {name} is {what} (add and remove each node in turn)")
        (there.add if joins else there.discard)(node)
        if at_ms == steps[0][0]:
            first = set(there)
        else:
            moves.append(Move(round((at_ms - steps[0][0]) / 1000 / speed, 3), joins, node))
    if len(nodes) > NODES_MAX:
        raise BadTrace(f"{path}: {len(nodes)} nodes, at most {NODES_MAX} (leave some out)")
    return Trace(tuple(nodes), frozenset(first), tuple(moves))
