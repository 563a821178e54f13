"""Which values of a model's parameters a process holds: all, or its shards of DTensors (fully_shard,
parallelize_module), by their mesh and placements. Nothing is communicated."""

import math

import torch

from shoal._library import Error


def is_sharded(parameter):
    return hasattr(parameter, "device_mesh")  # a DTensor; PyTorch 1.13 has none


def local_values(parameter):
    """What this rank holds of a parameter, as a tensor of its own memory."""
    return parameter.to_local() if is_sharded(parameter) else parameter


def as_shard_of(parameter, values):
    """`values`, which one rank holds, as the shard of a tensor that lies as `parameter` does."""
    if not is_sharded(parameter):
        return values
    from torch.distributed.tensor import DTensor  # where there are shards, PyTorch has it
    return DTensor.from_local(
        values.to(parameter.to_local().device), parameter.device_mesh, parameter.placements,
        run_check=False, shape=parameter.shape, stride=parameter.stride())


def _placed(name, placement, size, coordinate, place):
    """Narrows `place`, a [first, count] for each dimension, to what one dimension of a mesh leaves."""
    if not placement.is_shard() or type(placement).__name__ != "Shard":
        raise Error(f"the parameter {name} is placed as {placement}, of which a rank cannot tell what "
                    "it holds (shard it once along each dimension, or replicate it)")
    first, count = place[placement.dim]
    piece = math.ceil(count / size)  # as torch.chunk
    start = min(piece * coordinate, count)
    place[placement.dim] = [first + start, min(piece, count - start)]


def place_of(name, parameter, rank):
    """Which slices of a parameter this rank holds, and whether it is the rank that hands them on."""
    place = [[0, length] for length in parameter.shape]
    if not is_sharded(parameter):
        return tuple(slice(0, length) for length in parameter.shape), rank == 0
    mesh, hands_on = parameter.device_mesh, True
    for dimension, placement in enumerate(parameter.placements):
        coordinate = mesh.get_coordinate()[dimension]
        if placement.is_replicate():
            hands_on = hands_on and coordinate == 0
        else:
            _placed(name, placement, mesh.size(dimension), coordinate, place)
    if [count for _, count in place] != list(parameter.to_local().shape):
        raise Error(f"the parameter {name} is sharded in a way that Shoal does not know (shard it with "
                    "fully_shard or parallelize_module)")
    return tuple(slice(first, first + count) for first, count in place), hands_on


def reshard(model):
    """Parameters of fully_shard() are in pieces again; after an evaluation some are whole."""
    for module in model.modules():
        if type(module).__name__ == "FullyShardedDataParallel":
            raise Error("FullyShardedDataParallel flattens parameters, so that nobody can tell which "
                        "value is whose (use torch.distributed.fsdp.fully_shard)")
        if hasattr(module, "reshard") and hasattr(module, "unshard"):
            module.reshard()
