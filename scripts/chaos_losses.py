"""Where the tokens of a record went: replica-seconds that living replicas had and no round counts, by cause.

Pure: rounds and faults in, seconds out. Times are seconds of one clock. Two causes follow from what is on record; what
they do not explain is the rest, and is not guessed at.

  held_up  a round took longer than an undisturbed one, and everybody who lived stood still for as long
  dropped  a victim trained in the open round until it was struck, and was back only after the round had committed, or
           was killed, so that the work died with it
  rest     what replicas would train while they load or come back, and whatever else there is; below 0 where the two
           above say too much, as with a victim whose work counted after all
"""
import dataclasses

KILLS = ("kill-host", "kill-trainer")


@dataclasses.dataclass(frozen=True)
class Losses:
    """Replica-seconds."""
    living: float  # what replicas had that were not down
    lost: float  # of it, what no round counts
    held_up: float
    dropped: float

    @property
    def rest(self):
        return self.lost - self.held_up - self.dropped

    def figures(self):
        shares = {name: getattr(self, name) for name in ("lost", "held_up", "dropped", "rest")}
        return {name: {"replica_s": round(value, 1), "percent": round(100 * value / self.living, 2)}
                for name, value in shares.items()}


def find_losses(ends, replicas, usual_s, trained_s, faults):
    """`ends`: when rounds committed, the first being the begin of the first one. `usual_s`: an undisturbed round.
    `trained_s`: replica-seconds of the tokens that count. `faults`: (kind, begin, end), each of one replica."""
    if len(ends) < 2 or usual_s <= 0:
        raise ValueError("losses need a round that has a begin, and the length of an undisturbed one")
    spans = list(zip(ends, ends[1:]))
    living = sum(living_in(span, replicas, faults) for span in spans)
    return Losses(living, living - trained_s, sum(held_up(span, replicas, usual_s, faults) for span in spans),
                  sum(dropped(spans, fault) for fault in faults))


def living_in(span, replicas, faults):
    """Replica-seconds of those that were not down."""
    begin, end = span
    down = sum(max(0.0, min(end, healed) - max(begin, struck)) for _, struck, healed in faults)
    return replicas * (end - begin) - down


def held_up(span, replicas, usual_s, faults):
    """What all who lived waited at the end of this round."""
    begin, end = span
    waited_from = begin + usual_s
    return living_in((waited_from, end), replicas, faults) if end > waited_from else 0.0


def dropped(spans, fault):
    """What the victim had trained of the round that was open when it was struck, where that cannot count."""
    kind, struck, healed = fault
    for begin, end in spans:
        if begin <= struck < end:
            return struck - begin if kind in KILLS or healed >= end else 0.0
    return 0.0
