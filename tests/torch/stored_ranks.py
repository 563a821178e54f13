"""Two ranks of each replica read a dataset of the cluster, and write down which windows they got."""

import os

import torch
import torch.nn.functional as F

import shoal

shoal.torchrun(2)
with shoal.join() as replica, open(f"{__file__}.{replica.rank}.{os.getpid()}", "w") as seen:
    model = torch.nn.Sequential(torch.nn.Embedding(256, 16), torch.nn.Linear(16, 256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def loss_of(x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    run = replica.diloco(model, optimizer)
    run.evaluate(replica.dataset.held_out, loss_of)
    for x, y in run.batches(replica.dataset):
        for window in x:
            print(bytes(window.tolist()).hex(), file=seen, flush=True)
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.step(loss)
