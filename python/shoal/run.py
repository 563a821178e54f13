"""The training of one replica, as the program's own loop sees it."""

import math
import os
import time
from collections.abc import Mapping

import torch
from torch.utils.data import default_collate

from shoal import _library, data, files
from shoal._library import Error
from shoal.vectors import Vectors, view_of

NO_LOSS = float("nan")
OutOfMemory = getattr(torch.cuda, "OutOfMemoryError", MemoryError)


def failure_of(problem):
    """The text of an exception for the agent."""
    if isinstance(problem, OutOfMemory):
        return _library.OUT_OF_MEMORY
    return getattr(problem, "failure", _library.FAILED)


def moved(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, (tuple, list)):
        return type(batch)(moved(part, device) for part in batch)
    if isinstance(batch, Mapping):
        return {key: moved(part, device) for key, part in batch.items()}
    return batch


def _number(value):
    if hasattr(value, "full_tensor"):  # a DTensor, such as a norm of shards; all ranks ask
        value = value.full_tensor()
    return float(value.detach()) if isinstance(value, torch.Tensor) else float(value)


class Work:
    """What the library asks of any run between its steps: parameters and files of checkpoints."""

    def __init__(self, replica, vectors, optimizer):
        self._replica, self._vectors, self._optimizer = replica, vectors, optimizer
        self._rank = (replica.rank, replica.ranks)
        self._collate = default_collate
        self._slowdown = 1 / float(os.environ.get("SHOAL_TRAINER_SPEED", "1")) - 1
        self.step_number, self.epoch = 0, 0
        self._in_step = False  # the program takes an inner step
        self._finite_loss = True  # of the newest step

    def log(self, values):
        """Numbers of this inner step, by name: they become series of the job (`log.NAME`). Called
        before the step ends; about once a second the newest of each name travels."""
        if not self._in_step:
            raise Error("run.log(...) belongs to an inner step: call it in the loop over run.batches(), "
                        "before run.step(loss), or in the one over run.steps()")
        for name, value in values.items():
            self._replica.link.log(str(name), _number(value))

    def _slow_down(self, begun):  # shoal-agent --speed
        if self._slowdown > 0:
            time.sleep(self._slowdown * (time.perf_counter() - begun))

    def _next(self, kind):
        """Does what is asked until an order of this kind comes; None at the end."""
        while True:
            order = self._replica.next_order()
            if order is None or order.kind == kind:
                return order
            try:
                self._perform(order)
            except Exception as problem:
                self._replica.link.answer_failed(failure_of(problem),
                                                 f"{type(problem).__name__}: {problem}")
                raise

    def _write_checkpoint(self, order):
        return files.write_checkpoint(order, self._vectors, self._optimizer, *self._rank)

    def _perform(self, order):
        vectors = self._vectors
        if order.kind == _library.READ:
            vectors.read_into(view_of(order.values, order.value_count))
        elif order.kind == _library.WRITE:
            vectors.write_from(view_of(order.values, order.value_count))
            files.forget_nonfinite(self._optimizer)
        elif order.kind == _library.WRITE_CHECKPOINT:
            written, refused = [], None
            try:
                written = self._write_checkpoint(order)
            except files.NotFinite as problem:  # the training goes on
                refused = str(problem)
            return self._replica.link.answer_files(written, refused)
        elif order.kind == _library.READ_CHECKPOINT:
            files.read_checkpoint(order, vectors, self._optimizer, *self._rank)
        elif order.kind == _library.SEED:
            if order.text:  # else the model is as the program has built it
                vectors.write_from(files.read_parameters(order.text.decode(), vectors))
        else:
            raise Error(f"the library gave the unknown order {order.kind} (install both of one "
                        "version)")
        return self._replica.link.answer()


class Run(Work):
    """Made by Replica.diloco(). `step_number`: the inner step of the job that is being taken, for
    learning-rate schedules; `epoch`: how often the dataset was read before."""

    def __init__(self, replica, model, optimizer):
        super().__init__(replica, Vectors(model, rank=replica.rank), optimizer)
        self._model, self._part = model, self._rank
        self._held_out = self._loss_of = self._held_out_collate = None

    # ---- the program's side

    def evaluate(self, dataset, loss_of, collate=None):
        """Says how the job's evaluations are computed: `loss_of(*batch)`, of a dictionary
        `loss_of(**batch)`, is the mean loss of a batch of `dataset`. Called before batches(); they run
        between inner steps, on the anchor."""
        data.check_dataset(dataset)
        self._held_out, self._loss_of = dataset, loss_of
        self._held_out_collate = collate or default_collate

    def batches(self, dataset, collate=None, part=None):
        """Batches of train.batch items on the replica's device, until the job ends; each of the
        dataset's items once per epoch over all replicas. After each one comes step(). `part`, (i, n):
        of several ranks each gets part i of n of a batch; (rank, ranks) unless it says otherwise,
        as where ranks are tensor-parallel and train the same part."""
        data.check_dataset(dataset)
        self._collate, self._part = collate or default_collate, part or self._part
        data.part_of(self._replica.job["train"]["batch"], self._part)
        self._replica.link.answer_model(self._vectors.tensors(), data.digest_of(dataset))
        seed = self._replica.job["train"]["seed"]
        while True:
            order = self._next_step()
            if order is None:
                return
            self.step_number = order.step
            self.epoch = order.first_sequence // len(dataset)
            data.announce(dataset, order.first_sequence, order.count)
            batch = data.training_batch(dataset, order.first_sequence,
                                        data.part_of(order.sequences, self._part), seed,
                                        self._collate)
            self._in_step, self._begun = True, time.perf_counter()
            yield moved(batch, self._replica.device)

    def step(self, loss):
        """Call it after the optimizer's step, with the mean loss of the batch. Returns at once."""
        if not self._in_step:
            raise Error("run.step(loss) was called twice for one batch, or outside of the loop over "
                        "run.batches()")
        loss = _number(loss)
        self._slow_down(self._begun)
        self._in_step = False
        self._look_at(loss)
        self._replica.link.answer_step(loss, float(self._optimizer.param_groups[0]["lr"]))

    def _look_at(self, loss):
        if math.isfinite(loss) == self._finite_loss:
            return
        self._finite_loss = math.isfinite(loss)
        if not self._finite_loss:
            print(f"warning: the loss is {loss} from inner step {self.step_number} on: what this replica "
                  "trains in this round does not count (lower the learning rate, clip the gradients, or "
                  "look for such values in the data)", flush=True)

    # ---- orders

    def _next_step(self):
        """Does what is asked between two steps; the order of the next one, or None at the end."""
        if self._in_step:
            raise Error("run.step(loss) was not called for the last batch: call it once for each, "
                        "after optimizer.step()")
        return self._next(_library.TRAIN)

    def _perform(self, order):
        if order.kind == _library.EVALUATE:
            return self._replica.link.answer_loss(self._evaluated(order))
        return super()._perform(order)

    @torch.no_grad()
    def _evaluated(self, order):
        if self._loss_of is None:
            return NO_LOSS
        batch = data.held_out_batch(self._held_out, order.index, order.count, order.sequences,
                                    self._held_out_collate, self._part)
        if batch is None:
            return NO_LOSS
        batch = moved(batch, self._replica.device)
        was_training = self._model.training
        self._model.eval()
        try:
            return float(self._loss_of_batch(batch))
        finally:
            self._model.train(was_training)

    def _loss_of_batch(self, batch):
        if isinstance(batch, (tuple, list)):
            return self._loss_of(*batch)
        return self._loss_of(**batch) if isinstance(batch, Mapping) else self._loss_of(batch)
