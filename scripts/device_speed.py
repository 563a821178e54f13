#!/usr/bin/env python3
"""Inner steps of the C++ trainer beside plain PyTorch on the same Llama, eager and compiled, in one run.

usage: device_speed.py TRAINER [--size NAME...] [--repeats N] [--steps N] [--json FILE]

TRAINER is a shoal-trainer. PyTorch trains as its users do: parameters in fp32, autocast to bf16, flash attention
through scaled_dot_product_attention, fused AdamW, batches from pinned memory. `uncaptured` is Shoal
without CUDA graphs. The arms take turns, each in a process of its own; the fastest repeat of each counts. `tiny`
runs on the CPU, in fp32.
"""
import argparse
import json
import math
import subprocess
import sys
import time

SIZES = {
    "tiny": {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 192, "context": 64, "vocab": 256, "batch": 4},
    "350M": {"layers": 24, "hidden": 1024, "heads": 16, "kv_heads": 8, "ffn": 2816, "context": 2048, "vocab": 32000,
             "batch": 8},
    "1B": {"layers": 16, "hidden": 2048, "heads": 32, "kv_heads": 8, "ffn": 8192, "context": 2048, "vocab": 32000,
           "batch": 8},
}
ARMS = ("shoal", "uncaptured", "eager", "compiled")
WARMUP = 5


def by_shoal(trainer, size, steps, *more):
    shape = SIZES[size]
    command = [trainer, "bench", "--json", "--family", "llama", "--steps", str(steps), *more]
    command += [word for name, value in shape.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command += ["--threads", "1"] if size == "tiny" else ["--cuda", "--precision", "bf16"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout)


def by_torch(size, steps, compiled):
    """In a process of its own: prints what by_shoal() returns."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    shape = SIZES[size]
    hidden, heads, kv_heads, context = (shape[name] for name in ("hidden", "heads", "kv_heads", "context"))
    head = hidden // heads
    cuda = size != "tiny"
    device = torch.device("cuda" if cuda else "cpu")

    def rotated(x, cosine, sine):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1).to(x.dtype)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
            self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * head, bias=False)
            self.out = nn.Linear(heads * head, hidden, bias=False)
            self.gate_up = nn.Linear(hidden, 2 * shape["ffn"], bias=False)
            self.down = nn.Linear(shape["ffn"], hidden, bias=False)

        def forward(self, x, cosine, sine):
            batch, length, _ = x.shape
            qkv = self.qkv(self.norm1(x)).view(batch, length, heads + 2 * kv_heads, head).transpose(1, 2)
            q, k, v = qkv.split([heads, kv_heads, kv_heads], 1)
            q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, heads * head))
            gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
            return x + self.down(F.silu(gate) * up)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(shape["vocab"], hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.norm = nn.RMSNorm(hidden, eps=1e-5)
            self.head = nn.Linear(hidden, shape["vocab"], bias=False)
            angle = torch.outer(torch.arange(context), 10000 ** (-torch.arange(0, head, 2) / head))
            self.register_buffer("cosine", angle.cos())
            self.register_buffer("sine", angle.sin())
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, tokens, targets):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x, self.cosine, self.sine)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    torch.manual_seed(1)
    model = Llama().to(device)
    decays = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95), fused=True)
    loss_of = torch.compile(model) if compiled else model

    def step():
        batch = torch.randint(0, min(shape["vocab"], 256), (shape["batch"], context + 1))
        batch = (batch.pin_memory() if cuda else batch).to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cuda):
            loss = loss_of(batch[:, :-1], batch[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    if not cuda:
        torch.set_num_threads(1)
    first = step().item()
    if abs(first - math.log(shape["vocab"])) > 0.5:
        sys.exit(f"the first loss is {first}")
    for _ in range(WARMUP):
        step()
    start = time.perf_counter()
    for _ in range(steps):
        loss = step()
    loss.item()
    seconds = time.perf_counter() - start
    print(json.dumps({"tokens_per_s": steps * shape["batch"] * context / seconds, "torch": torch.__version__,
                      "parameters": sum(p.numel() for p in model.parameters())}))


def measure(arm, given, size):
    if arm == "shoal":
        return by_shoal(given.trainer, size, given.steps)
    if arm == "uncaptured":
        return by_shoal(given.trainer, size, given.steps, "--eager")
    command = [sys.executable, __file__, given.trainer, "--arm", arm, "--size", size, "--steps", str(given.steps)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    return json.loads(done.stdout)


def compare(given, size):
    seen = {arm: [] for arm in given.arms}
    for _ in range(given.repeats):
        for arm in given.arms:
            seen[arm].append(measure(arm, given, size))
    if len({one["parameters"] for runs in seen.values() for one in runs}) > 1:
        sys.exit(f"{size}: the arms have models of different sizes")
    rates = {arm: max(one["tokens_per_s"] for one in runs) for arm, runs in seen.items()}
    print(f"{size}, {seen['shoal'][0]['parameters']} parameters: " + ", ".join(
        f"{arm} {rate:.0f} tokens/s" + ("" if arm == "shoal" else f" (Shoal has {rates['shoal'] / rate:.3f} of it)")
        for arm, rate in rates.items()), flush=True)
    return {"size": size, "rates": rates, "shoal": seen["shoal"][0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("trainer")
    parser.add_argument("--size", nargs="+", choices=SIZES, default=["350M", "1B"])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20, help="measured steps")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.arm:
        return by_torch(given.size[0], given.steps, given.arm == "compiled")
    results = [compare(given, size) for size in given.size]
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
