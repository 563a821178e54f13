"""A program's loop against a script of orders: what it trains, and what travels."""

import hashlib
import math
import os
import tempfile
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("this Python has no torch") from None

import shoal
from shoal import _library, files
from script_util import Script, order, replica_of, steps, write_tensors


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = torch.tensor([index / 64, 1 - index / 64, 0.5])
        return x, torch.stack([x.sum(), x[0] - x[1]])


def loss_of(model, x, y):
    return torch.nn.functional.mse_loss(model(x).float(), y)


def small_model():
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


def trained(orders, count, body, model=small_model, optimizer=torch.optim.AdamW):
    """The script after `body(run, model, optimizer, x, y)` has been called for each batch."""
    script = orders if isinstance(orders, Script) else Script(count, orders)
    with replica_of(script) as replica:
        model = model()
        optimizer = optimizer([p for p in model.parameters() if p.requires_grad], lr=0.01)
        run = replica.diloco(model, optimizer)
        run.evaluate(Numbers(), lambda x, y: loss_of(model, x, y))
        for x, y in run.batches(Numbers()):
            body(run, model, optimizer, x, y)
    return script


def plain(run, model, optimizer, x, y):
    loss = loss_of(model, x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    run.step(loss)


READ, WRITE = order(_library.READ), order(_library.WRITE)


class RunTest(unittest.TestCase):
    def test_a_loop_trains_and_its_parameters_travel(self):
        script = trained([READ, *steps(0, 20), READ], 32, plain)
        self.assertEqual(script.tensors, [("0.weight", 15), ("0.bias", 5), ("2.weight", 10), ("2.bias", 2)])
        self.assertEqual(script.told[0], ("0.weight", [5, 3], "F32"))
        self.assertEqual(len(script.steps), 20)
        self.assertLess(script.steps[-1], script.steps[0])
        self.assertNotEqual(script.read[0], script.read[1])
        self.assertIsNone(script.left)

    def test_parameters_are_taken_and_evaluated(self):
        script = trained([WRITE, order(_library.EVALUATE, index=0, count=2, sequences=4), READ], 32, plain)
        self.assertEqual(script.read[0], [0.0] * 32)
        y = torch.stack([Numbers()[place * 8][1] for place in range(4)])  # 8 windows of 64, evenly
        self.assertAlmostEqual(script.losses[0], y.square().mean().item(), places=5)

    def test_accumulated_gradients_are_those_of_the_whole_batch(self):
        def in_parts(run, model, optimizer, x, y):
            total = 0.0
            for part in range(2):
                loss = loss_of(model, x[part::2], y[part::2]) / 2
                loss.backward()
                total += loss.detach()
            optimizer.step()
            optimizer.zero_grad()
            run.step(total)
        whole = trained([*steps(0, 5), READ], 32, plain)
        parts = trained([*steps(0, 5), READ], 32, in_parts)
        for one, other in zip(whole.read[0], parts.read[0]):
            self.assertAlmostEqual(one, other, places=5)
        self.assertAlmostEqual(whole.steps[-1], parts.steps[-1], places=5)

    def test_autocast_trains_and_travels_in_float32(self):
        def autocast(run, model, optimizer, x, y):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(model, x, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.step(loss)
        whole = trained([*steps(0, 20), READ], 32, plain)
        script = trained([*steps(0, 20), READ], 32, autocast)
        self.assertLess(script.steps[-1], script.steps[0])
        self.assertAlmostEqual(script.steps[-1], whole.steps[-1], places=1)
        self.assertNotEqual(script.read[0], torch.tensor(script.read[0]).bfloat16().tolist())

    def test_parameters_in_bfloat16_travel_as_what_they_are(self):
        def halves(run, model, optimizer, x, y):
            plain(run, model, optimizer, x.bfloat16(), y)
        script = trained([*steps(0, 20), READ], 32, halves, lambda: small_model().bfloat16())
        self.assertEqual(script.read[0], torch.tensor(script.read[0]).bfloat16().tolist())
        self.assertLess(script.steps[-1], script.steps[0])

    def test_of_a_low_rank_adapter_nothing_else_travels(self):
        class Adapted(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.base = torch.nn.Linear(3, 2).requires_grad_(False)
                self.down = torch.nn.Linear(3, 1, bias=False)
                self.up = torch.nn.Linear(1, 2, bias=False)

            def forward(self, x):
                return self.base(x) + self.up(self.down(x))
        script = trained([*steps(0, 3), READ], 5, plain, Adapted)
        self.assertEqual(script.tensors, [("down.weight", 3), ("up.weight", 2)])

    def test_a_batch_norm_keeps_its_statistics(self):
        def with_norm():
            return torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
        script = trained([*steps(0, 3), WRITE, READ], 14, plain, with_norm)
        self.assertEqual([name for name, _ in script.tensors],
                         ["0.weight", "0.bias", "1.weight", "1.bias"])

    def test_what_is_logged_belongs_to_a_step(self):
        def logs(run, model, optimizer, x, y):
            run.log({"mean": x.mean(), "step": run.step_number})
            plain(run, model, optimizer, x, y)
            with self.assertRaisesRegex(shoal.Error, "before run.step"):
                run.log({"late": 1})
        script = trained(steps(7, 1), 32, logs)
        self.assertEqual([name for name, _ in script.logged], ["mean", "step"])
        self.assertEqual(script.logged[1][1], 7)

    def test_a_step_is_said_once(self):
        def twice(run, model, optimizer, x, y):
            plain(run, model, optimizer, x, y)
            run.step(1.0)
        with self.assertRaisesRegex(shoal.Error, "twice"):
            trained(steps(0, 1), 32, twice)
        with self.assertRaisesRegex(shoal.Error, "was not called"):
            trained(steps(0, 2), 32, lambda *_: None)


def spoiled_at(step, body=plain):
    """Trains as `body`, with a batch that is not finite at one inner step."""
    def spoiled(run, model, optimizer, x, y):
        body(run, model, optimizer, x * math.nan if run.step_number == step else x, y)
    return spoiled


class NonFiniteTest(unittest.TestCase):
    def test_after_a_bad_batch_the_anchor_trains_with_a_new_state_of_the_optimizer(self):
        # READ makes the initial parameters the library's vector, WRITE gives them back.
        script = trained([READ, *steps(0, 3), WRITE, *steps(3, 3), READ], 32, spoiled_at(1))
        self.assertEqual([math.isfinite(loss) for loss in script.steps],
                         [True, False, False, True, True, True])
        self.assertTrue(all(map(math.isfinite, script.read[-1])))

    def test_a_state_that_is_finite_is_kept_where_the_anchor_is_written(self):
        seen = []

        def watched(run, model, optimizer, x, y):
            seen.append(int(next(iter(optimizer.state.values()))["step"]) if optimizer.state else 0)
            plain(run, model, optimizer, x, y)
        trained([READ, *steps(0, 3), WRITE, *steps(3, 2)], 32, watched)
        self.assertEqual(seen, [0, 1, 2, 3, 4])

    def test_a_checkpoint_names_the_tensor_that_is_not_finite_and_the_training_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            write = order(_library.WRITE_CHECKPOINT, text=os.fsencode(folder))
            script = trained([READ, *steps(0, 2), write, WRITE, *steps(2, 1), READ], 32, spoiled_at(1))
            self.assertEqual(os.listdir(folder), [])
        self.assertRegex(script.failed, "^the checkpoint is not written, because 0.weight.exp_avg of its optimizer's "
                                        "state has values that are not finite .lower the learning rate")
        self.assertEqual(len(script.steps), 3)

    def test_an_old_checkpoint_with_such_a_state_is_continued_without_it(self):
        with tempfile.TemporaryDirectory() as folder:
            text = os.fsencode(folder)
            trained([READ, *steps(0, 2), order(_library.WRITE_CHECKPOINT, text=text)], 32, plain)
            place = os.path.join(folder, "optimizer.safetensors")
            tensors, metadata = files.read_tensors(place)
            tensors["0.weight.exp_avg"][0] = math.nan
            write_tensors(folder, "optimizer", list(tensors.items()), metadata["state"])
            script = trained([order(_library.READ_CHECKPOINT, text=text), WRITE, *steps(2, 3), READ], 32, plain)
        self.assertTrue(all(map(math.isfinite, script.steps)))
        self.assertTrue(all(map(math.isfinite, script.read[-1])))


class CheckpointTest(unittest.TestCase):
    def test_a_run_goes_on_from_its_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            text = os.fsencode(folder)
            # The library's vector is the anchor: READ fills it before it is written.
            write = [READ, order(_library.WRITE_CHECKPOINT, text=text)]
            straight = trained([*steps(0, 3), *write, *steps(3, 3), READ], 32, plain)
            resumed = trained([order(_library.READ_CHECKPOINT, text=text), WRITE, *steps(3, 3), READ],
                              32, plain)
        self.assertEqual(straight.read[-1], resumed.read[-1])

    def test_what_is_reported_is_what_lies_in_the_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            script = trained([*steps(0, 2), READ, order(_library.WRITE_CHECKPOINT, text=os.fsencode(folder))],
                             32, plain)
            self.assertEqual({name: role for name, role, _, _ in script.written},
                             {"optimizer.safetensors": "inner/optimizer"})
            self.assertEqual(sorted(os.listdir(folder)), ["model.safetensors", "optimizer.safetensors"])
            for name, _, size, sha256 in script.written:
                with open(os.path.join(folder, name), "rb") as file:
                    content = file.read()
                self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (size, sha256))

    def test_a_run_begins_from_the_checkpoint_of_another_job(self):
        with tempfile.TemporaryDirectory() as folder:
            text = os.fsencode(folder)
            old = trained([*steps(0, 3), READ, order(_library.WRITE_CHECKPOINT, text=text)], 32, plain)
            new = trained([order(_library.SEED, text=text), READ], 32, plain)
            self.assertEqual(old.read[-1], new.read[0])
            built = trained([order(_library.SEED, text=b""), READ], 32, plain)
            self.assertNotEqual(old.read[-1], built.read[0])

            def other():
                return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
            with self.assertRaisesRegex(shoal.Error, "0.weight has shape .5, 3., the model's has .4, 3."):
                trained([order(_library.SEED, text=text)], 26, plain, model=other)


if __name__ == "__main__":
    unittest.main()
