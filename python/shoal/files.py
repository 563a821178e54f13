"""The files of a checkpoint that hold tensors, in the safetensors format.

    model.safetensors      the anchor, under the names of the model's parameters
    outer.safetensors      outer momentum, flat
    optimizer.safetensors  state of the inner optimizer of the replica that wrote it; where several
                           ranks hold it in shards, a file for each: optimizer-1-of-2.safetensors

Each stage of a pipeline writes its own three, as model-00002-of-00004.safetensors, and stage 0
model.safetensors.index.json besides, which says where each parameter is, unless the stages are
built one by one.

Nothing in them is code: a checkpoint of another host can be read without trust.
"""

import ctypes
import hashlib
import json
import math
import os
import struct

import torch

from shoal import shards
from shoal._library import Error
from shoal.vectors import TYPES, view_of

_DTYPES = {name: dtype for dtype, name in TYPES.items()}
_HEADER_MAX = 100 << 20
_INDEX = "model.safetensors.index.json"


class NotFinite(Error):
    """A checkpoint is refused, because it could not be continued."""


def _is_finite(tensor):
    floats = tensor.is_floating_point() or tensor.is_complex()
    return not floats or bool(torch.isfinite(tensor).all())


def _refuse_nonfinite(tensors, what):
    for name, tensor in tensors:
        if not _is_finite(tensor):
            raise NotFinite(f"the checkpoint is not written, because {name} of its {what} has values that are "
                            "not finite (lower the learning rate, clip the gradients, or look for such values "
                            "in the data)")


def forget_nonfinite(optimizer):
    """The parameters whose state in the optimizer has values that are not finite lose that state, so
    they begin anew; else each later step would make them so again."""
    ruined = [parameter for parameter, state in optimizer.state.items()
              if isinstance(state, dict) and not all(
                  _is_finite(shards.local_values(value)) for value in state.values()
                  if isinstance(value, torch.Tensor))]
    for parameter in ruined:
        del optimizer.state[parameter]
    if ruined:
        print(f"warning: the optimizer's state of {len(ruined)} parameters had values that are not finite: "
              "it begins anew", flush=True)


def _bytes_of(tensor):
    count = tensor.numel() * tensor.element_size()
    return (ctypes.c_char * count).from_address(tensor.data_ptr()) if count else b""


