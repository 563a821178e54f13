"""For tests: in place of the line to an agent, a script of orders."""

import ctypes
import json
import math
import os

import torch

from shoal import _library, files
from shoal._library import Order
from shoal.replica import Replica


def write_tensors(folder, stem, tensors, document=None):
    """The file STEM.safetensors."""
    return files.write_object((os.fsencode(folder), 0, 1), f"inner/{stem}", tensors, document)


def _role_of(name):
    """Of a file of a checkpoint of one stage: the library has it from the part file."""
    stem = os.path.splitext(name)[0]
    for start, role in (("object-", "object/"), ("file-", "file/"), ("optimizer", "inner/optimizer"),
                        ("kept", "inner/kept"), ("buffers", "buffers")):
        if name.startswith(start):
            return role + (name if start == "file-" else stem)[len(start):]
    return "weights"


class Script:
    """Gives the orders of a list, and keeps what is answered. As the library does, it writes the weights of
    checkpoints and reads them. `values`: the library's vector.
    `place`: the stage, and of how many; `tables`: of the job beside [train]."""

    def __init__(self, count, orders, place=(0, 1), tables=None, **job):
        spec = {"train": {"batch": 4, "seed": 1, "steps": 100, **job}, **(tables or {})}
        model = Order(kind=_library.MODEL, text=json.dumps(spec).encode(), index=place[0],
                      count=place[1], value_count=1 << 20)
        self.values = (ctypes.c_float * max(1, count))()
        self._orders = [model, *orders, Order(kind=_library.END)]
        self._count = count
        self.tensors, self.steps, self.rates, self.losses, self.read = None, [], [], [], []
        self.logged, self.stage_steps = [], []
        self.left, self.times_told = "not yet", 0

    def next(self, while_waiting=lambda: None):
        while_waiting()
        self._order = self._orders.pop(0)
        if self._order.kind in (_library.READ, _library.WRITE):
            self._order.values = ctypes.addressof(self.values)
            self._order.value_count = self._count
        if self._order.kind == _library.READ_CHECKPOINT:
            self._read_weights()
        return self._order

    def _split(self):
        flat, first = torch.frombuffer(self.values, dtype=torch.float32), 0
        for name, shape, _ in self.told:
            count = math.prod(shape)
            yield name, flat[first:first + count].view(shape)
            first += count

    def _read_weights(self):
        stored, _ = files.read_tensors(os.path.join(self._order.text.decode(), "model.safetensors"))
        for name, values in self._split():
            values.copy_(stored[name])

    @staticmethod
    def list_files(order):
        return [(name, _role_of(name)) for name in sorted(os.listdir(order.text.decode()))]

    def answer(self):
        if self._order.kind == _library.READ:
            self.read.append(list(self.values))

    def answer_files(self, written, refused=None):
        self.written = written
        if refused:
            return self.answer_failed(_library.FAILED, refused)
        write_tensors(self._order.text.decode(), "model", list(self._split()))

    def answer_model(self, tensors, digest):
        self.told, self.data = tensors, list(digest.words)
        self.times_told += 1
        self.tensors = [(name, math.prod(shape)) for name, shape, _ in tensors]

    def answer_step(self, loss, lr):
        self.steps.append(loss)
        self.rates.append(lr)

    def answer_stage_step(self, norm, lr):
        self.stage_steps.append((norm, lr))

    def answer_loss(self, loss):
        self.losses.append(loss)

    def log(self, name, value):
        self.logged.append((name, value))

    def answer_failed(self, failure, detail):
        self.failed = detail

    def leave(self, failure=None):
        self.left = failure


def replica_of(link, rank=0, ranks=1):
    return Replica(link, torch.device("cpu"), rank, ranks)


def order(kind, **fields):
    return Order(kind=kind, **fields)


def steps(first, count, batch=4):
    """Inner steps number `first` and following."""
    return [Order(kind=_library.TRAIN, step=step, first_sequence=step * batch, sequences=batch)
            for step in range(first, first + count)]
