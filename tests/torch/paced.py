"""For scripts/bench_python.py: each inner step under Shoal, and one of a twin in a plain loop right after it, so
that both meet the same machine. Prints the milliseconds of each kind, as the median over a round."""

import statistics
import time

import torch
import torch.nn.functional as F

import shoal

WIDTH, CONTEXT = 256, 64


def model():
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
    return torch.nn.Sequential(torch.nn.Embedding(256, WIDTH), torch.nn.TransformerEncoder(layer, 4),
                               torch.nn.Linear(WIDTH, 256))


def inner_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def forever(loader):
    while True:
        yield from loader


with shoal.join() as replica:
    with open(replica.data_path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    dataset = shoal.Tokens(text, CONTEXT)
    mine, twin = model(), model()
    optimizer, plain = (torch.optim.AdamW(one.parameters(), lr=1e-4) for one in (mine, twin))
    loader = torch.utils.data.DataLoader(dataset, replica.job["train"]["batch"], shuffle=True)
    others = forever(loader)
    run = replica.diloco(mine, optimizer)
    batches, shoal_ms, plain_ms = iter(run.batches(dataset)), [], []
    while True:
        start = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            break
        run.step(inner_step(mine, optimizer, *batch))
        middle = time.perf_counter()
        float(inner_step(twin, plain, *next(others)))
        end = time.perf_counter()
        if run.step_number % 50 >= 5:  # not those around a boundary
            shoal_ms.append(1e3 * (middle - start))
            plain_ms.append(1e3 * (end - middle))
        if run.step_number % 50 == 49:
            print(f"paced {statistics.median(shoal_ms):.3f} {statistics.median(plain_ms):.3f}", flush=True)
            shoal_ms, plain_ms = [], []
