"""A small GPT on the bytes of a text, in plain PyTorch: python3 plain.py TEXT"""

import sys

import torch
import torch.nn.functional as F

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 32, 32, 2, 2, 4


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(),
                                       torch.nn.Linear(4 * WIDTH, WIDTH))
        future = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
        self.register_buffer("future", future)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=self.future, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class GPT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(256, WIDTH)
        self.places = torch.nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.blocks = torch.nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, 256, bias=False)
        self.head.weight = self.tokens.weight
        torch.nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places)))


class Windows(torch.utils.data.Dataset):
    """Windows of CONTEXT bytes, each with the byte that follows as its target."""

    def __init__(self, text):
        self.text = text

    def __len__(self):
        return (len(self.text) - 1) // CONTEXT

    def __getitem__(self, index):
        window = self.text[index * CONTEXT:(index + 1) * CONTEXT + 1].long()
        return window[:-1], window[1:]


def train(path, device):
    with open(path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    held_out, rest = Windows(text[-len(text) // 10:]), Windows(text[:-len(text) // 10])
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)

    def loss_of(x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    loader = torch.utils.data.DataLoader(rest, batch_size=BATCH, shuffle=True, drop_last=True)
    for x, y in loader:
        loss = loss_of(x.to(device), y.to(device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        loader = torch.utils.data.DataLoader(held_out, batch_size=BATCH, drop_last=True)
        losses = [loss_of(x.to(device), y.to(device)) for x, y in loader]
    print("held-out loss", float(sum(losses) / len(losses)))


if __name__ == "__main__":
    torch.manual_seed(1)
    train(sys.argv[1], "cpu")
