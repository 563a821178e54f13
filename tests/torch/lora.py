"""Adapters of rank 4 on the attention of the same Llama, by `peft`: nothing else travels."""

import pathlib

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

import shoal
from bytes_of_text import adamw, train

with shoal.join() as replica:
    folder = pathlib.Path(__file__).with_name("llama3")
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    adapters = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
    model = get_peft_model(base, adapters)
    train(replica, model, adamw(replica, model))