def _write(path, role, pieces):
    """Writes and syncs a file; what is reported of it: (name, role, size, SHA-256)."""
    digest, size = hashlib.sha256(), 0
    with open(path, "wb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return os.path.basename(path), role, size, digest.hexdigest()


def write_tensors(path, role, tensors, metadata=None):
    """Writes and syncs [(name, tensor)]; what is reported of the file."""
    header, end = {"__metadata__": {"format": "pt", **(metadata or {})}}, 0
    tensors = [(name, tensor.detach().cpu().contiguous()) for name, tensor in tensors]
    for name, tensor in tensors:
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = struct.pack("<Q", len(text)) + text
    return _write(path, role, [start, *(_bytes_of(tensor) for _, tensor in tensors)])


def _read_header(path, file):
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
    if length > min(size - 8, _HEADER_MAX):
        raise Error(f"{path} is cut short, or is not a safetensors file (take another copy)")
    try:
        header = json.loads(file.read(length))
        return header.pop("__metadata__", {}), header, size - 8 - length
    except (ValueError, AttributeError):
        raise Error(f"{path} has a damaged header (take another copy)") from None


def read_tensors(path):
    """The tensors by name, and the metadata."""
    with open(path, "rb") as file:
        metadata, header, data_size = _read_header(path, file)
        data_start, tensors = file.tell(), {}
        for name, entry in header.items():
            dtype, shape = _DTYPES.get(entry["dtype"]), entry["shape"]
            begin, end = entry["data_offsets"]
            if dtype is None:
                raise Error(f"{path}: the tensor {name} is of the unknown type {entry['dtype']}")
            tensor = torch.empty(shape, dtype=dtype)
            wanted = math.prod(shape) * tensor.element_size()
            if end - begin != wanted or not 0 <= begin <= end <= data_size:
                raise Error(f"{path}: the tensor {name} is cut (take another copy)")
            file.seek(data_start + begin)
            if wanted:
                file.readinto(_bytes_of(tensor))
            tensors[name] = tensor
        return tensors, metadata


def _difference(there, wanted):
    """What of a checkpoint does not fit the model, up to ten sentences."""
    lines = [f"{n} is missing" for n in wanted if n not in there]
    lines += [f"{n} is not in the model" for n in there if n not in wanted]
    lines += [f"{n} has shape {list(there[n].shape)}, the model's has {shape}"
              for n, shape in wanted.items() if n in there and list(there[n].shape) != shape]
    return lines[:10] + ([f"and {len(lines) - 10} more"] if len(lines) > 10 else [])


def _optimizer_tensors(optimizer):
    tensors, numbers = [], {}
    for index, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                tensors.append((f"{index}.{key}", shards.local_values(value)))
            elif value is None or isinstance(value, (bool, int, float, str)):
                numbers[f"{index}.{key}"] = value
    return tensors, {"numbers": json.dumps(numbers)}


def _restore_optimizer(optimizer, tensors, metadata):
    state, parameters = {}, [p for group in optimizer.param_groups for p in group["params"]]
    for name, value in [*tensors.items(), *json.loads(metadata.get("numbers", "{}")).items()]:
        index, key = name.split(".", 1)
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            value = shards.as_shard_of(parameters[int(index)], value)
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    forget_nonfinite(optimizer)  # checkpoints of versions before 0.2 may have such values


def _name(stem, stage, stages):
    numbers = f"-{stage + 1:05}-of-{stages:05}" if stages > 1 else ""
    return f"{stem}{numbers}.safetensors"


def _path(order, stem):
    return os.path.join(order.text.decode(), _name(stem, order.index, order.count))


def _optimizer_stem(vectors, rank, ranks):
    return f"optimizer-{rank + 1}-of-{ranks}" if vectors.sharded else "optimizer"


def write_checkpoint(order, vectors, optimizer, rank=0, ranks=1):
    """What is reported of the files that this rank wrote. What is whole is rank 0's to write."""
    written = []
    tensors, numbers = _optimizer_tensors(optimizer)
    _refuse_nonfinite(tensors, "optimizer's state")
    if rank == 0:
        weights = list(vectors.split(view_of(order.values, order.value_count)))
        outer = [("outer_momentum", view_of(order.momentum, order.momentum_count))]
        _refuse_nonfinite(weights, "weights")
        _refuse_nonfinite(outer, "outer state")
        written.append(write_tensors(_path(order, "model"), "weights", weights))
        written.append(write_tensors(_path(order, "outer"), "outer/momentum", outer))
    if rank == 0 or vectors.sharded:
        stem = _optimizer_stem(vectors, rank, ranks)
        written.append(write_tensors(_path(order, stem), f"inner/{stem}", tensors, numbers))
    return written


def read_checkpoint(order, vectors, optimizer, rank=0, ranks=1):
    if rank == 0:
        _read_averaged(order, vectors)
    place = _path(order, _optimizer_stem(vectors, rank, ranks))
    if os.path.exists(place):
        _restore_optimizer(optimizer, *read_tensors(place))
    else:  # written by another number of ranks
        print(f"info: {os.path.basename(place)} is not in the checkpoint: the optimizer starts without state",
              flush=True)


def _read_averaged(order, vectors):
    model, _ = read_tensors(_path(order, "model"))
    wrong = _difference(model, dict(vectors.shapes()))
    if wrong:
        raise Error("the checkpoint is of another model: " + "; ".join(wrong))
    for name, values in vectors.split(view_of(order.values, order.value_count)):
        values.copy_(model[name])
    outer, _ = read_tensors(_path(order, "outer"))
    view_of(order.momentum, order.momentum_count).copy_(outer["outer_momentum"])


def read_parameters(folder, vectors):
    """Those of a checkpoint of the same model, whatever its cut was, as one flat vector."""
    stored, wanted = load_checkpoint(folder), dict(vectors.shapes())
    if vectors.is_part:
        stored = {name: values for name, values in stored.items() if name in wanted}
    wrong = _difference(stored, wanted)
    if wrong:
        raise Error("model.init: the checkpoint is of another model: " + "; ".join(wrong))
    flat = torch.empty(sum(math.prod(shape) for shape in wanted.values()))
    for name, values in vectors.split(flat):
        values.copy_(stored[name])
    return flat


def write_index(folder, stages):
    """`stages`: of each one [(name, values)]. What is reported of the file."""
    places = {name: _name("model", stage, len(stages))
              for stage, tensors in enumerate(stages) for name, _ in tensors}
    total = 4 * sum(count for tensors in stages for _, count in tensors)
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=2)
    return _write(os.path.join(folder, _INDEX), "description", [text.encode()])


def load_checkpoint(folder):
    """The parameters of a checkpoint by their names in the model, those of all stages."""
    tensors, places = {}, {}
    index = os.path.join(folder, _INDEX)
    if os.path.exists(index):
        with open(index) as file:
            places = json.load(file)["weight_map"]
    for name in sorted(set(places.values())) or _shards_in(folder):
        tensors.update(read_tensors(os.path.join(folder, os.path.basename(name)))[0])
    missing = [name for name in places if name not in tensors]
    if missing:
        raise Error(f"{folder}: {missing[0]} is missing (take another copy)")
    return tensors


def _shards_in(folder):
    """Of a checkpoint without an index: whoever wrote stage 0 had not seen the other stages."""
    first = sorted(n for n in os.listdir(folder) if n.startswith("model-00001-of-"))
    if not first:
        return ["model.safetensors"]
    stages = int(first[0][len("model-00001-of-"):].split(".")[0])
    return [_name("model", stage, stages) for stage in range(stages)]
