"""What a program adds to a checkpoint and takes from it, and the tensors of a finished one.

The library writes the averaged parameters and the vectors of the outer optimizer, and names all files
(docs/checkpoints.md). A program gives it objects, each of tensors and a JSON document:

    inner/optimizer   state of the inner optimizers of the replica that wrote it; where several ranks hold it
                      in shards, one for each: inner/optimizer-1-of-2
    object/NAME       what the program keeps there with run.keep(), likewise
    file/NAME         what the program keeps there with run.keep_file()
    buffers           the buffers that are not averaged, of the replica that wrote it

Stage 0 of a pipeline writes model.safetensors.index.json besides, which says where each parameter is,
unless the stages are built one by one.

Nothing in them is code: a checkpoint of another host can be read without trust.
"""

import json
import math
import os
import struct

import torch

from shoal import _library, names
from shoal._library import Error
from shoal.registry import shown
from shoal.state import is_finite
from shoal.trees import TYPES, bytes_of, on_host

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


def write_object(place, role, tensors, document=None):
    """Writes [(name, tensor)] with a JSON document, or either alone; what is reported of the file."""
    tensors = [(name, on_host(tensor)) for name, tensor in tensors]
    return _library.write_object(place, role, [
        (name, TYPES[tensor.dtype], list(tensor.shape), tensor.data_ptr(), tensor.numel() * tensor.element_size())
        for name, tensor in tensors], document)


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


def _of_rank(vectors, rank, ranks):
    """What follows the names of objects that each rank has of its own."""
    return f"-{rank + 1}-of-{ranks}" if vectors.sharded else ""


def write_checkpoint(order, vectors, state, rank=0, ranks=1):
    """What is reported of the files that this rank wrote. What is whole is rank 0's to write."""
    place, written = (order.text, order.index, order.count), []
    tensors, document = state.optimizers_written()
    _refuse_nonfinite(tensors.items(), "optimizer's state")
    if rank == 0:
        buffers = vectors.local_buffers()
        if buffers:
            written.append(write_object(place, "buffers", buffers))
        written += state.files_written(place)
    if rank == 0 or vectors.sharded:
        mine = _of_rank(vectors, rank, ranks)
        written.append(write_object(place, f"inner/optimizer{mine}", tensors.items(), document))
        for name, (tensors, document) in state.kept_written().items():
            written.append(write_object(place, f"object/{name}{mine}", tensors.items(), document))
    return written


def _read_object(path):
    """The tensors by name, and the JSON document among other metadata."""
    if not path.endswith(".json"):
        return read_tensors(path)
    with open(path, encoding="utf-8") as file:
        return {}, {"state": file.read()}


def _kept_in(paths, mine):
    """{name: (tree, tensors)} of what this rank keeps. Earlier builds wrote all of it to one file."""
    kept = {}
    if f"inner/kept{mine}" in paths:
        tensors, metadata = read_tensors(paths[f"inner/kept{mine}"])
        kept = {name: (tree, tensors) for name, tree in json.loads(metadata["state"]).items()}
    for role, path in paths.items():
        if role.startswith("object/") and role.endswith(mine):
            tensors, metadata = _read_object(path)
            name = role[len("object/"):len(role) - len(mine)]
            kept[name] = (json.loads(metadata["state"]), tensors)
    return kept


def read_checkpoint(order, listed, vectors, state, rank=0, ranks=1):
    """`listed`: [(name, role)] of the files of the stage."""
    folder, mine = order.text.decode(), _of_rank(vectors, rank, ranks)
    paths = {role: os.path.join(folder, name) for name, role in listed}
    optimizer = paths.get(f"inner/optimizer{mine}")  # another number of ranks may have written it
    if optimizer is None:
        print("info: the checkpoint has no state of the optimizer for this rank: it starts without", flush=True)
    else:
        state.read_optimizers(*_read_object(optimizer))
    state.read_kept(_kept_in(paths, mine))
    if "buffers" in paths:
        vectors.take_buffers(read_tensors(paths["buffers"])[0])
    if rank == 0:
        state.read_files({role[len("file/"):]: path for role, path in paths.items() if role.startswith("file/")})


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
    return _library.write_description(os.fsencode(folder), _INDEX, text)


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
