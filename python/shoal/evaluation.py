"""How a run computes the job's evaluations: of one dataset, or of several by their names.

The library asks for batch 0, 1, ... and averages the answers of all replicas with equal weights. A set
that is smaller than all the batches is divided into batches of nearly equal size, and the mean of each
is weighed by its size, so that the result is the mean over the items.
"""

import math
import re
from collections.abc import Mapping

from shoal import data
from shoal._library import Error
from shoal.batch import loss_of_batch, moved, number

NO_LOSS = float("nan")  # there is no such batch
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,59}")


def _sets_of(given):
    """(name, dataset) of each; without a name there is one."""
    if not isinstance(given, Mapping):
        data.check_dataset(given)
        return [(None, given)]
    if not given:
        raise Error("run.evaluate({}): the dictionary has no datasets")
    for name, dataset in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Error(f"run.evaluate(): {name!r} names a dataset: use 1 to 59 letters, digits and . _ - /")
        data.check_dataset(dataset)
    return list(given.items())


class Evaluation:
    """`given`: a dataset, or a dictionary of them."""

    def __init__(self, given, loss_of, collate):
        self._sets, self._loss_of, self._collate = _sets_of(given), loss_of, collate
        self._sums = {}  # by name: of losses times items, and of items, in this evaluation
        self._finite = True

    def loss(self, order, part, device):
        """The answer for one batch of each set. A rank computes `part` of it."""
        spans = [data.held_out_span(len(dataset), order) for _, dataset in self._sets]
        batches = max(span.batches for span in spans)
        if order.index >= batches:
            return NO_LOSS
        total = 0.0
        for (name, dataset), span in zip(self._sets, spans):
            if span.size:
                mean, share = self._batch(name, dataset, span, part, device)
                total += mean * share * span.size * batches / span.wanted if share else 0.0
        return total / len(self._sets)

    def _batch(self, name, dataset, span, part, device):
        """The mean over this rank's items, and how many of the mean of a rank they are."""
        items, share = data.held_out_items_of(dataset, span, part)
        mean = number(loss_of_batch(self._loss_of, moved(self._collate(items), device)))
        self._look_at(mean, name)
        if name is not None:
            losses, count = self._sums.get(name, (0.0, 0))
            here = len(items) if share else 0
            self._sums[name] = (losses + mean * here, count + here)
        return mean, share

    def _look_at(self, mean, name):
        if self._finite and not math.isfinite(mean):
            self._finite = False
            print(f"warning: the loss of an evaluation{f' of {name}' if name else ''} is {mean}: batches whose "
                  "loss is not a number are left out", flush=True)

    def finished(self):
        """The mean of each named set over the batches that this replica evaluated, once."""
        sums, self._sums = self._sums, {}
        return {name: losses / count for name, (losses, count) in sums.items() if count}
