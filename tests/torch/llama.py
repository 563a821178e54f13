"""A Llama of `transformers` whose weights lie beside this file, all of them trained."""

import pathlib

import torch
from transformers import AutoModelForCausalLM

import shoal
from bytes_of_text import adamw, train

with shoal.join() as replica:
    folder = pathlib.Path(__file__).with_name("llama3")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(replica.device)
    train(replica, model, adamw(replica, model))
