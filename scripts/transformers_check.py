#!/usr/bin/env python3
"""What the real `transformers` makes of folders that Shoal reads and writes.

usage: transformers_check.py golden FOLDER
       transformers_check.py loss FOLDER TEXT VAL_FRACTION CONTEXT LOSS

golden: the library still gives the logits that lie beside the model. loss: the model's loss on the
held-out end of a text of bytes is LOSS, Shoal's own, to 1e-4 (bf16: 1e-2). `./dev test --torch`
runs it.
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True)
    wrong = {what: names for what, names in report.items() if names}
    if wrong:
        sys.exit(f"{folder}: from_pretrained reports {wrong}")
    return model.eval()


def golden(folder):
    stored = load_file(pathlib.Path(folder) / "golden.safetensors")
    with torch.no_grad():
        logits = load(folder)(stored["tokens"].to(torch.int64)).logits
    return (logits - stored["logits"]).abs().max().item(), 1e-4


def held_out_loss(model, text, val_fraction, context):
    """The mean over all windows, which lie one behind the other."""
    tokens = torch.tensor(list(pathlib.Path(text).read_bytes()))
    tail = tokens[len(tokens) - int(val_fraction * len(tokens)):]
    windows = (len(tail) - 1) // context
    inputs = tail[:windows * context].view(windows, context)
    targets = tail[1:windows * context + 1].view(windows, context)
    with torch.no_grad():
        logits = model(inputs).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()


def loss(folder, text, val_fraction, context, expected):
    found = held_out_loss(load(folder), text, float(val_fraction), int(context))
    halves = "bfloat16" in (pathlib.Path(folder) / "config.json").read_text()
    return abs(found - float(expected)), 1e-2 if halves else 1e-4


def main():
    checks = {"golden": golden, "loss": loss}
    if len(sys.argv) < 3 or sys.argv[1] not in checks:
        sys.exit(__doc__)
    error, most = checks[sys.argv[1]](*sys.argv[2:])
    print(f"{sys.argv[1]} {sys.argv[2]}: differs by {error:.2e}, at most {most:.0e}")
    sys.exit(error > most)


if __name__ == "__main__":
    main()
