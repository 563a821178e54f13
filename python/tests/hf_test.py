"""The Trainer of `transformers` against a script of orders; `./dev test --torch` has it."""

import tempfile
import unittest

try:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
except ImportError:
    raise unittest.SkipTest("this Python has no transformers") from None

import shoal
import shoal.hf
from shoal import _library
from script_util import Script, order, replica_of, steps


class Windows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        window = (torch.arange(16) + index) % 32
        return {"input_ids": window, "labels": window}


def model():
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, vocab_size=32,
        max_position_embeddings=16, bos_token_id=None, eos_token_id=None, pad_token_id=None))


def trained(orders, batch=4, **arguments):
    count = sum(p.numel() for p in model().parameters())
    script = Script(count, orders, steps=20, batch=batch)
    with tempfile.TemporaryDirectory() as folder, replica_of(script) as replica:
        args = TrainingArguments(output_dir=folder, use_cpu=True, report_to=[], save_strategy="no",
                                 disable_tqdm=True, learning_rate=1e-2, lr_scheduler_type="linear",
                                 **arguments)
        trainer = Trainer(model=model(), args=args, train_dataset=Windows(), eval_dataset=Windows())
        shoal.hf.attach(replica, trainer)
        trainer.train()
    return script


READ = order(_library.READ)


class TrainerTest(unittest.TestCase):
    def test_a_trainer_trains_until_the_job_ends(self):
        evaluate = order(_library.EVALUATE, index=0, count=1, sequences=4)
        script = trained([READ, *steps(0, 20), evaluate, READ])
        self.assertEqual(len(script.steps), 20)
        self.assertLess(script.steps[-1], script.steps[0] - 0.5)
        self.assertLess(script.losses[0], script.steps[0])
        self.assertNotEqual(script.read[0], script.read[1])

    def test_the_schedule_is_the_jobs_where_a_replica_joins_later(self):
        script = trained([*steps(0, 2), *steps(10, 2)])
        for rate, next_step in zip(script.rates, (1, 2, 11, 12)):
            self.assertAlmostEqual(rate, 1e-2 * (20 - next_step) / 20)

    def test_accumulation_divides_a_batch(self):
        whole = trained([*steps(0, 5), READ])
        parts = trained([*steps(0, 5), READ], gradient_accumulation_steps=2)
        self.assertEqual(len(parts.steps), 5)
        for one, other in zip(whole.steps, parts.steps):
            self.assertAlmostEqual(one, other, places=4)
        with self.assertRaisesRegex(shoal.Error, "cannot be divided into 3 parts"):
            trained([], gradient_accumulation_steps=3)


if __name__ == "__main__":
    unittest.main()
