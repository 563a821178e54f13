"""How a model becomes stages: by hand, or a flat torch.nn.Sequential by what its modules do.

Every replica must find the same cut, and no clock tells two hosts the same. So work is counted, not
timed: the multiply-adds of matrix products and convolutions and the values of everything else in
one forward pass, which is the time of a module up to a factor of the device.
"""

import random

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from shoal import effects
from shoal import names as naming
from shoal._library import Error

_STATE_BYTES = 16  # per trained parameter: it, its gradient, two moments
_SPARE = 1.25      # so much may a model be larger than the job describes it


def _matmul(a, b):
    return 2 * a.numel() * b.shape[-1]


def _attention(q, k):
    return 4 * q.numel() * k.shape[-2]


def _flops(name, arguments, result):
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    if name in ("mm", "bmm"):
        return _matmul(*tensors[:2])
    if name in ("addmm", "baddbmm"):
        return _matmul(*tensors[1:3])
    if "convolution" in name:
        weight = tensors[1]
        return 2 * result.numel() * weight[0].numel()
    if "scaled_dot_product" in name:
        return _attention(*tensors[:2])
    return 0


class _Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.work = self.values = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        if isinstance(first, torch.Tensor):
            name = function.__name__.split(".")[0].strip("_")
            self.values += first.numel()
            self.work += first.numel() + _flops(name, arguments, first)
        return result


def _bytes_of(module, values, seen):
    """Of parameters that no earlier module has, and of what a forward pass computes."""
    bytes_ = 4 * values
    for parameter in module.parameters():
        if id(parameter) not in seen:
            seen.add(id(parameter))
            bytes_ += (_STATE_BYTES if parameter.requires_grad else 4) * parameter.numel()
    return bytes_


def _measured(model, example):
    """Of each module: its work, its bytes, the shape of its output. Gradients are on, so that no
    module takes a way of its own for inference."""
    measured, seen, x = [], set(), example
    for module in model:
        with torch.enable_grad(), _Counter() as counter:
            x = module(x)
        x = x.detach() if isinstance(x, torch.Tensor) else x
        shape = tuple(x.shape) if isinstance(x, torch.Tensor) else None
        measured.append((counter.work, _bytes_of(module, counter.values, seen), shape))
    return measured


def _cheapest(shares, allowed, stages):
    """Where stages 1, 2, ... begin, so that the largest share of work or bytes is smallest; earlier
    cuts among equal ones. None: they cannot be."""
    count = len(shares)
    sums = [(0.0, 0.0)]
    for work, bytes_ in shares:
        sums.append((sums[-1][0] + work, sums[-1][1] + bytes_))
    best = {(0, 0): (0.0, ())}  # (stages, modules in them): largest share, cuts
    for stage in range(1, stages + 1):
        for end in range(stage, count + 1):
            for begin in range(stage - 1, end):
                before = best.get((stage - 1, begin))
                if before is None or (begin > 0 and begin not in allowed):
                    continue
                share = max(b - a for a, b in zip(sums[begin], sums[end]))
                cuts = before[1] + ((begin,) if begin else ())
                found = (max(before[0], share), cuts)
                if (stage, end) not in best or found < best[stage, end]:
                    best[stage, end] = found
    found = best.get((stages, count))
    return found and list(found[1])


def cut_sequential(model, stages, example, hidden):
    """Where stages 1, 2, ... of a flat Sequential begin. `example`: a batch of one input; `hidden`:
    what a stage may give is [1, ..., hidden]."""
    with effects.random_state_kept(), effects.evaluating([model]):
        measured = _measured(model, example)
    allowed = {i + 1 for i, (_, _, shape) in enumerate(measured[:-1])
               if shape is not None and len(shape) == 3 and shape[-1] == hidden}
    total = [max(1, sum(column)) for column in zip(*[m[:2] for m in measured])]
    shares = [(work / total[0], bytes_ / total[1]) for work, bytes_, _ in measured]
    cuts = _cheapest(shares, allowed, stages)
    if cuts is None:
        raise Error(f"the Sequential has {len(measured)} modules and cannot be cut into {stages} "
                    f"stages: behind {len(allowed)} of them is a tensor of [1, model.context, "
                    f"model.hidden = {hidden}] (correct model.hidden, or cut it by hand)")
    return cuts


def _check_count(stages, count):
    if len(stages) != count:
        raise Error(f"the program gives {len(stages)} stages, and the job has {count} (set "
                    f"swarm.stages = {len(stages)})")


def are_factories(given):
    """Whether stages are functions that make them."""
    return (isinstance(given, (list, tuple)) and len(given) > 0 and
            not any(isinstance(one, torch.nn.Module) for one in given))


def made_stage(factories, count, number, seed):
    """The module of one stage, alone. Each stage draws other random numbers, those of one stage
    are the same on every replica."""
    _check_count(factories, count)
    drawn = random.Random(f"{seed}/{number}").getrandbits(63)
    random.seed(drawn)
    torch.manual_seed(drawn)
    effects.seed_numpy(drawn)
    stage = factories[number]()
    if not isinstance(stage, torch.nn.Module):
        raise Error(f"stages[{number}]() gives {type(stage).__name__}, not a torch.nn.Module")
    return stage


def stages_of(given, count, example, hidden):
    """A list of `count` modules."""
    if isinstance(given, torch.nn.Sequential):
        if example is None:
            raise Error("a flat Sequential is cut by what its modules do with `example`, a batch of "
                        "one input: replica.pipeline(..., example=x); or give a list of stages")
        cuts = [0, *cut_sequential(given, count, example, hidden), len(given)]
        modules = list(given)
        return [torch.nn.Sequential(*modules[a:b]) for a, b in zip(cuts, cuts[1:])]
    stages = list(given)
    _check_count(stages, count)
    return stages


def names_of(stages, model):
    """The names of all parameters in the whole model, by their id()."""
    names = {id(p): n for n, p in naming.parameters(model)}
    owner = {}
    for number, stage in enumerate(stages):
        for own, parameter in naming.parameters(stage):
            if id(parameter) not in names:
                raise Error(f"the parameter {own} of stage {number} is none of the given model's")
            before = owner.setdefault(id(parameter), number)
            if before != number:
                raise Error(f"the parameter {names[id(parameter)]} is of stage {before} and of stage "
                            f"{number} (there {own}): no replica holds both, so weights cannot be "
                            "tied across stages (give one of them a parameter of its own)")
    return names


def check_size(stages, described):
    """The planner knows a stage's memory and time by what the job says of the model. `stages`: all,
    or the one that was made."""
    real = sum(p.numel() for p in {id(p): p for s in stages for p in s.parameters()}.values())
    if real > _SPARE * described:
        what = "model" if len(stages) > 1 else "stage"
        raise Error(f"the program's {what} has {real:,} parameters, and [model] of the job describes "
                    f"{described:,}: stages are placed by it, so set its layers, hidden, ffn, heads "
                    "and vocab to the program's, or to a model of about its size")
