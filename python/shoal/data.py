"""Which items of a dataset are which sequences of a job's seeded order.

Training reads sequence 0, 1, 2, ... of an order that is a function of the job's seed and the
dataset's length only; every one is leased to exactly one replica. Each epoch has an order of its
own. Datasets of the cluster (stored.py) have the order of the job, in which chunks that are read
together lie together.
"""

import math
import os
import re
from typing import NamedTuple

import torch

from shoal import effects
from shoal._library import Digest, Error, permuted
from shoal.stored import HeldOut, Sequences

_SAMPLES = 16
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def beneath_roots(path, roots):
    """`path` is absolute or ROOT:PATH; `roots` is what the agent says, [NAME=]FOLDER in lines."""
    folders = []
    for line in roots.splitlines():
        name, _, folder = line.rpartition("=")
        folders.append((name, folder))
        if name and path.startswith(name + ":"):
            path = os.path.join(folder, path[len(name) + 1:])
    real = os.path.realpath(path)
    for _, folder in folders:
        if os.path.commonpath([real, os.path.realpath(folder)]) == os.path.realpath(folder):
            return real
    raise Error(f"{path} is beneath no data root of this agent "
                f"({', '.join(f for _, f in folders) or 'it has none'}; start it with --data-root)")


class Tokens:
    """Windows of `context` tokens and the same shifted by one, from a vector of tokens.

    `tokens`: a one-dimensional tensor, or anything that slices to what torch.as_tensor takes, such
    as a numpy.memmap.
    """

    def __init__(self, tokens, context):
        if len(tokens) <= context:
            raise Error(f"{len(tokens)} tokens are too few for one window of {context} and its "
                        "targets (use a longer text or a shorter context)")
        self.tokens, self.context = tokens, context

    def __len__(self):
        return (len(self.tokens) - 1) // self.context

    def __getitem__(self, index):
        first = index * self.context
        window = self.tokens[first:first + self.context + 1]
        if hasattr(window, "astype"):  # PyTorch before 2.3 knows no uint16 of numpy
            window = window.astype("int64")
        window = torch.as_tensor(window).to(torch.long)
        return window[:-1], window[1:]


def item_of(sequence, length, seed):
    """The item that is read as sequence number `sequence`, and its epoch."""
    epoch, place = divmod(sequence, length)
    return permuted(length, (seed * 0x9E3779B97F4A7C15 + epoch) % 2**64, place), epoch


def part_of(count, part):
    """The items of a batch of `count` that belong to `part`, (i, n): the i-th of n equal parts."""
    index, parts = part
    if not 0 <= index < parts:
        raise Error(f"part {index} of {parts}: must be one of 0 to {parts - 1}")
    if count % parts:
        raise Error(f"train.batch: {count} sequences cannot be divided among {parts} ranks (make it a "
                    f"multiple of {parts})")
    return range(count // parts * index, count // parts * (index + 1))


def announce(dataset, first, count):
    """Items of the order that are read next."""
    if isinstance(dataset, Sequences):
        dataset.will_read(first, count)


def training_batch(dataset, length, first, places, seed, collate):
    """`length`: of the dataset when the run began."""
    numbers = [first + place for place in places]
    if not isinstance(dataset, Sequences):
        numbers = [item_of(number, length, seed)[0] for number in numbers]
    return collate([dataset[number] for number in numbers])


def _evenly(dataset, place, wanted):
    if isinstance(dataset, HeldOut):
        return dataset.evenly(place, wanted)
    return dataset[place * len(dataset) // wanted]


class Span(NamedTuple):
    """Items `first` and following of `wanted` evenly spaced ones, in one of `batches` batches."""

    first: int
    size: int
    wanted: int
    batches: int


def held_out_span(length, order):
    """Batch `index` of `count` with `sequences` items each; of a dataset that has fewer items all are
    evaluated, in as few batches of nearly equal size. A size of 0: there are fewer batches."""
    wanted = min(order.count * order.sequences, length)
    batches = math.ceil(wanted / order.sequences)
    if order.index >= batches:
        return Span(0, 0, wanted, batches)
    first, end = wanted * order.index // batches, wanted * (order.index + 1) // batches
    return Span(first, end - first, wanted, batches)


def held_out_items_of(dataset, span, part=(0, 1)):
    """A rank's items of a batch, the same every time, and their weight in the mean over ranks. A rank
    without an item gets the first one, of weight 0, because ranks compute together."""
    index, parts = part
    begin, end = span.size * index // parts, span.size * (index + 1) // parts
    places = range(span.first + begin, span.first + max(end, begin + 1))
    items = [_evenly(dataset, min(place, span.wanted - 1), span.wanted) for place in places]
    return items, (end - begin) * parts / span.size


def held_out_rows(length, first, count, wanted):
    """How many items of a microbatch of a pipeline are evaluated, and the weight of their mean: all
    microbatches count the same, and the last one may have fewer items."""
    wanted = min(wanted, length)
    rows = max(0, min(count, wanted - first))
    return rows, rows * math.ceil(wanted / count) / wanted


def held_out_microbatch(dataset, first, count, wanted, collate):
    """Items `first` ... of `wanted` held-out ones, evenly spaced; behind the last, where none is
    evaluated, comes the first."""
    wanted = min(wanted, len(dataset))
    places = [(first + i) % wanted for i in range(count)]
    return collate([_evenly(dataset, place, wanted) for place in places])


def check_dataset(dataset):
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise Error(f"{type(dataset).__name__} has no length and no items by number: sequences are "
                    "leased by number, so a dataset must have both (shoal.Tokens makes one of a "
                    "vector of tokens)")
    if len(dataset) == 0:
        raise Error("the dataset is empty")


def _words(item):
    """What identifies an item, in pieces."""
    if isinstance(item, torch.Tensor):
        yield repr((item.dtype, tuple(item.shape)))
        yield repr(item.tolist())
    elif isinstance(item, (tuple, list)):
        for part in item:
            yield from _words(part)
    elif isinstance(item, dict):
        for key in sorted(item, key=str):
            yield str(key)
            yield from _words(item[key])
    else:
        yield repr(item)


def _read(dataset, place, time):
    with effects.random_state_kept():
        effects.seed("digest", time)
        return list(_words(dataset[place]))


def _stable_words(dataset, place):
    """None: the item is another one when it is read again, as after a random crop, or an object of
    which only the address is known."""
    words = _read(dataset, place, 0)
    if any(_ADDRESS.search(word) for word in words) or _read(dataset, place, 1) != words:
        return None
    return words


def _add(digest, text):
    digest.add(text.encode(errors="replace"))


def digest_of(dataset, identity=None):
    """A digest of what is the same on all hosts, to compare their data: the length, and `identity`;
    without one a few evenly spaced items, as far as they are the same when they are read again."""
    if isinstance(dataset, Sequences):
        return dataset.digest()
    digest = Digest()
    _add(digest, str(len(dataset)))
    if identity is not None:
        _add(digest, str(identity))
        return digest
    samples, unstable = min(_SAMPLES, len(dataset)), 0
    for i in range(samples):
        words = _stable_words(dataset, i * (len(dataset) - 1) // max(1, samples - 1))
        unstable += words is None
        for word in words or []:
            _add(digest, word)
    if unstable:
        print(f"warning: {unstable} of {samples} items of the dataset are not the same when they are read again, "
              "so hosts cannot compare them (say what the data is, equally on all hosts: "
              "run.batches(dataset, identity=\"its name or hash\"))", flush=True)
    return digest
