"""The parameters of a model that travel, as one flat vector of float32 in memory of the library.

Only what requires gradients travels, once: a tied weight has one place, a frozen one none. Buffers
stay with their replica.
"""

import ctypes

import torch

from shoal._library import Error


def view_of(pointer, count):
    """`count` float32 values at an address, without a copy."""
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(pointer), dtype=torch.float32)


class Vectors:
    def __init__(self, model, names=None):
        """`names`: of a stage's parameters in the whole model, by their id(); else the model's own."""
        self.parameters = [(names[id(p)] if names else n, p)
                           for n, p in model.named_parameters() if p.requires_grad]
        if not self.parameters:
            raise Error("no parameter of the model requires gradients: there is nothing to train")
        for name, parameter in self.parameters:
            if parameter.is_sparse or not parameter.is_floating_point():
                raise Error(f"the parameter {name} is {parameter.dtype}, {parameter.layout}: only "
                            "dense floating-point parameters can be averaged (freeze it)")

    def sizes(self):
        return [(name, parameter.numel()) for name, parameter in self.parameters]

    def shapes(self):
        return [(name, list(parameter.shape)) for name, parameter in self.parameters]

    def split(self, flat):
        """(name, values in the parameter's shape) of a flat vector, in order."""
        first = 0
        for name, parameter in self.parameters:
            count = parameter.numel()
            yield name, flat[first:first + count].view(parameter.shape)
            first += count

    @torch.no_grad()
    def read_into(self, flat):
        for (_, values), (_, parameter) in zip(self.split(flat), self.parameters):
            values.copy_(parameter)

    @torch.no_grad()
    def write_from(self, flat):
        for (_, values), (_, parameter) in zip(self.split(flat), self.parameters):
            parameter.copy_(values)
