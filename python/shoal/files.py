"""The files of a checkpoint that hold tensors, in the safetensors format.

    model.safetensors      the anchor, under the names of the model's parameters
    outer.safetensors      outer momentum, flat
    optimizer.safetensors  state of the inner optimizers of the replica that wrote it; where several
                           ranks hold it in shards, a file for each: optimizer-1-of-2.safetensors
    kept.safetensors       what the program keeps there with run.keep(), likewise
    buffers.safetensors    the buffers that are not averaged, of the replica that wrote it

Each stage of a pipeline writes its own, as model-00002-of-00004.safetensors, and stage 0
model.safetensors.index.json besides, which says where each parameter is, unless the stages are
built one by one.

Nothing in them is code: a checkpoint of another host can be read without trust.
"""

import hashlib
import json
import math
import os
import struct

import torch

from shoal import names
from shoal._library import Error
from shoal.registry import shown
from shoal.state import is_finite
from shoal.trees import TYPES, bytes_of, on_host
from shoal.vectors import view_of

_DTYPES = {name: dtype for dtype, name in TYPES.items()}
_HEADER_MAX = 100 << 20
_INDEX = "model.safetensors.index.json"


class NotFinite(Error):
    """A checkpoint is refused, because it could not be continued."""


def _refuse_nonfinite(tensors, what):
    for name, tensor in tensors:
        if not is_finite(tensor):
            raise NotFinite(f"the checkpoint is not written, because {name} of its {what} has values that are "
                            "not finite (lower the learning rate, clip the gradients, or look for such values "
                            "in the data)")


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
    tensors = [(name, on_host(tensor)) for name, tensor in tensors]
    for name, tensor in tensors:
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = struct.pack("<Q", len(text)) + text
    return _write(path, role, [start, *(bytes_of(tensor) for _, tensor in tensors)])


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
                file.readinto(bytes_of(tensor))
            tensors[name] = tensor
        return tensors, metadata


def _difference(there, wanted):
    """What of a checkpoint does not fit the model."""
    lines = [f"{n} is missing" for n in wanted if n not in there]
    lines += [f"{n} is not in the model" for n in there if n not in wanted]
    lines += [f"{n} has shape {list(there[n].shape)}, the model's has {shape}"
              for n, shape in wanted.items() if n in there and list(there[n].shape) != shape]
    return lines


def _named_as(wanted, stored):
    return {names.plain(name, wanted): values for name, values in stored.items()}


def _name(stem, stage, stages):
    numbers = f"-{stage + 1:05}-of-{stages:05}" if stages > 1 else ""
    return f"{stem}{numbers}.safetensors"


def _path(order, stem):
    return os.path.join(order.text.decode(), _name(stem, order.index, order.count))


def _stem_of_rank(stem, vectors, rank, ranks):
    return f"{stem}-{rank + 1}-of-{ranks}" if vectors.sharded else stem


def write_checkpoint(order, vectors, state, rank=0, ranks=1):
    """What is reported of the files that this rank wrote. What is whole is rank 0's to write."""
    written = []
    tensors, document = state.optimizers_written()
    _refuse_nonfinite(tensors.items(), "optimizer's state")
    if rank == 0:
        weights = list(vectors.split(view_of(order.values, order.value_count)))
        outer = [("outer_momentum", view_of(order.momentum, order.momentum_count))]
        _refuse_nonfinite(weights, "weights")
        _refuse_nonfinite(outer, "outer state")
        written.append(write_tensors(_path(order, "model"), "weights", weights))
        written.append(write_tensors(_path(order, "outer"), "outer/momentum", outer))
        buffers = vectors.local_buffers()
        if buffers:
            written.append(write_tensors(_path(order, "buffers"), "buffers", buffers))
    if rank == 0 or vectors.sharded:
        written.append(_write_state(order, "optimizer", vectors, rank, ranks, tensors, document))
        if state.kept:
            written.append(_write_state(order, "kept", vectors, rank, ranks, *state.kept_written()))
    return written


def _write_state(order, stem, vectors, rank, ranks, tensors, document):
    stem = _stem_of_rank(stem, vectors, rank, ranks)
    return write_tensors(_path(order, stem), f"inner/{stem}", tensors.items(), document)


