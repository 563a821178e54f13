"""Two ranks of each replica hold a Llama in shards, by fully_shard."""

import pathlib

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM

import shoal
from bytes_of_text import adamw, train

shoal.torchrun(2)
with shoal.join() as replica:
    folder = pathlib.Path(__file__).with_name("llama3")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    mesh = init_device_mesh("cpu", (replica.ranks,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(replica, model, adamw(replica, model))
