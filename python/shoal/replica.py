"""Joins the cluster from a process that an agent started."""

import atexit
import functools
import json
import os
import random
import sys
import time

import torch

from shoal import _library, effects, ranks
from shoal._library import Error, Link
from shoal.data import beneath_roots
from shoal.pipeline import Pipeline
from shoal.run import Run, failure_of
from shoal.stored import Sequences

_EARLY = ("the program ended before its job: let the loop over run.batches() or run.steps() come to "
          "its own end, which is that of the job")


def _measured_gflops(device):
    size, rounds = 512, 4
    a = torch.ones(size, size, device=device)
    torch.mm(a, a).sum().item()
    start = time.perf_counter()
    for _ in range(rounds):
        torch.mm(a, a)
    a.sum().item()
    return 2e-9 * size**3 * rounds / max(time.perf_counter() - start, 1e-6)


def _device():
    if os.environ.get("SHOAL_TRAINER_KIND", "cpu") != "cuda":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Error("this agent's device is a GPU, and PyTorch finds none (install a PyTorch for "
                    "it, or start the agent with --devices cpu)")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))  # the agent hides other GPUs


def _process(device, threads, order_limit_s):
    name, memory = "CPU", 0
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        memory = torch.cuda.get_device_properties(device).total_memory
    return _library.Process(
        device_name=name.encode(),
        libraries=f"PyTorch {torch.__version__}, {threads} threads".encode(),
        memory_bytes=memory,
        gflops=_measured_gflops(device),
        order_limit_s=order_limit_s)


def join(order_limit_s=600.0):
    """Waits for a job from the agent that started this process.

    Seeds the generators of Python, NumPy and PyTorch with the job's train.seed, so that every replica
    builds the same model; what is drawn in an inner step differs by replica and step. `order_limit_s`:
    how long one inner step may take. Under torchrun, called by all ranks: together they are one replica.
    """
    if not os.environ.get("SHOAL_TRAINER_SOCKET"):
        raise Error("SHOAL_TRAINER_SOCKET is not set: the program is started by shoal-agent "
                    "(docs/python.md)")
    device, (rank, size) = _device(), ranks.world()
    threads = max(1, int(os.environ.get("SHOAL_TRAINER_THREADS", "1")) // size)
    torch.set_num_threads(threads)
    link = Link(_process(device, threads, order_limit_s)) if rank == 0 else None
    if size > 1:
        link = ranks.RankedLink(link, ranks.make_group(device, order_limit_s))
    return Replica(link, device, rank, size)


class Replica:
    """One replica of a job. `job`: the spec, as the job file has it; `device`: where to train;
    `rank` of `ranks`: which of its processes this is; `stage`: which one of `stages` it computes (of
    1: the whole model)."""

    def __init__(self, link, device, rank=0, ranks=1):
        self.device, self._link, self._pid = device, link, os.getpid()
        self.rank, self.ranks = rank, ranks
        self._run = None
        self.over = False  # the agent wants nothing more of this process
        atexit.register(self._at_exit)
        order = self.next_order()
        if order is None:  # stopped before there was a job
            self.leave()
            sys.exit(0)
        self._spec = order.text
        self.job = json.loads(self._spec)
        self.stage, self.stages = order.index, order.count
        self.described_parameters = order.value_count  # of the model that the job describes
        seed = self.job["train"]["seed"]
        random.seed(seed)
        torch.manual_seed(seed)
        effects.seed_numpy(seed)

    def diloco(self, model, optimizer, buffers="local", after_average=None):
        """Begins a run from the model as it is now. Only parameters that require gradients are sent.
        Both may be lists: diloco([m1, m2], [o1, o2]). `buffers`: "mean" averages those with
        floating-point values, too. `after_average()` is called each time that the parameters were
        replaced; with it the optimizer may have parameters that are copies."""
        self._check_first("diloco")
        if self.stages > 1:
            raise Error(f"the job has {self.stages} stages (swarm.stages): call replica.pipeline(), "
                        "or set it to 1")
        self._run = Run(self, model, optimizer, buffers, after_average)
        return self._run

    def _check_first(self, call):
        if self._run is not None:
            raise Error(f"replica.{call}() was called a second time: a job has one run (register several models "
                        "in one call: replica.diloco([m1, m2], [o1, o2]))")

    def pipeline(self, stages, optimizer_of, loss_of, model=None, example=None):
        """A run of one stage of a model. `stages`: a module for each; or for each a function that
        makes it, of which the replica calls one; or a torch.nn.Sequential that is cut by what its
        modules do with `example`, a batch of one input.
        `optimizer_of(stage)`: the optimizer of a stage; `loss_of(output, target)`: the mean loss of
        a batch. `model`: the whole model, after which parameters are named in checkpoints; else
        they are named as in torch.nn.Sequential(*stages)."""
        self._check_first("pipeline")
        self._run = Pipeline(self, stages, optimizer_of, loss_of, model, example)
        return self._run

    @property
    def data_path(self):
        """Path of the job's data.train on this host, beneath a data root of the agent."""
        path = self.job["data"]["train"]
        if not path:
            raise Error("the job reads a dataset of the cluster, no file: use replica.dataset, or set "
                        "data.train")
        return self.path(path)

    def path(self, name):
        """Path on this host of `name`, a path or ROOT:PATH, beneath a data root of the agent: of
        further data, or of the weights that the model begins with."""
        return beneath_roots(name, os.environ.get("SHOAL_DATA_ROOTS", ""))

    @functools.cached_property
    def dataset(self):
        """The job's data.dataset or data.mixture: sequences of model.context tokens and their targets.
        Its `held_out` is for run.evaluate()."""
        return Sequences(_library.Data(self._spec))

    # ---- of the package

    @property
    def link(self):
        return self._link

    def next_order(self):
        """None: there will be no more."""
        order = self._link.next()
        if order.kind != _library.END:
            return order
        self.over = True
        if order.text:
            raise Error(order.text.decode())
        return None

    def leave(self, failure=None):
        atexit.unregister(self._at_exit)
        self._link.leave(failure)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if not self.over and (kind is None or kind is SystemExit):
            self.leave(_EARLY)
            raise Error(_EARLY)
        failure = _library.FAILED if kind is None else failure_of(value)
        if failure != _library.FAILED:  # more than that the program ended
            self._link.answer_failed(failure, str(value))
        self.leave(f"{kind.__name__}: {value}" if kind is not None and not self.over else None)

    def _at_exit(self):
        if os.getpid() != self._pid:  # a child of a data loader
            return
        over = self.over
        self.leave(None if over else _EARLY)
        if not over:
            print(f"shoal: {_EARLY}", file=sys.stderr, flush=True)
            os._exit(1)
