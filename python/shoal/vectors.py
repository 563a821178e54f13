"""The parameters of a model that travel, as one flat vector of float32 in memory of the library.

Only what requires gradients travels, once: a tied weight has one place, a frozen one none. Buffers
stay with their replica, unless their mean is asked for: then those with floating-point values follow
the parameters.
"""

import ctypes

import torch

from shoal import names as naming
from shoal import shards
from shoal._library import Error
from shoal.registry import check_parameter, shown
from shoal.trees import TYPES

def view_of(pointer, count):
    """`count` float32 values at an address, without a copy."""
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(pointer), dtype=torch.float32)


_ODD = "of a type that safetensors lacks"


def _why_not_stored(buffer):
    if buffer is None or buffer.is_meta or buffer.layout != torch.strided or shards.is_sharded(buffer):
        return "no values of its own"
    return None if buffer.dtype in TYPES else _ODD


def _can_be_averaged(one):
    _, module, key = one
    buffer = module._buffers[key]
    return buffer.is_floating_point() and buffer.numel() > 0 and _why_not_stored(buffer) is None


class Vectors:
    """The parameters of a model, or of a list of them, as a flat vector. Of several ranks each copies
    what it holds."""

    def __init__(self, model, names=None, rank=0, mean_of_buffers=False):
        """`names`: of a stage's parameters in the whole model by their id(), and of its buffers by the
        id() of their module and their key; else the model's own."""
        self.is_part = names is not None  # of a model, as a stage is
        self._models = [one for _, one in naming.models_of(model)]
        self._reshard()
        self.parameters = [(names[id(p)] if names else n, p)
                           for n, p in naming.parameters(model) if p.requires_grad]
        if not self.parameters:
            raise Error("no parameter of the model requires gradients: there is nothing to train")
        for name, parameter in self.parameters:
            check_parameter(name, parameter)
        buffers = [(names.get((id(module), key), name) if names else name, module, key)
                   for name, module, key in naming.buffers(model)]
        self._averaged = [one for one in buffers if mean_of_buffers and _can_be_averaged(one)]
        self._local = [one for one in buffers if one not in self._averaged]
        for name, module, key in self._local:
            if _why_not_stored(module._buffers[key]) == _ODD:
                print(f"warning: checkpoints will lack the buffer {name}, which is {module._buffers[key].dtype}",
                      flush=True)
        self.trained = self.parameters
        self._find_buffers()
        self._places = [shards.place_of(name, parameter, rank) for name, parameter in self.parameters]

    def _find_buffers(self):
        self.parameters = self.trained + [(name, module._buffers[key]) for name, module, key in self._averaged]

    def _reshard(self):
        for model in self._models:
            shards.reshard(model)

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
        self._reshard()
        self._find_buffers()
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
        for name, module, key in self._averaged:
            if key == "running_var":  # encoded values may be a little less than they were
                module._buffers[key].clamp_(min=0)

    def local_buffers(self):
        """(name, values) of those that a checkpoint has beside the parameters."""
        return [(name, module._buffers[key]) for name, module, key in self._local
                if _why_not_stored(module._buffers[key]) is None]

    @torch.no_grad()
    def take_buffers(self, stored):
        """Those of a checkpoint, as far as they fit."""
        known, wrong = {name: (module, key) for name, module, key in self._local}, []
        for name, values in stored.items():
            module, key = known.get(naming.plain(name, known), (None, None))
            if module is None:
                wrong.append(f"{name} is no buffer of the model")
            elif module._buffers[key] is None or module._buffers[key].shape != values.shape:
                wrong.append(f"{name} has another shape")
            else:
                module._buffers[key].copy_(values)
        if wrong and not self.is_part:
            print(f"warning: buffers of the checkpoint do not fit and are dropped: {shown(wrong)}", flush=True)
