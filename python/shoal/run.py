"""The training of one replica, as the program's own loop sees it."""

import math
import os
import time

import torch
from torch.utils.data import default_collate

from shoal import _library, data, effects, files
from shoal._library import Error
from shoal.batch import moved, number
from shoal.evaluation import NO_LOSS, Evaluation
from shoal.names import models_of
from shoal.registry import (Registry, check_buffers, check_hook, checked_models, checked_optimizers,
                            count_steps)
from shoal.state import State, forget_nonfinite
from shoal.undone import Undone
from shoal.vectors import Vectors, view_of

OutOfMemory = getattr(torch.cuda, "OutOfMemoryError", MemoryError)


def failure_of(problem):
    """The text of an exception for the agent."""
    if isinstance(problem, OutOfMemory):
        return _library.OUT_OF_MEMORY
    return getattr(problem, "failure", _library.FAILED)


class Work:
    """What the library asks of any run between its steps: parameters and files of checkpoints."""

    def __init__(self, replica, vectors, registry, optimizers):
        self._replica, self._vectors, self._registry = replica, vectors, registry
        self._optimizers, self._steps_taken = optimizers, 0
        for optimizer in optimizers:
            count_steps(optimizer, self._stepped)
        self._state, self._undone = State(optimizers, registry.names_by_id()), Undone(vectors.trained)
        self._after_average = None
        self._restored = self._tried = False  # by a checkpoint; to write the state after a step
        self._rank = (replica.rank, replica.ranks)
        self._collate = default_collate
        self._slowdown = 1 / float(os.environ.get("SHOAL_TRAINER_SPEED", "1")) - 1
        self.step_number, self.epoch = 0, 0
        self._in_step = False  # the program takes an inner step
        self._finite_loss = True  # of the newest step
        self._data = None  # the digest of the dataset, once the run has begun

    def log(self, values):
        """Numbers of this inner step, by name: they become series of the job (`log.NAME`). Called
        before the step ends; about once a second the newest of each name travels."""
        if not self._in_step:
            raise Error("run.log(...) belongs to an inner step: call it in the loop over run.batches(), "
                        "before run.step(loss), or in the one over run.steps()")
        for name, value in values.items():
            self._replica.link.log(str(name), number(value))

    def keep(self, name, kept):
        """Checkpoints also have the state of `kept`, an object with state_dict() and load_state_dict() such
        as a schedule or a scaler, and give it back when the job continues. Called before the loop."""
        if self._data is not None:
            raise Error(f"run.keep({name!r}, ...): the loop has begun, and the state that a checkpoint has may be "
                        "loaded: call it before")
        self._state.keep(name, kept)

    def keep_file(self, path, name=None):
        """Checkpoints also have a copy of this file of the program as it is then: up to 16, of at most 256 MiB
        each. A replica that begins from a checkpoint finds it at the path again, before its first step. `name`: in the
        checkpoint; that of the file unless it is given. Called before the loop."""
        if self._data is not None:
            raise Error(f"run.keep_file({str(path)!r}): the loop has begun, and the files that a checkpoint has may "
                        "be restored: call it before")
        self._state.keep_file(path, name)

    def _stepped(self):
        self._steps_taken += 1

    def _rate(self):
        """The learning rate; 0 where the optimizer has none, such as one that finds its own."""
        rate = self._optimizers[0].param_groups[0].get("lr")
        return 0.0 if rate is None else number(rate)

    def _slow_down(self, begun):  # shoal-agent --speed
        if self._slowdown > 0:
            time.sleep(self._slowdown * (time.perf_counter() - begun))

    def _next(self, kind):
        """Does what is asked until an order of this kind comes; None at the end."""
        while True:
            order = self._replica.next_order()
            self._sees(order)
            if order is None or order.kind == kind:
                return order
            try:
                self._perform(order)
            except Exception as problem:
                self._replica.link.answer_failed(failure_of(problem),
                                                 f"{type(problem).__name__}: {problem}")
                raise

    def _sees(self, order):
        """Each order, before it is carried out; None: there will be no more."""

    def _begin(self, dataset, identity):
        """Says what the model and the data are, once; a later loop continues with the same data."""
        data.check_dataset(dataset)
        self._registry.check()
        digest = self._digest(dataset, identity)
        words = list(digest.words)
        if self._data is None:
            self._state.try_to_write()
            self._replica.link.answer_model(self._vectors.tensors(), digest)
            self._length = len(dataset)
        elif words != self._data:
            raise Error("the loop began with another dataset, and a job has one: give it the same again")
        self._data = words

    def _digest(self, dataset, identity):
        return data.digest_of(dataset, identity)

    def _begins_step(self, step):
        if not self._tried and step > 0 and not self._restored:
            self._say_what_begins_anew(step)

    def _say_what_begins_anew(self, step):
        kept = [*self._state.kept, *(["the buffers of the model"] if self._vectors.local_buffers() else [])]
        if kept:
            print(f"warning: this replica joined at step {step} without a checkpoint: {', '.join(kept)} begin anew "
                  "here (train.join = \"moments\" gives it those of another replica)", flush=True)

    def _ends_step(self):
        if not self._tried:  # optimizers make their state in their first step
            self._tried = True
            self._state.try_to_write()
        self._undone.stepped()

    def _write_parameters(self, order):
        before = self._undone.sample()
        self._vectors.write_from(view_of(order.values, order.value_count))
        self._undone.averaged(before)
        for optimizer in self._optimizers:
            forget_nonfinite(optimizer)
        if self._after_average is not None:
            with torch.no_grad():
                self._after_average()

    def _write_checkpoint(self, order):
        return files.write_checkpoint(order, self._vectors, self._state, *self._rank)

    def _read_checkpoint(self, order):
        files.read_checkpoint(order, self._replica.link.list_files(order), self._vectors, self._state, *self._rank)
        self._restored = True

    def _at_boundary(self):
        self._registry.check()

    def _perform(self, order):
        vectors = self._vectors
        if order.kind == _library.READ:
            self._at_boundary()
            vectors.read_into(view_of(order.values, order.value_count))
        elif order.kind == _library.WRITE:
            self._write_parameters(order)
        elif order.kind == _library.WRITE_CHECKPOINT:
            written, refused = [], None
            try:
                written = self._write_checkpoint(order)
            except files.NotFinite as problem:  # the training goes on
                refused = str(problem)
            return self._replica.link.answer_files(written, refused)
        elif order.kind == _library.READ_CHECKPOINT:
            self._read_checkpoint(order)
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

    def __init__(self, replica, model, optimizer, buffers="local", after_average=None):
        model, optimizers = checked_models(model), checked_optimizers(optimizer)
        check_buffers(buffers, replica.job)
        check_hook(after_average)
        vectors = Vectors(model, rank=replica.rank, mean_of_buffers=buffers == "mean")
        registry = Registry(model, optimizers, copies=after_average is not None)
        super().__init__(replica, vectors, registry, optimizers)
        self._after_average = after_average
        self._models, self._part = [one for _, one in models_of(model)], self._rank
        self._steps_trained = 0  # since the last boundary
        self._warned_of_steps = False
        self._evaluation = None

    # ---- the program's side

    def evaluate(self, dataset, loss_of, collate=None):
        """Says how the job's evaluations are computed: `loss_of(*batch)`, of a dictionary
        `loss_of(**batch)`, is the mean loss of a batch of `dataset`. Called before batches(); they run
        between inner steps, on the anchor. Of a dictionary of datasets the job's validation loss is the
        mean of theirs, and each has a series of its own, log.eval/NAME."""
        self._evaluation = Evaluation(dataset, loss_of, collate or default_collate)

    def batches(self, dataset, collate=None, part=None, identity=None):
        """Batches of train.batch items on the replica's device, until the job ends; each of the
        dataset's items once per epoch over all replicas. After each one comes step(). `part`, (i, n):
        of several ranks each gets part i of n of a batch; (rank, ranks) unless it says otherwise,
        as where ranks are tensor-parallel and train the same part. `identity`: a name or hash of the
        data, by which hosts compare it in place of a few items.

        Before each batch the generators are seeded with numbers of their own for this replica and
        step. After the job has ended there are no batches."""
        if self._replica.over:
            return
        self._collate, self._part = collate or default_collate, part or self._part
        data.part_of(self._replica.job["train"]["batch"], self._part)
        self._begin(dataset, identity)
        seed = self._replica.job["train"]["seed"]
        while True:
            order = self._next_step()
            if order is None:
                return
            self.step_number = order.step
            self.epoch = order.first_sequence // self._length
            self._begins_step(order.step)
            data.announce(dataset, order.first_sequence, order.count)
            # No other replica has this sequence; ranks with the same part draw the same.
            effects.seed(seed, "step", order.step, order.first_sequence, self._part[0])
            batch = data.training_batch(dataset, self._length, order.first_sequence,
                                        data.part_of(order.sequences, self._part), seed,
                                        self._collate)
            self._in_step, self._begun = True, time.perf_counter()
            yield moved(batch, self._replica.device)

    def step(self, loss):
        """Call it after the optimizer's step, with the mean loss of the batch. Returns at once."""
        if not self._in_step:
            raise Error("run.step(loss) was called twice for one batch, or outside of the loop over "
                        "run.batches()")
        loss = number(loss)
        self._slow_down(self._begun)
        self._in_step = False
        self._look_at(loss)
        self._steps_trained += 1
        self._ends_step()
        self._replica.link.answer_step(loss, self._rate())

    def _look_at(self, loss):
        if math.isfinite(loss) == self._finite_loss:
            return
        self._finite_loss = math.isfinite(loss)
        if not self._finite_loss:
            print(f"warning: the loss is {loss} from inner step {self.step_number} on: what this replica "
                  "trains in this round does not count (lower the learning rate, clip the gradients, or "
                  "look for such values in the data)", flush=True)

    # ---- orders

    def _at_boundary(self):
        super()._at_boundary()
        if self._steps_trained and not self._steps_taken and not self._warned_of_steps:
            self._warned_of_steps = True
            print(f"warning: the optimizer of replica.diloco() took no step in {self._steps_trained} inner steps up "
                  f"to step {self.step_number}: if another one trains the model, its state is in no checkpoint "
                  "(register all optimizers: replica.diloco(model, [first, second]))", flush=True)
        self._steps_trained = self._steps_taken = 0

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

    def _evaluated(self, order):
        if self._evaluation is None:
            return NO_LOSS
        with torch.no_grad(), effects.random_state_kept(), effects.evaluating(self._models):
            effects.seed(self._replica.job["train"]["seed"], "evaluation", order.index)
            return self._evaluation.loss(order, self._part, self._replica.device)

    def _sees(self, order):
        if self._evaluation is None or (order is not None and order.kind == _library.EVALUATE):
            return
        for name, loss in self._evaluation.finished().items():
            if order is None:
                print(f"info: validation loss of {name}: {loss:.4f}", flush=True)
            else:
                self._replica.link.log(f"eval/{name}", loss)
