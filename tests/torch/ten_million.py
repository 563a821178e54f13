"""For scripts/bench_python.py: as many parameters as the job says, in blocks, and hardly any work."""

import torch

import shoal
from bytes_of_text import windows


class Blocks(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        self.blocks = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(values // 16)) for _ in range(16)])

    def forward(self, x):
        return sum(block[x].sum() for block in self.blocks)


with shoal.join() as replica:
    training, _ = windows(replica)
    model = Blocks(10_000_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    run = replica.diloco(model, optimizer)
    for x, _ in run.batches(training):
        loss = model(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.step(loss / x.numel())
