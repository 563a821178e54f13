"""A batch of the program: how it gets to the device, and how a loss takes it."""

import collections
import copy
import dataclasses
from collections.abc import Mapping, MutableMapping

import torch

from shoal._library import Error

_PLAIN = (tuple, list, set, frozenset)


def moved(batch, device):
    """The batch with its tensors on the device. Containers keep their types; an object with a method
    `to`, such as a BatchEncoding, moves itself."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, type):
        return batch
    if callable(getattr(batch, "to", None)):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return _moved_mapping(batch, device)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(part, device) for part in batch))
    if isinstance(batch, collections.deque):
        return collections.deque((moved(part, device) for part in batch), batch.maxlen)
    if isinstance(batch, _PLAIN):
        return type(batch)([moved(part, device) for part in batch])
    if dataclasses.is_dataclass(batch):
        return _moved_fields(batch, device)
    return batch


def _moved_mapping(batch, device):
    parts = {key: moved(part, device) for key, part in batch.items()}
    if not isinstance(batch, MutableMapping):
        return parts
    result = copy.copy(batch)  # also what is no entry, such as the default of a defaultdict
    result.update(parts)
    return result


def _moved_fields(batch, device):
    result = copy.copy(batch)
    for field in dataclasses.fields(batch):
        object.__setattr__(result, field.name, moved(getattr(batch, field.name), device))
    return result


def loss_of_batch(loss_of, batch):
    if isinstance(batch, (tuple, list)) and not hasattr(batch, "to"):
        return loss_of(*batch)
    return loss_of(**batch) if isinstance(batch, Mapping) else loss_of(batch)


def number(value):
    """Of a tensor with one element, or any number."""
    if hasattr(value, "full_tensor"):  # a DTensor, such as a norm of shards; all ranks ask
        value = value.full_tensor()
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise Error(f"a tensor of shape {list(value.shape)} is not one number: give its mean")
        value = value.detach()
    return float(value)
