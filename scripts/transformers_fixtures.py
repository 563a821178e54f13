#!/usr/bin/env python3
"""Small models with random weights, made by the real `transformers`, and the logits it computes for
them. The tests of the trainer load these folders and must come to the same logits.

usage: transformers_fixtures.py FOLDER

Writes FOLDER/NAME with config.json, the weights as safetensors, and golden.safetensors: `tokens`
[2, 12] and `logits` [2, 12, 256], in float32. Needs torch and transformers, as `./dev test --torch`
installs them.
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

SIZES = dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=256, max_position_embeddings=64, bos_token_id=None,
    eos_token_id=None, pad_token_id=None)


def llama3():
    """Heads of another size than hidden / heads; an old context so short that scaling shows."""
    scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=16)
    config = LlamaConfig(**SIZES, head_dim=12, rms_norm_eps=1e-6, rope_theta=500000.0,
                         rope_scaling=scaling, tie_word_embeddings=False)
    return LlamaForCausalLM(config), torch.float32, "1GB"


def linear():
    """Half precision, in several files."""
    config = LlamaConfig(**SIZES, rms_norm_eps=1e-5, rope_theta=10000.0,
                         rope_scaling=dict(rope_type="linear", factor=4.0),
                         tie_word_embeddings=False)
    return LlamaForCausalLM(config), torch.float16, "20KB"


def qwen2():
    """Biases of q, k and v; head and embedding share their matrix."""
    config = Qwen2Config(**SIZES, rms_norm_eps=1e-6, rope_theta=1000000.0, tie_word_embeddings=True)
    return Qwen2ForCausalLM(config), torch.bfloat16, "1GB"


def randomize(model):
    """The library's initial norms are 1 and biases 0: a mistake with them would not show."""
    for name, values in model.named_parameters():
        center = 1.0 if "norm" in name else 0.0
        torch.nn.init.normal_(values, center, 0.3 if values.dim() == 1 else 0.15)


def write(folder, make):
    torch.manual_seed(len(make.__name__))
    model, dtype, shard = make()
    randomize(model)
    model.eval()
    for values in model.parameters():  # as stored; buffers, such as angles, stay exact
        values.data = values.data.to(dtype).to(torch.float32)
    tokens = torch.randint(0, SIZES["vocab_size"], (2, 12))
    with torch.no_grad():
        logits = model(tokens).logits
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    save_file({"tokens": tokens.to(torch.float32), "logits": logits.contiguous()},
              folder / "golden.safetensors")
    (folder / "generation_config.json").unlink(missing_ok=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for make in (llama3, linear, qwen2):
        write(pathlib.Path(sys.argv[1]) / make.__name__, make)


if __name__ == "__main__":
    main()
