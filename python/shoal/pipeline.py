"""The training of one stage of a model, as the program's own loop sees it."""

import math
import time

import torch
from torch.utils.data import default_collate

from shoal import _library, cut, data, effects, files
from shoal import names as naming
from shoal._library import Error
from shoal.batch import moved
from shoal.evaluation import NO_LOSS
from shoal.registry import Registry, checked_optimizers
from shoal.run import Work
from shoal.stage import Stage
from shoal.vectors import Vectors, view_of


def _pair(batch):
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise Error("the items of a pipeline's dataset are pairs: an input for stage 0 and a target "
                    "for the last one")
    return batch


def _buffer_names(model, prefix=""):
    return {(id(module), key): prefix + name for name, module, key in naming.buffers(model)}


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
        self.optimizer = optimizer_of(self.stage)
        optimizers = checked_optimizers(self.optimizer)
        super().__init__(replica, Vectors(self.stage, names),
                         Registry(self.stage, optimizers, names), optimizers)
        shape = (job["train"]["microbatch"], job["model"]["context"], hidden)
        self._compute = Stage(self.stage, replica.stage, shape, device, loss_of,
                              job["swarm"]["recompute"] == "recompute")
        self._dataset = self._held_out = None
        self._newest_sequence = 0  # of the microbatches that were computed

    def _chosen(self, stages, model, example, hidden):
        """The replica's one of the whole model's stages, and the names of its parameters."""
        replica = self._replica
        whole = model or (stages if isinstance(stages, torch.nn.Sequential) else
                          torch.nn.Sequential(*stages))
        stages = cut.stages_of(stages, replica.stages, example, hidden)
        names = {**cut.names_of(stages, whole), **_buffer_names(whole)}
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
        names = {id(p): f"{number}.{name}" for name, p in naming.parameters(stage)}
        return stage, {**names, **_buffer_names(stage, f"{number}.")}

    # ---- the program's side

    def evaluate(self, dataset):
        """The held-out items. Called before steps()."""
        data.check_dataset(dataset)
        self._held_out = dataset

    def steps(self, dataset, collate=None, identity=None):
        """The numbers of the inner steps, until the job ends. At each, the gradients of `stage` are
        means over the step's tokens: clip them, and call optimizer.step(). The library clears
        them. Items of the dataset are pairs, an input and a target. `identity`: as of Run.batches().
        After the job has ended there are no steps."""
        if self._replica.over:
            return
        if self._held_out is None:
            raise Error("run.evaluate(dataset) was not called: all stages take part in an "
                        "evaluation")
        self._dataset, self._collate = dataset, collate or default_collate
        self._begin(dataset, identity)
        while True:
            order = self._next(_library.STEP)
            if order is None:
                return
            yield from self._one_step(order)

    # ---- orders

    @staticmethod
    def _trained(stage, names):
        return [(names[id(p)], p.numel()) for p in stage.parameters() if p.requires_grad]

    def _digest(self, dataset, identity):
        """Of the data and the cut: replicas that cut otherwise may not train together."""
        digest = super()._digest(dataset, identity)
        cut_ = self._tensors if self._tensors is not None else self._replica.stages
        digest.add(repr(cut_).encode())
        return digest

    def _one_step(self, order):
        self.step_number = order.step
        effects.seed(*self._seed("step", order.step, self._newest_sequence))
        norm = self._compute.scale_gradients(order.count)
        self._begins_step(order.step)
        if math.isfinite(norm):
            before, self._in_step = self._steps_taken, True
            yield order.step
            self._in_step = False
            if self._steps_taken == before:
                raise Error("run.optimizer.step() was not called for the last step: call it once in "
                            "each turn of the loop over run.steps()")
            self._ends_step()
        self._compute.clear_gradients()
        self._replica.link.answer_stage_step(norm, self._rate())

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

    def _seed(self, kind, step, sequence):
        """Of what this stage draws; a pass that is repeated, also elsewhere, draws the same."""
        seed = self._replica.job["train"]["seed"]
        return seed, kind, step, sequence, self._replica.stage

    def _microbatch(self, order, rows):
        """Input and target of the order's items; of held-out ones so many `rows`. The first stage and
        the last one draw the same while they read."""
        first, count = order.first_sequence, order.sequences
        seed = self._replica.job["train"]["seed"]
        with effects.random_state_kept():
            effects.seed(seed, "read", order.step, first)
            if order.flags & _library.TRAINS:
                self.epoch = first // self._length
                return _pair(data.training_batch(self._dataset, self._length, first, range(count),
                                                 seed, self._collate))
            return _pair(data.held_out_microbatch(self._held_out, first, rows, order.count,
                                                  self._collate))

    def _input(self, order, train):
        if self._replica.stage == 0:
            return moved(self._microbatch(order, order.sequences)[0], self._replica.device)
        return self._compute.received(view_of(order.values, order.value_count), train)

    def _pass_seed(self, order, train):
        if train:
            self._newest_sequence = order.first_sequence
        return self._seed("pass" if train else "evaluation", order.step, order.first_sequence)

    def _forward(self, order):
        train = bool(order.flags & _library.TRAINS)
        output = self._compute.forward(order.index, self._input(order, train), train,
                                       self._pass_seed(order, train))
        self._give(order, output)

    def _backward(self, order):
        gradient = view_of(order.values, order.value_count)
        given = self._compute.backward(order.index, gradient, bool(order.flags & _library.ADD))
        if self._replica.stage > 0:
            self._give(order, given)

    def _loss(self, order, begun):
        train = bool(order.flags & _library.TRAINS)
        rows, weight = order.sequences, 1.0
        if not train:
            rows, weight = data.held_out_rows(len(self._held_out), order.first_sequence,
                                              order.sequences, order.count)
        if rows == 0:
            return NO_LOSS
        target = moved(self._microbatch(order, rows)[1], self._replica.device)
        x = self._input(order, train)
        if not train:
            x = x[:rows]  # in training it stays a leaf, whose gradient the stage before gets
        mean, gradient = self._compute.loss(x, target, train, bool(order.flags & _library.ADD),
                                            self._pass_seed(order, train))
        if train:
            self._give(order, gradient)
        self._slow_down(begun)
        return mean * weight

    @staticmethod
    def _give(order, tensor):
        """None: the stage does not use its input."""
        out = view_of(order.output, order.output_count)
        out.zero_() if tensor is None else out.copy_(tensor.detach().reshape(-1))
