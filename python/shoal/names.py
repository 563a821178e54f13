"""The names of parameters and buffers as they are in the user's own model: what wraps a module, such as
torch.compile or DistributedDataParallel, adds nothing to them.
"""

import torch

_WRAPPED = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}  # of any wrapper
_WRAPPERS = {"DataParallel", "DistributedDataParallel"}  # their model is `module`


def _modules(model):
    """(plain prefix, module) of each, in PyTorch's order."""
    known = {}  # by the prefix that PyTorch gives
    for path, module in model.named_modules():
        above, _, child = path.rpartition(".")
        prefix, parent = known.get(above, (f"{above}.", None)) if path else ("", None)
        wrapped = child in _WRAPPED or (child == "module" and type(parent).__name__ in _WRAPPERS)
        known[path] = (prefix if wrapped or not path else f"{prefix}{child}.", module)
        yield known[path]


def models_of(given):
    """[(prefix, module)]: a module, or each of a list under its number."""
    if isinstance(given, torch.nn.Module):
        return [("", given)]
    return [(f"{number}.", model) for number, model in enumerate(given)]


def _named(given, members_of):
    seen = set()
    for start, model in models_of(given):
        for prefix, module in _modules(model):
            for name, member in members_of(module):
                if id(member) not in seen:  # tied: under its first name
                    seen.add(id(member))
                    yield start + prefix + name, member


def parameters(given):
    """(name, parameter) of a module or a list of them, each once."""
    return list(_named(given, lambda module: module.named_parameters(recurse=False)))


def buffers(given):
    """(name, module, key in the module) of the buffers that state_dict() has, each once. A module may
    put another tensor in the place of a buffer at any time."""
    seen = set()
    for start, model in models_of(given):
        for prefix, module in _modules(model):
            for key, buffer in module.named_buffers(recurse=False):
                if key not in module._non_persistent_buffers_set and id(buffer) not in seen:
                    seen.add(id(buffer))
                    yield start + prefix + key, module, key


def plain(name, wanted):
    """The name of a stored tensor among those of the model: versions before 0.2 stored wrappers, too."""
    parts = name.split(".")
    for drop in (_WRAPPED, _WRAPPED | {"module"}):
        shorter = ".".join(part for part in parts if part not in drop)
        if name not in wanted and shorter in wanted:
            return shorter
    return name
