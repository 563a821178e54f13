"""A replica of several ranks: the processes that `torchrun` starts on one host.

Rank 0 has the line to the agent, so that the cluster sees one replica. The others follow the same
orders, which rank 0 passes on over a gloo group of torch.distributed. The vector of parameters lies
in memory that all ranks map; each copies the part of the parameters that it holds, so what is
sharded (FSDP2, tensor parallel) is never gathered. A rank that dies ends the others: torchrun stops
them, and the agent starts the program again.
"""

import ctypes
import datetime
import math
import os
import sys
import time

import torch
import torch.distributed as dist

from shoal import _library
from shoal._library import Error, Order
from shoal.vectors import view_of

_NUMBERS = ("kind", "step", "first_sequence", "sequences", "index", "count")
_NOTHING_YET = 0  # in place of a kind: rank 0 waits for an order
_SAY_EVERY_S = 5.0
_made_world = False  # by make_group(); else it is the program's


def world():
    """(rank, ranks) of this process, as torchrun says."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1 and int(os.environ.get("LOCAL_WORLD_SIZE", size)) != size:
        raise Error(f"{size} ranks on several hosts cannot be one replica: start torchrun on each host "
                    "by its own agent, with --nnodes 1")
    return rank, size


def torchrun(ranks=None):
    """At the top of a program: runs it as that many ranks, which are one replica, by torchrun. Without a
    number as many as the devices that the agent gives one replica (--replica-group). Under torchrun it
    does nothing. Needs PyTorch 2: the launcher of PyTorch 1.13, as Debian 12 has it, starts no rank."""
    if "RANK" in os.environ:
        return
    if int(torch.__version__.split(".")[0]) < 2:
        raise Error(f"shoal.torchrun() needs PyTorch 2, and {sys.executable} has {torch.__version__}: install "
                    "a newer PyTorch for it, name another interpreter with the agent's --python, or leave "
                    "torchrun() out, so that the replica is one process")
    ranks = ranks or int(os.environ.get("SHOAL_TRAINER_REPLICA_GROUP", "1"))
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--standalone",
                              "--nproc_per_node", str(ranks), *sys.argv])


def make_group(device, order_limit_s):
    """The group in which orders travel; an order that takes longer than its limit ends it."""
    if not dist.is_available():
        raise Error("this PyTorch has no torch.distributed, which several ranks need")
    global _made_world
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        _made_world = True
    limit = datetime.timedelta(seconds=order_limit_s + 60)
    return dist.new_group(backend="gloo", timeout=limit)


def _shared_vector(count, group):
    """`count` values of float32 that all ranks map; nothing of it is left when they have ended."""
    place, descriptor = [None], None
    if dist.get_rank() == 0:
        descriptor = os.memfd_create("shoal-parameters")
        os.ftruncate(descriptor, 4 * count)
        place = [f"/proc/{os.getpid()}/fd/{descriptor}"]
    dist.broadcast_object_list(place, 0, group)
    vector = torch.from_file(place[0], shared=True, size=count, dtype=torch.float32)
    dist.barrier(group)
    if descriptor is not None:
        os.close(descriptor)
    return vector


class RankedLink:
    """What Link is to a process alone, for each of several ranks. `link`: rank 0's own, else None.

    All ranks call the same methods in the same order.
    """

    def __init__(self, link, group):
        self._link, self._group = link, group
        self._order = self._vector = None  # `_order`: of the library, on rank 0
        self._said_at = time.monotonic()

    # ---- orders

    def next(self):
        if self._link is None:
            return self._hear()
        self._order = self._link.next(self._say_nothing_yet)
        self._say([getattr(self._order, name) for name in _NUMBERS], self._order.text)
        return self._ranked(self._order)

    def _say(self, numbers, text=None):
        self._said_at = time.monotonic()
        told = torch.tensor([*numbers, text is not None], dtype=torch.int64)
        dist.broadcast(told, 0, self._group)
        if text is not None:
            dist.broadcast_object_list([text], 0, self._group)

    def _say_nothing_yet(self):
        if time.monotonic() - self._said_at > _SAY_EVERY_S:
            self._say([_NOTHING_YET] * len(_NUMBERS))

    def _hear(self):
        told = torch.zeros(len(_NUMBERS) + 1, dtype=torch.int64)
        while told[0] == _NOTHING_YET:
            dist.broadcast(told, 0, self._group)
        order = Order(**dict(zip(_NUMBERS, told.tolist())))
        if told[-1]:
            text = [None]
            dist.broadcast_object_list(text, 0, self._group)
            order.text = text[0]
        return self._ranked(order)

    def _ranked(self, order):
        """The order, with its parameters in the vector that all ranks map."""
        if order.kind not in (_library.READ, _library.WRITE):
            return order
        ranked = Order.from_buffer_copy(order)
        ranked.values = ctypes.c_void_p(self._vector.data_ptr())
        ranked.value_count = len(self._vector)
        if order.kind == _library.WRITE:
            if self._link is not None:
                self._vector.copy_(view_of(order.values, order.value_count))
            dist.barrier(self._group)
        return ranked

    # ---- answers

    def answer(self):
        dist.barrier(self._group)  # all ranks have done their part
        if self._link is None:
            return
        if self._order.kind == _library.READ:
            view_of(self._order.values, self._order.value_count).copy_(self._vector)
        self._link.answer()

    def list_files(self, order):
        listed = [self._link.list_files(order) if self._link is not None else None]
        dist.broadcast_object_list(listed, 0, self._group)
        return listed[0]

    def answer_files(self, written, refused=None):
        """Those of all ranks are one part, which there is not where one of them refuses."""
        of_ranks = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(of_ranks, (written, refused), self._group)
        if self._link is not None:
            refusals = [why for _, why in of_ranks if why]
            self._link.answer_files([file for files, _ in of_ranks for file in files],
                                    refusals[0] if refusals else None)

    def answer_model(self, tensors, digest):
        self._agree(tensors, "parameters")
        self._agree(list(digest.words), "data")
        self._vector = _shared_vector(sum(math.prod(shape) for _, shape, _ in tensors), self._group)
        if self._link is not None:
            self._link.answer_model(tensors, digest)

    def _agree(self, mine, what):
        found = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(found, mine, self._group)
        for rank, other in enumerate(found):
            if other != found[0]:
                raise Error(f"ranks 0 and {rank} of this replica have different {what}: build the same "
                            "model and open the same dataset on every rank")

    def answer_step(self, loss, lr):
        loss = self._mean(loss)
        if self._link is not None:
            self._link.answer_step(loss, lr)

    def answer_loss(self, loss):
        loss = self._mean(loss)
        if self._link is not None:
            self._link.answer_loss(loss)

    def _mean(self, value):
        values = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(values, group=self._group)
        return values.item() / dist.get_world_size(self._group)

    def log(self, name, value):
        if self._link is not None:
            self._link.log(name, value)

    def answer_failed(self, failure, detail):
        if self._link is not None:
            self._link.answer_failed(failure, detail)

    def leave(self, failure=None):
        if self._link is not None:
            self._link.leave(failure)
        # Threads of a group that is left to the end of the process may abort it there.
        dist.destroy_process_group(None if _made_world else self._group)
