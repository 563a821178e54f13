"""A LightningModule under Shoal, as docs/python.md has it."""

import lightning
import torch
import torch.nn.functional as F

import shoal
from bytes_of_text import windows


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Embedding(256, 32), torch.nn.Linear(32, 256))

    def training_step(self, batch, index):
        return F.cross_entropy(self.model(batch[0]).flatten(0, 1), batch[1].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class Leased:
    """Lightning fetches a batch ahead from what has no length."""

    def __init__(self, batches, steps):
        self.batches, self.steps = batches, steps

    def __len__(self):
        return self.steps

    def __iter__(self):
        return self.batches


class Shoal(lightning.Callback):
    def __init__(self, replica, dataset):
        self.replica, self.dataset = replica, dataset

    def setup(self, trainer, module, stage):
        module.train_dataloader = self.load
        self.trainer, self.module = trainer, module

    def load(self):
        self.run = self.replica.diloco(self.module, self.trainer.optimizers[0])
        return Leased(self.run.batches(self.dataset), 2**62)

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        self.run.step(outputs["loss"])


with shoal.join() as replica:
    training, _ = windows(replica)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, callbacks=[Shoal(replica, training)])
    trainer.fit(Module())
