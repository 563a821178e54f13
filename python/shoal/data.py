"""Which items of a dataset are which sequences of a job's seeded order.

Training reads sequence 0, 1, 2, ... of an order that is a function of the job's seed and the
dataset's length only; every one is leased to exactly one replica. Each epoch has an order of its
own. Datasets of the cluster (stored.py) have the order of the job, in which chunks that are read
together lie together.
"""

import os

import torch
from torch.utils.data import default_collate

from shoal._library import Digest, Error, permuted
from shoal.stored import HeldOut, Sequences

_SAMPLES = 16


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


def training_batch(dataset, first, places, seed, collate):
    numbers = [first + place for place in places]
    if not isinstance(dataset, Sequences):
        numbers = [item_of(number, len(dataset), seed)[0] for number in numbers]
    return collate([dataset[number] for number in numbers])


def _evenly(dataset, place, wanted):
    if isinstance(dataset, HeldOut):
        return dataset.evenly(place, wanted)
    return dataset[place * len(dataset) // wanted]


def held_out_batch(dataset, index, batches, count, collate, part=(0, 1)):
    """Part of batch `index` of `batches`, evenly spaced and the same every time; None: there are
    fewer."""
    wanted = min(batches * count, len(dataset))
    if (index + 1) * count > wanted:
        return None
    places = [index * count + place for place in part_of(count, part)]
    return collate([_evenly(dataset, place, wanted) for place in places])


def held_out_items(dataset, wanted):
    """How many are evaluated."""
    return min(wanted, len(dataset))


def held_out_microbatch(dataset, first, count, wanted, collate):
    """Items `first` ... of `wanted` held-out ones, evenly spaced; behind the last, where none is
    evaluated, comes the first."""
    wanted = held_out_items(dataset, wanted)
    places = [(first + i) % wanted for i in range(count)]
    return collate([_evenly(dataset, place, wanted) for place in places])


def check_dataset(dataset):
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise Error(f"{type(dataset).__name__} has no length and no items by number: sequences are "
                    "leased by number, so a dataset must have both (shoal.Tokens makes one of a "
                    "vector of tokens)")
    if len(dataset) == 0:
        raise Error("the dataset is empty")


def _add(digest, item):
    if isinstance(item, torch.Tensor):
        digest.add(repr((item.dtype, tuple(item.shape))).encode())
        digest.add(repr(item.tolist()).encode())
    elif isinstance(item, (tuple, list)):
        for part in item:
            _add(digest, part)
    elif isinstance(item, dict):
        for key in sorted(item):
            digest.add(str(key).encode())
            _add(digest, item[key])
    else:
        digest.add(repr(item).encode())


def digest_of(dataset):
    """A digest of the length and a few evenly spaced items, to compare the data of two hosts."""
    if isinstance(dataset, Sequences):
        return dataset.digest()
    digest = Digest()
    digest.add(str(len(dataset)).encode())
    samples = min(_SAMPLES, len(dataset))
    for i in range(samples):
        _add(digest, dataset[i * (len(dataset) - 1) // max(1, samples - 1)])
    return digest
