"""The training of one stage of a model, as the program's own loop sees it."""

import functools
import math
import time

import torch
from torch.utils.data import default_collate

from shoal import _library, cut, data, files
from shoal._library import Error
from shoal.run import NO_LOSS, Work, moved
from shoal.stage import Stage
from shoal.vectors import Vectors, view_of


def _pair(batch):
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise Error("the items of a pipeline's dataset are pairs: an input for stage 0 and a target "
                    "for the last one")
    return batch


class Pipeline(Work):
    """Made by Replica.pipeline(). `stage`: the module of this replica, on its device; `optimizer`:
    what optimizer_of made for it; `step_number`: the inner step that is being taken."""

    def __init__(self, replica, stages, optimizer_of, loss_of, model, example):
        if replica.stages < 2:
            raise Error("the job has one stage: set swarm.stages, or call replica.diloco()")
        if replica.ranks > 1:
            raise Error("a stage of a pipeline is one process: start the program without torchrun")
        self._replica = replica
        job, device = replica.job, replica.device
        hidden = job["model"]["hidden"]
        if cut.are_factories(stages):
            stage, names = self._made(stages, model)
        else:
            stage, names = self._chosen(stages, model, example, hidden)
        self.stage = stage.to(device)
        self.optimizer = self._counted(optimizer_of(self.stage))
        super().__init__(replica, Vectors(self.stage, names), self.optimizer)
        shape = (job["train"]["microbatch"], job["model"]["context"], hidden)
        self._compute = Stage(self.stage, replica.stage, shape, device, loss_of,
                              job["swarm"]["recompute"] == "recompute")
        self._dataset = self._held_out = None

    def _chosen(self, stages, model, example, hidden):
        """The replica's one of the whole model's stages, and the names of its parameters."""
        replica = self._replica
        whole = model or (stages if isinstance(stages, torch.nn.Sequential) else
                          torch.nn.Sequential(*stages))
        stages = cut.stages_of(stages, replica.stages, example, hidden)
        names = cut.names_of(stages, whole)
        cut.check_size(stages, replica.described_parameters)
        self._tensors = [self._trained(stage, names) for stage in stages]
        return stages[replica.stage], names

    def _made(self, factories, model):
        """The replica's stage, which alone is built. What the others have, nobody here knows."""
        if model is not None:
            raise Error("model=: the stages are functions, of which each replica calls one, so there "
                        "is no whole model to name parameters after (leave it out)")
        replica = self._replica
        number, seed = replica.stage, replica.job["train"]["seed"]
        stage = cut.made_stage(factories, replica.stages, number, seed)
        cut.check_size([stage], replica.described_parameters)
        self._tensors = None
        return stage, {id(p): f"{number}.{name}" for name, p in stage.named_parameters()}

    # ---- the program's side

    def evaluate(self, dataset):
        """The held-out items. Called before steps()."""
        data.check_dataset(dataset)
        self._held_out = dataset

    def steps(self, dataset, collate=None):
        """The numbers of the inner steps, until the job ends. At each, the gradients of `stage` are
        means over the step's tokens: clip them, and call optimizer.step(). The library clears
        them. Items of the dataset are pairs, an input and a target."""
        if self._held_out is None:
            raise Error("run.evaluate(dataset) was not called: all stages take part in an "
                        "evaluation")
        data.check_dataset(dataset)
        self._dataset, self._collate = dataset, collate or default_collate
        self._replica.link.answer_model(self._vectors.tensors(), self._digest())
        while True:
            order = self._next(_library.STEP)
            if order is None:
                return
            yield from self._one_step(order)

    # ---- orders

    @staticmethod
    def _trained(stage, names):
        return [(names[id(p)], p.numel()) for p in stage.parameters() if p.requires_grad]

    def _digest(self):
        """Of the data and the cut: replicas that cut otherwise may not train together."""
        digest = data.digest_of(self._dataset)
        cut_ = self._tensors if self._tensors is not None else self._replica.stages
        digest.add(repr(cut_).encode())
        return digest

    def _one_step(self, order):
        self.step_number = order.step
        norm = self._compute.scale_gradients(order.count)
        if math.isfinite(norm):
            before, self._in_step = self._steps_taken, True
            yield order.step
            self._in_step = False
            if self._steps_taken == before:
                raise Error("run.optimizer.step() was not called for the last step: call it once in "
                            "each turn of the loop over run.steps()")
        self._compute.clear_gradients()
        lr = float(self.optimizer.param_groups[0]["lr"])
        self._replica.link.answer_stage_step(norm, lr)

    def _counted(self, optimizer):
        """Knows whether the program calls its step()."""
        step, self._steps_taken = optimizer.step, 0

        @functools.wraps(step)
        def counted(*arguments, **keywords):
            self._steps_taken += 1
            return step(*arguments, **keywords)

        optimizer.step = counted
        return optimizer

    def _perform(self, order):
        begun = time.perf_counter()
        if order.kind == _library.FORWARD:
            self._forward(order)
        elif order.kind == _library.BACKWARD:
            self._backward(order)
        elif order.kind == _library.LOSS:
            return self._replica.link.answer_loss(self._loss(order, begun))
        elif order.kind == _library.FORGET:
            self._compute.forget(order.index)
        elif order.kind == _library.BEGIN:
            self._compute.begin_anew()
        else:
            return super()._perform(order)
        self._slow_down(begun)
        return self._replica.link.answer()

    def _write_checkpoint(self, order):
        written = super()._write_checkpoint(order)
        if self._replica.stage == 0 and self._tensors is not None:
            written.append(files.write_index(order.text.decode(), self._tensors))
        return written

    def _microbatch(self, order):
        """Input and target of the order's items."""
        first, count = order.first_sequence, order.sequences
        if order.flags & _library.TRAINS:
            self.epoch = first // len(self._dataset)
            seed = self._replica.job["train"]["seed"]
            return _pair(data.training_batch(self._dataset, first, range(count), seed,
                                             self._collate))
        return _pair(data.held_out_microbatch(self._held_out, first, count, order.count,
                                              self._collate))

    def _input(self, order, train):
        if self._replica.stage == 0:
            return moved(self._microbatch(order)[0], self._replica.device)
        return self._compute.received(view_of(order.values, order.value_count), train)

    def _forward(self, order):
        train = bool(order.flags & _library.TRAINS)
        output = self._compute.forward(order.index, self._input(order, train), train)
        self._give(order, output)

    def _backward(self, order):
        gradient = view_of(order.values, order.value_count)
        given = self._compute.backward(order.index, gradient, bool(order.flags & _library.ADD))
        if self._replica.stage > 0:
            self._give(order, given)

    def _loss(self, order, begun):
        train = bool(order.flags & _library.TRAINS)
        if not train and (order.first_sequence + order.sequences >
                          data.held_out_items(self._held_out, order.count)):
            return NO_LOSS
        target = moved(self._microbatch(order)[1], self._replica.device)
        x = self._input(order, train)
        mean, gradient = self._compute.loss(x, target, train, bool(order.flags & _library.ADD))
        if train:
            self._give(order, gradient)
        self._slow_down(begun)
        return mean

    @staticmethod
    def _give(order, tensor):
        """None: the stage does not use its input."""
        out = view_of(order.output, order.output_count)
        out.zero_() if tensor is None else out.copy_(tensor.detach().reshape(-1))
