"""A small Llama on the bytes of a text, its layers cut into the stages of a pipeline. The program
builds the model that the job describes in [model], so that the planner knows its size."""

import shoal

import torch
import torch.nn.functional as F


class Norm(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


def rotated(x):
    """Rotary positions of [batch, heads, context, width]."""
    context, half = x.shape[-2], x.shape[-1] // 2
    places = torch.arange(context, device=x.device, dtype=torch.float32)
    angles = places[:, None] * 10_000.0 ** (-torch.arange(half, device=x.device) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        hidden, ffn, self.heads = sizes["hidden"], sizes["ffn"], sizes["heads"]
        self.norm1, self.norm2 = Norm(hidden), Norm(hidden)
        self.q, self.k, self.v, self.o = (torch.nn.Linear(hidden, hidden, bias=False)
                                          for _ in range(4))
        self.gate, self.up = (torch.nn.Linear(hidden, ffn, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(ffn, hidden, bias=False)

    def attention(self, x):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = rotated(split(self.q(x))), rotated(split(self.k(x))), split(self.v(x))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        future = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def llama(sizes):
    hidden, vocab = sizes["hidden"], sizes["vocab"]
    model = torch.nn.Sequential(torch.nn.Embedding(vocab, hidden),
                                *[Block(sizes) for _ in range(sizes["layers"])],
                                Norm(hidden), torch.nn.Linear(hidden, vocab, bias=False))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    return model


def texts_of(path, context):
    """The training data, and the tenth of it that is held out."""
    with open(path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    held_out = len(text) // 10
    return shoal.Tokens(text[:-held_out], context), shoal.Tokens(text[-held_out:], context)


def loss_of(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def optimizer_of(module):
    return torch.optim.AdamW(module.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.1)


def train(replica):
    sizes = replica.job["model"]
    text, held_out = texts_of(replica.data_path, sizes["context"])
    example = torch.zeros(1, sizes["context"], dtype=torch.long)
    run = replica.pipeline(llama(sizes), optimizer_of, loss_of, example=example)
    run.evaluate(held_out)
    for _ in run.steps(text):
        norm = torch.nn.utils.clip_grad_norm_(run.stage.parameters(), 1.0)
        run.optimizer.step()
        run.log({f"norm/stage{replica.stage}": norm})


if __name__ == "__main__":
    with shoal.join() as replica:
        train(replica)
