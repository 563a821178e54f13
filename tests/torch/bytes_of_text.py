"""The bytes of a text as windows, and the schedule of [train]: what the programs of these tests share with the
C++ trainer, so that their losses can be compared."""

import math

import torch
import torch.nn.functional as F

import shoal


def windows(replica):
    """Training and held-out windows, cut as the C++ trainer does."""
    with open(replica.data_path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    held_out = int(replica.job["data"]["val_fraction"] * len(text))
    context = replica.job["model"]["context"]
    return shoal.Tokens(text[:-held_out], context), shoal.Tokens(text[-held_out:], context)


def adamw(replica, model):
    """With weight decay on matrices only."""
    train = replica.job["train"]
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(
        [{"params": [p for p in trained if p.dim() > 1], "weight_decay": train["weight_decay"]},
         {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0}],
        lr=train["lr"], betas=tuple(train["betas"]), eps=1e-8)


def rate(train, step):
    """replica/core/learning_rate.h"""
    if step < train["warmup"]:
        return train["lr"] * (step + 1) / train["warmup"]
    progress = min(1.0, (step - train["warmup"]) / max(1, train["steps"] - train["warmup"]))
    return train["min_lr"] + 0.5 * (train["lr"] - train["min_lr"]) * (1 + math.cos(math.pi * progress))


def train(replica, model, optimizer, forward=None):
    """`forward(x)`: logits; model(input_ids=x).logits unless it says otherwise."""
    forward = forward or (lambda x: model(input_ids=x).logits)
    training, held_out = windows(replica)

    def loss_of(x, y):
        return F.cross_entropy(forward(x).flatten(0, 1), y.flatten())

    run = replica.diloco(model, optimizer)
    run.evaluate(held_out, loss_of)
    for x, y in run.batches(training):
        for group in optimizer.param_groups:
            group["lr"] = rate(replica.job["train"], run.step_number)
        loss = loss_of(x, y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(
            [p for p in model.parameters() if p.requires_grad], replica.job["train"]["clip"])
        optimizer.step()
        optimizer.zero_grad()
        run.log({"gradient_norm": norm})
        run.step(loss)
