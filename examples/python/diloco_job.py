"""One replica of examples/diloco.py under Shoal: its inner steps are numpy's, on the memory of a
PyTorch parameter. Everything between two inner steps is Shoal's (docs/diloco.md)."""

import pathlib
import sys

import numpy
import torch

import shoal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import diloco

with shoal.join() as replica:
    inner = diloco.Replica(diloco.initial())
    model = torch.nn.Module()
    model.table = torch.nn.Parameter(torch.from_numpy(inner.parameters))  # the same memory
    stateless = torch.optim.SGD(model.parameters(), lr=diloco.LR)  # takes no step
    run = replica.diloco(model, stateless)
    text = numpy.fromfile(replica.data_path, numpy.uint8)
    for x, y in run.batches(shoal.Tokens(text, diloco.CONTEXT)):
        run.step(inner.inner_step(x.numpy(), y.numpy()))
