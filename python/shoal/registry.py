"""What a program has registered with replica.diloco(): its models and optimizers. They are checked when
they are registered, and compared at each boundary: a parameter that is not averaged but trained would
make each replica another model, and no digest would show it.
"""

import functools
import types

import torch

from shoal import names
from shoal._library import Error

_SHOWN = 10


def shown(lines):
    return "; ".join(lines[:_SHOWN]) + (f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else "")


def _kind(given):
    return type(given).__name__


def checked_models(given):
    """The module, or the list of modules."""
    if isinstance(given, torch.nn.Module):
        return given
    if isinstance(given, torch.optim.Optimizer):
        raise Error("replica.diloco(model, optimizer): the model comes first, and an optimizer was given for it")
    if not isinstance(given, (list, tuple)) or not given:
        raise Error(f"replica.diloco(model, optimizer): the model is {_kind(given)}, and must be a "
                    "torch.nn.Module or a list of them")
    for number, model in enumerate(given):
        if not isinstance(model, torch.nn.Module):
            raise Error(f"replica.diloco(model, optimizer): model {number} of the list is {_kind(model)}, and must "
                        "be a torch.nn.Module")
    return list(given)


def _check_optimizer(one):
    lacks = [name for name in ("param_groups", "step", "state_dict", "load_state_dict") if not hasattr(one, name)]
    if lacks:
        remedy = " (give its optimizer)" if hasattr(one, "optimizer") else ""
        raise Error(f"replica.diloco(model, optimizer): {_kind(one)} is no optimizer, because it has no "
                    f"{lacks[0]}{remedy}")


def checked_optimizers(given):
    """A list."""
    optimizers = list(given) if isinstance(given, (list, tuple)) else [given]
    if not optimizers:
        raise Error("replica.diloco(model, optimizer): the list of optimizers is empty")
    for one in optimizers:
        _check_optimizer(one)
    return optimizers


def _is_plain_mean(sync):
    outer = sync.get("outer", {})
    plain = outer.get("lr") == 1 and outer.get("momentum") == 0
    return sync.get("algorithm") == "local_sgd" or (plain and outer.get("method", "nesterov") in ("nesterov", "sgd"))


def check_buffers(buffers, job):
    if buffers not in ("local", "mean"):
        raise Error(f"replica.diloco(..., buffers={buffers!r}): choose \"local\" or \"mean\"")
    if buffers == "mean" and not _is_plain_mean(job.get("sync", {})):
        raise Error("replica.diloco(..., buffers=\"mean\"): the job's outer step would go beyond the mean of "
                    "statistics (set sync.algorithm = \"local_sgd\", or sync.outer.lr = 1 with sync.outer.momentum = 0, or leave "
                    "buffers local)")


def check_hook(after_average):
    if after_average is not None and not callable(after_average):
        raise Error(f"replica.diloco(..., after_average={_kind(after_average)}): a function without arguments is "
                    "wanted")


def check_parameter(name, parameter):
    """That it can be averaged."""
    def refuse(why):
        raise Error(f"the parameter {name} {why}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise Error(f"the parameter {ascii(name)} has a name that is not UTF-8: rename it") from None
    if torch.nn.parameter.is_lazy(parameter):
        refuse("is not initialized: run a batch through the model before replica.diloco()")
    if parameter.is_meta:
        refuse("is on the meta device, without values: load them, or call model.to_empty(device=...) and "
               "initialize it, before replica.diloco()")
    if parameter.is_sparse or not parameter.is_floating_point():
        refuse(f"is {parameter.dtype}, {parameter.layout}: only dense floating-point parameters can be averaged "
               "(freeze it)")
    if parameter.numel() == 0:
        refuse(f"has no elements, its shape is {list(parameter.shape)}: freeze it with requires_grad_(False)")


def count_steps(optimizer, stepped):
    """Calls `stepped` after each of its steps."""
    step = optimizer.step

    @functools.wraps(step)
    def counted(_, *arguments, **keywords):
        result = step(*arguments, **keywords)
        stepped()
        return result

    optimizer.step = types.MethodType(counted, optimizer)  # a method: schedules look for its __self__


class Registry:
    """`models`: a module or a list; `names_`: of its parameters in a whole model, by their id(). With
    `copies` the optimizers may have parameters that are no model's."""

    def __init__(self, models, optimizers, names_=None, copies=False):
        self._models, self._optimizers, self._names, self._copies = models, optimizers, names_, copies
        self._known = {name: (parameter, parameter.requires_grad, list(parameter.shape))
                       for name, parameter in self._parameters()}
        wrong = self._strangers()
        if wrong:
            raise Error(f"{shown(wrong)}: it would train apart on each replica (register its model, too: "
                        "replica.diloco([model, other], optimizer))")
        self._look_for_untrained()

    def _parameters(self):
        found = names.parameters(self._models)
        return [(self._names.get(id(p), n), p) for n, p in found] if self._names else found

    def names_by_id(self):
        return {id(parameter): name for name, (parameter, _, _) in self._known.items()}

    def _in_optimizers(self):
        for number, optimizer in enumerate(self._optimizers):
            of = f" {number}" if len(self._optimizers) > 1 else ""
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    yield of, parameter

    def _strangers(self):
        if self._copies:
            return []
        known = {id(parameter) for parameter, _, _ in self._known.values()}
        return [f"optimizer{of} has a tensor of shape {list(parameter.shape)} that is no parameter of the model"
                for of, parameter in self._in_optimizers() if id(parameter) not in known]

    def _look_for_untrained(self):
        trained = {id(parameter) for _, parameter in self._in_optimizers()}
        alone = [name for name, (parameter, trains, _) in self._known.items()
                 if trains and id(parameter) not in trained]
        if alone and not self._copies:
            print(f"warning: no optimizer has {', '.join(alone[:3])}{' ...' if len(alone) > 3 else ''}: "
                  f"{len(alone)} of {len(self._known)} parameters are averaged and not trained", flush=True)

    def _changes(self):
        now = dict(self._parameters())
        for name, (parameter, trained, shape) in self._known.items():
            other = now.get(name)
            if other is None:
                yield f"{name} is no parameter of the model any more"
            elif other is not parameter:
                yield f"{name} is another tensor"
            elif other.requires_grad != trained:
                yield f"{name} {'requires gradients no longer' if trained else 'requires gradients now'}"
            elif list(other.shape) != shape:
                yield f"{name} has shape {list(other.shape)} in place of {shape}"
        yield from (f"{name} is new" for name in now if name not in self._known)
        yield from self._strangers()

    def check(self):
        changes = list(self._changes())
        if changes:
            raise Error("the model or its optimizer is not the one that was registered, so replicas would train "
                        f"apart: {shown(changes)} (change models before replica.diloco())")
