"""The job's datasets (data.dataset, data.mixture) for a program: sequences by their number in the job's
own order. The library fetches them through the agent, a few chunks ahead. What runs do with them is
in data.py.
"""

import torch

from shoal._library import Digest


class Sequences:
    """`self[i]`: sequence i of the job's order, as inputs and targets of model.context tokens. Numbers
    from len(self) on belong to the next epochs. `held_out` is for run.evaluate(). Only the process that
    joined may read."""

    def __init__(self, source):
        self._source = source
        self.held_out = HeldOut(source)

    def __len__(self):
        return self._source.shape.sequences

    def __getitem__(self, number):
        return _pair(self._source, lambda address: self._source.read_sequence(number, address))

    def will_read(self, first, count):
        """Sequences that this replica alone reads next: they are fetched ahead, a few chunks at a time."""
        self._source.will_read(first, count)

    def digest(self):
        digest = Digest()
        digest.words[:] = self._source.shape.digest
        return digest


class HeldOut:
    """The sequences that are not trained on, the same ones at every evaluation."""

    def __init__(self, source):
        self._source = source

    def __len__(self):
        return self._source.shape.held_out

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.evenly(index, len(self))

    def evenly(self, place, wanted):
        """Number `place` of `wanted` sequences, spread evenly; each dataset of a mixture gives its share."""
        return _pair(self._source,
                     lambda address: self._source.read_held_out(place, wanted, address))


def _pair(source, read):
    tokens = torch.empty(source.shape.context + 1, dtype=torch.int64)
    read(tokens.data_ptr())
    return tokens[:-1], tokens[1:]
