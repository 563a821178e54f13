"""The parameters of a model that travel, as one flat vector of float32 in memory of the library.

Only what requires gradients travels, once: a tied weight has one place, a frozen one none. Buffers
stay with their replica.
"""

import ctypes

import torch

from shoal import shards
from shoal._library import Error


TYPES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}


def view_of(pointer, count):
    """`count` float32 values at an address, without a copy."""
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(pointer), dtype=torch.float32)


class Vectors:
    """The parameters of a model as a flat vector. Of several ranks each copies what it holds."""

    def __init__(self, model, names=None, rank=0):
        """`names`: of a stage's parameters in the whole model, by their id(); else the model's own."""
        self.is_part = names is not None  # of a model, as a stage is
        self._model = shards.whole_model(model)
        shards.reshard(self._model)
        self.parameters = [(names[id(p)] if names else n, p)
                           for n, p in self._model.named_parameters() if p.requires_grad]
        if not self.parameters:
            raise Error("no parameter of the model requires gradients: there is nothing to train")
        for name, parameter in self.parameters:
            if parameter.is_sparse or not parameter.is_floating_point():
                raise Error(f"the parameter {name} is {parameter.dtype}, {parameter.layout}: only "
                            "dense floating-point parameters can be averaged (freeze it)")
        self._places = [shards.place_of(name, parameter, rank) for name, parameter in self.parameters]

    @property
    def sharded(self):
        return any(shards.is_sharded(parameter) for _, parameter in self.parameters)

    def sizes(self):
        return [(name, parameter.numel()) for name, parameter in self.parameters]

    def shapes(self):
        return [(name, list(parameter.shape)) for name, parameter in self.parameters]

    def tensors(self):
        """(name, shape, type): what the replicas of a job compare."""
        return [(name, list(parameter.shape), TYPES.get(parameter.dtype, str(parameter.dtype)[-16:]))
                for name, parameter in self.parameters]

    def split(self, flat):
        """(name, values in the parameter's shape) of a flat vector, in order."""
        first = 0
        for name, parameter in self.parameters:
            count = parameter.numel()
            yield name, flat[first:first + count].view(parameter.shape)
            first += count

    def _pieces(self, flat):
        """(what this rank holds, its place in the vector, whether it is the one to hand it on)"""
        shards.reshard(self._model)
        for (_, values), (_, parameter), place in zip(self.split(flat), self.parameters, self._places):
            yield shards.local_values(parameter), values[place[0]], place[1]

    @torch.no_grad()
    def read_into(self, flat):
        for mine, values, hands_on in self._pieces(flat):
            if hands_on:
                values.copy_(mine)

    @torch.no_grad()
    def write_from(self, flat):
        for mine, values, _ in self._pieces(flat):
            mine.copy_(values)
