"""Numbers, texts, tensors and containers of them as JSON and a list of tensors, which safetensors holds:
what state_dict() of an optimizer, schedule or scaler gives. Nothing in them is code.

A tensor of a type that safetensors lacks is stored as its bytes.
"""

import base64
import collections
import ctypes
import sys

import torch

from shoal import shards

# As the safetensors format calls them.
TYPES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}
_MAPPINGS = {"dict": dict, "OrderedDict": collections.OrderedDict, "Counter": collections.Counter}
_DEPTH_MAX = 50
_SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class Unstorable(Exception):
    """`place` of the value that cannot be stored, and why."""

    def __init__(self, place, why):
        super().__init__(f"{place} is {why}")


def bytes_of(tensor):
    """The memory of a contiguous tensor on the host."""
    count = tensor.numel() * tensor.element_size()
    return (ctypes.c_char * count).from_address(tensor.data_ptr()) if count else b""


def on_host(tensor):
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def _as_bytes(tensor):
    return torch.frombuffer(bytearray(bytes_of(tensor)), dtype=torch.uint8) if tensor.numel() else torch.empty(
        0, dtype=torch.uint8)


def _why_not(tensor):
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) or shards.is_sharded(tensor)
    if tensor.layout != torch.strided or tensor.is_quantized or not plain:
        return f"a tensor of the kind {type(tensor).__name__}, {tensor.layout}, {tensor.dtype}"
    return "a tensor on the meta device" if tensor.is_meta else None


class Writer:
    """Collects the tensors of trees; `probe`: only looks whether they can be stored."""

    def __init__(self, probe=False):
        self.tensors, self._probe = {}, probe

    def tree(self, value, place):
        """JSON of a value, all of it. Raises Unstorable, and has stored nothing then."""
        before = set(self.tensors)
        try:
            return self._tree(value, place, 0)
        except Unstorable:
            self.tensors = {name: tensor for name, tensor in self.tensors.items() if name in before}
            raise

    def _tree(self, value, place, depth):
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if depth > _DEPTH_MAX:
            raise Unstorable(place, "nested too deeply")
        if isinstance(value, torch.Tensor):
            return self._tensor(value, place)
        if isinstance(value, bytes):
            return {"bytes": base64.b64encode(value).decode()}
        if type(value).__name__ in _MAPPINGS and type(value) is _MAPPINGS[type(value).__name__]:
            entries = [[self._key(key, place), self._tree(one, f"{place}.{key}", depth + 1)]
                       for key, one in value.items()]
            return {"entries": entries, "type": type(value).__name__}
        for name, kind in _SEQUENCES.items():
            if type(value) is kind or (kind is tuple and type(value) is torch.Size):
                items = [self._tree(one, f"{place}.{i}", depth + 1) for i, one in enumerate(value)]
                return {"items": items, "type": name}
        return self._of_numpy(value, place)

    def _key(self, key, place):
        parts = key if type(key) is tuple else [key]
        if not all(part is None or isinstance(part, (bool, int, float, str)) for part in parts):
            raise Unstorable(place, f"a dictionary with a key that is a {type(key).__name__}")
        return self._tree(key, place, 0)

    def _of_numpy(self, value, place):
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
            return self._tree(value.item(), place, 0)
        if numpy is None or not isinstance(value, numpy.ndarray) or value.dtype.hasobject or value.dtype.names:
            raise Unstorable(place, f"a {type(value).__name__}")
        flat = bytearray(value.tobytes())
        tensor = torch.frombuffer(flat, dtype=torch.uint8) if flat else torch.empty(0, dtype=torch.uint8)
        return {"array": self._add(tensor, place), "dtype": value.dtype.str, "shape": list(value.shape)}

    def _tensor(self, tensor, place):
        why = _why_not(tensor)
        if why:
            raise Unstorable(place, why)
        sharded = shards.is_sharded(tensor) and tensor.dim() > 0
        tree = {"tensor": place, **({"shard": True} if sharded else {})}
        if self._probe:
            return tree
        tensor = on_host(shards.local_values(tensor))
        if tensor.dtype in TYPES:
            return {**tree, "tensor": self._add(tensor, place)}
        return {**tree, "tensor": self._add(_as_bytes(tensor), place), "dtype": str(tensor.dtype)[len("torch."):],
                "shape": list(tensor.shape)}

    def _add(self, tensor, place):
        name = place.encode(errors="replace").decode()
        while name in self.tensors:
            name += "_"
        self.tensors[name] = tensor
        return name


def _from_bytes(raw, tree):
    dtype = getattr(torch, tree["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"the type {tree['dtype']} is unknown to this PyTorch")
    tensor = torch.empty(tree["shape"], dtype=dtype)
    if tensor.numel() * tensor.element_size() != raw.numel():
        raise ValueError("a tensor has another size than was written")
    if raw.numel():
        ctypes.memmove(tensor.data_ptr(), raw.data_ptr(), raw.numel())
    return tensor


def _array(tree, tensors):
    import numpy  # the program that wrote it had it
    dtype = numpy.dtype(tree["dtype"])
    if dtype.hasobject:
        raise ValueError("an array of objects")
    return numpy.frombuffer(bytes(bytes_of(tensors[tree["array"]])), dtype=dtype).reshape(tree["shape"]).copy()


def value_of(tree, tensors, parameter=None):
    """The value of a tree. `parameter`: whose shards its sharded tensors are."""
    if not isinstance(tree, dict):
        return tree
    if "tensor" in tree:
        tensor = tensors[tree["tensor"]]
        if "dtype" in tree:
            tensor = _from_bytes(tensor, tree)
        return shards.as_shard_of(parameter, tensor) if tree.get("shard") and parameter is not None else tensor
    if "array" in tree:
        return _array(tree, tensors)
    if "bytes" in tree:
        return base64.b64decode(tree["bytes"])
    if "entries" in tree:
        return _MAPPINGS[tree["type"]]({value_of(key, tensors): value_of(one, tensors, parameter)
                                        for key, one in tree["entries"]})
    return _SEQUENCES[tree["type"]](value_of(one, tensors, parameter) for one in tree["items"])


def tensors_in(value):
    """All tensors in a value of containers."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_in(one)
    elif isinstance(value, (list, tuple, set)):
        for one in value:
            yield from tensors_in(one)


def moved_to(value, device):
    """A value of containers with its tensors on a device, in their own types."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return type(value)({key: moved_to(one, device) for key, one in value.items()})
    return type(value)(moved_to(one, device) for one in value) if type(value) in (list, tuple, set) else value
