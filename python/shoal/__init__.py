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
"""

from shoal._library import Error
from shoal.replica import Replica, join
from shoal.run import Run
from shoal.data import Tokens

__all__ = ["Error", "Replica", "Run", "Tokens", "join"]