def read_checkpoint(order, vectors, state, rank=0, ranks=1):
    if rank == 0:
        _read_averaged(order, vectors)
    _read_state(_path(order, _stem_of_rank("optimizer", vectors, rank, ranks)), state.read_optimizers,
                "the optimizer starts without state")  # where another number of ranks wrote it
    if state.kept:
        _read_state(_path(order, _stem_of_rank("kept", vectors, rank, ranks)), state.read_kept,
                    f"{', '.join(state.kept)} of run.keep() begin anew")
    place = _path(order, "buffers")
    if os.path.exists(place):
        vectors.take_buffers(read_tensors(place)[0])


def _read_state(place, read, otherwise):
    if os.path.exists(place):
        read(*read_tensors(place))
    else:
        print(f"info: {os.path.basename(place)} is not in the checkpoint: {otherwise}", flush=True)


def _read_averaged(order, vectors):
    wanted = dict(vectors.shapes())
    model = _named_as(wanted, read_tensors(_path(order, "model"))[0])
    wrong = _difference(model, wanted)
    if wrong:
        raise Error("the checkpoint is of another model: " + shown(wrong))
    for name, values in vectors.split(view_of(order.values, order.value_count)):
        values.copy_(model[name])
    outer, _ = read_tensors(_path(order, "outer"))
    view_of(order.momentum, order.momentum_count).copy_(outer["outer_momentum"])


def read_parameters(folder, vectors):
    """Those of a checkpoint of the same model, whatever its cut was, as one flat vector. Its buffers go
    to the model."""
    wanted, (stored, buffers) = dict(vectors.shapes()), _tensors_of(folder)
    stored = _named_as(wanted, stored)
    if vectors.is_part:
        stored = {name: values for name, values in stored.items() if name in wanted}
    wrong = _difference(stored, wanted)
    if wrong:
        raise Error("model.init: the checkpoint is of another model: " + shown(wrong))
    flat = torch.empty(sum(math.prod(shape) for shape in wanted.values()))
    for name, values in vectors.split(flat):
        values.copy_(stored[name])
    vectors.take_buffers(buffers)
    return flat


def write_index(folder, stages):
    """`stages`: of each one [(name, values)]. What is reported of the file."""
    places = {name: _name("model", stage, len(stages))
              for stage, tensors in enumerate(stages) for name, _ in tensors}
    total = 4 * sum(count for tensors in stages for _, count in tensors)
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=2)
    return _write(os.path.join(folder, _INDEX), "description", [text.encode()])


def load_checkpoint(folder, model=None):
    """The parameters and buffers of a checkpoint by their names in the model, those of all stages. They
    are also loaded into `model`, a module or the list that was registered, if one is given; each must be
    there."""
    parameters, buffers = _tensors_of(folder)
    tensors = {**buffers, **parameters}
    if model is not None:
        _load_into(model, tensors, folder)
    return tensors


@torch.no_grad()
def _load_into(model, tensors, folder):
    own = {**{name: module._buffers[key] for name, module, key in names.buffers(model)},
           **dict(names.parameters(model))}
    tensors = _named_as(own, tensors)
    if not any(name in own for name in tensors):
        raise Error(f"{folder}: no tensor of the checkpoint is in the model: it has {', '.join(list(tensors)[:3])} "
                    f"..., and the model {', '.join(list(own)[:3])} ... (load it into the model that was registered)")
    wrong = _difference(tensors, {name: list(values.shape) for name, values in own.items() if name in tensors})
    if wrong:
        raise Error(f"{folder}: the checkpoint is of another model: {shown(wrong)}")
    for name, values in tensors.items():
        own[name].copy_(values)


def _tensors_of(folder):
    """Parameters, and buffers."""
    tensors, buffers, places = {}, {}, {}
    index = os.path.join(folder, _INDEX)
    if os.path.exists(index):
        with open(index) as file:
            places = json.load(file)["weight_map"]
    for name in sorted({os.path.basename(name) for name in places.values()}) or _shards_in(folder):
        tensors.update(read_tensors(os.path.join(folder, name))[0])
        of_buffers = os.path.join(folder, name.replace("model", "buffers", 1))
        if name.startswith("model") and os.path.exists(of_buffers):
            buffers.update(read_tensors(of_buffers)[0])
    missing = [name for name in places if name not in tensors]
    if missing:
        raise Error(f"{folder}: {missing[0]} is missing (take another copy)")
    return tensors, buffers


def _shards_in(folder):
    """Of a checkpoint without an index: whoever wrote stage 0 had not seen the other stages."""
    first = sorted(n for n in os.listdir(folder) if n.startswith("model-00001-of-"))
    if not first:
        return ["model.safetensors"]
    stages = int(first[0][len("model-00001-of-"):].split(".")[0])
    return [_name("model", stage, stages) for stage in range(stages)]
