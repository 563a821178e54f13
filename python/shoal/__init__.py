"""Trains a PyTorch model under Shoal (docs/python.md).

    import shoal
    with shoal.join() as replica:                   # started by an agent
        run = replica.diloco(model, optimizer)
        for x, y in run.batches(dataset):
            loss = model(x, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.step(loss)

What trains needs PyTorch and libshoal_replica.so, and is loaded when it is first named; shoal.mirror
needs neither.
"""

import importlib

_PLACES = {"Error": "_library", "Pipeline": "pipeline", "Replica": "replica", "join": "replica",
           "Run": "run", "Tokens": "data", "load_checkpoint": "files", "torchrun": "ranks"}
__all__ = list(_PLACES)


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return getattr(importlib.import_module(f"shoal.{_PLACES[name]}"), name)
