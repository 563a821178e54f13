"""One stage of a pipeline in PyTorch: forward and backward of its microbatches, whose activations it
keeps in between. Gradients of its parameters are sums over tokens until scale_gradients(). It
knows nothing of orders.
"""

import torch
from torch.utils.checkpoint import checkpoint

from shoal import effects
from shoal._library import Error


def _working_dtype(module):
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return parameter.dtype
    return torch.float32


class Stage:
    """`module`: of this stage, on `device`; `number`: which it is. `shape`: of what a microbatch
    is between stages: (sequences, context, hidden). `loss_of(output, target)`: of the last one."""

    def __init__(self, module, number, shape, device, loss_of=None, recompute=False):
        self.module, self._number, self._shape, self._device = module, number, shape, device
        self._loss_of, self._recompute = loss_of, recompute
        self._dtype = _working_dtype(module)
        if not module.training:  # as from_pretrained() gives it; else each module keeps its own mode
            module.train()
        self._kept = {}  # by number: input and output with its graph

    @property
    def tokens(self):
        """Of one microbatch."""
        return self._shape[0] * self._shape[1]

    def received(self, values, with_gradient):
        """What the stage before computed, as the module takes it."""
        x = values.view(self._shape).to(self._device, self._dtype, copy=True)
        return x.requires_grad_(with_gradient)

    def _computed(self, x, train, seed):
        """`seed`: words of what the pass draws, also when it is computed again; None: as it comes."""
        def drawn(x):
            if seed is not None:
                effects.seed(*seed)
            return self.module(x)

        if not train:
            with torch.no_grad(), effects.evaluating([self.module]):
                return drawn(x)
        if self._recompute:
            return checkpoint(drawn, x, use_reentrant=False)
        return drawn(x)

    def forward(self, number, x, train, seed=None):
        """The output; with `train` it is kept under `number`."""
        with torch.set_grad_enabled(train), effects.random_state_kept():
            output = self._computed(x, train, seed)
        if not isinstance(output, torch.Tensor) or tuple(output.shape) != self._shape:
            what = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
            raise Error(f"stage {self._number} gives {what}, and what travels between stages is one "
                        f"tensor of shape {list(self._shape)}: [train.microbatch, model.context, "
                        "model.hidden] (correct them in the job, or reshape in the stage)")
        if train:
            self._kept[number] = x, output
        return output

    def backward(self, number, gradient, add):
        """The gradient of the input of what was computed as `number`; None on stage 0. `add`: also
        to those of the parameters."""
        x, output = self._kept.pop(number)
        gradient = gradient.view(output.shape).to(output.device, output.dtype, copy=True)
        return self._input_gradient(output, gradient, x, add)

    def loss(self, x, target, train, add, seed=None):
        """The mean loss of a microbatch and the gradient of its input, that of the loss summed over
        tokens; None without `train`."""
        with torch.set_grad_enabled(train), effects.random_state_kept():
            mean = self._loss_of(self._computed(x, train, seed), target)
        if mean.numel() != 1:
            raise Error(f"loss_of gives {list(mean.shape)}, not one mean loss")
        if not train:
            return float(mean), None
        gradient = self._input_gradient(mean, torch.full_like(mean, self.tokens), x, add)
        return float(mean.detach()), gradient

    def _input_gradient(self, output, gradient, x, add):
        if add:
            torch.autograd.backward([output], [gradient])
            return x.grad
        if not x.requires_grad:
            return None
        return torch.autograd.grad(output, x, gradient)[0]

    def forget(self, number):
        self._kept.pop(number, None)

    def begin_anew(self):
        """Nothing that was kept is needed, nor are the gradients."""
        self._kept.clear()
        self.clear_gradients()

    @torch.no_grad()
    def scale_gradients(self, tokens):
        """Makes means of sums over tokens; their norm."""
        squares = 0.0
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(tokens)
                squares += float(parameter.grad.float().square().sum())
        return squares**0.5

    def clear_gradients(self):
        for parameter in self.module.parameters():
            parameter.grad = None
