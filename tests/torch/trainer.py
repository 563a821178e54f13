"""The same Llama by the Trainer of `transformers`, with its own schedule and accumulation."""

import pathlib
import tempfile

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

import shoal
import shoal.hf
from bytes_of_text import windows


class Labeled(torch.utils.data.Dataset):
    """The model shifts labels itself."""

    def __init__(self, tokens):
        self.tokens = tokens

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        window = self.tokens[index][0]
        return {"input_ids": window, "labels": window}


with shoal.join() as replica:
    folder = pathlib.Path(__file__).with_name("llama3")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    training, held_out = (Labeled(tokens) for tokens in windows(replica))
    args = TrainingArguments(output_dir=tempfile.mkdtemp(), learning_rate=1e-3, warmup_steps=5,
                             gradient_accumulation_steps=2, use_cpu=True, report_to=[],
                             save_strategy="no", disable_tqdm=True, logging_steps=10)
    trainer = Trainer(model=model, args=args, train_dataset=training, eval_dataset=held_out)
    shoal.hf.attach(replica, trainer)
    trainer.train()
