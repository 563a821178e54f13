"""Stages of a pipeline: their gradients, their cut, their names, the files of their checkpoints."""

import itertools
import os
import sys
import tempfile
import types
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("this Python has no torch") from None

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/python"))
import pipeline as example  # noqa: E402

import shoal  # noqa: E402
from script_util import Script, replica_of  # noqa: E402
from shoal import _library, cut, data, files  # noqa: E402
from shoal.stage import Stage  # noqa: E402
from shoal.state import State  # noqa: E402
from shoal.vectors import Vectors  # noqa: E402

SIZES = {"layers": 4, "hidden": 16, "ffn": 32, "heads": 2, "vocab": 32, "context": 8}
SEQUENCES = 3
CPU = torch.device("cpu")


def model():
    torch.manual_seed(1)
    return example.llama(SIZES)


def items(count):
    torch.manual_seed(2)
    return [(torch.randint(32, (SEQUENCES, 8)), torch.randint(32, (SEQUENCES, 8)))
            for _ in range(count)]


def stages(whole, cuts, recompute=False):
    ends = [0, *cuts, len(whole)]
    shape = (SEQUENCES, 8, 16)
    return [Stage(torch.nn.Sequential(*list(whole)[a:b]), i, shape, CPU, example.loss_of, recompute)
            for i, (a, b) in enumerate(zip(ends, ends[1:]))]


def through(parts, x, y, number=0, add=True):
    """A microbatch forth and back, as the pipeline moves it: flat float32 values."""
    for part in parts[:-1]:
        x = part.forward(number, x, True).detach().float().flatten()
        x = parts[part._number + 1].received(x, True)
    loss, gradient = parts[-1].loss(x, y, True, add)
    for part in reversed(parts[:-1]):
        gradient = part.backward(number, gradient.float().flatten(), add)
    return loss, gradient


class StageTest(unittest.TestCase):
    def expect_whole_gradients(self, recompute):
        whole, batches = model(), items(4)
        losses = [example.loss_of(whole(x), y) for x, y in batches]
        (sum(losses) / len(losses)).backward()
        expected = {n: p.grad for n, p in whole.named_parameters()}
        copy = model()
        parts = stages(copy, [2, 5], recompute)
        for i, (x, y) in enumerate(batches):
            loss, gradient = through(parts, x, y, i)
            self.assertIsNone(gradient, "stage 0 has none of its input")
            self.assertAlmostEqual(loss, losses[i].item(), places=5)
        for part in parts:
            self.assertGreater(part.scale_gradients(len(batches) * part.tokens), 0)
        for name, parameter in copy.named_parameters():
            torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-7,
                                       msg=lambda text, name=name: f"{name}: {text}")

    def test_gradients_are_those_of_the_whole_model(self):
        self.expect_whole_gradients(False)

    def test_also_when_activations_are_computed_again(self):
        self.expect_whole_gradients(True)

    def test_what_is_not_added_leaves_the_gradients_alone(self):
        parts = stages(model(), [3])
        (x, y), = items(1)
        _, gradient = through(parts, x, y, add=False)
        self.assertIsNone(gradient)
        self.assertTrue(all(p.grad is None for part in parts for p in part.module.parameters()))

    def test_an_evaluation_keeps_nothing(self):
        parts = stages(model(), [3])
        (x, y), = items(1)
        output = parts[0].forward(7, x, False)
        loss, gradient = parts[1].loss(parts[1].received(output.flatten(), False), y, False, False)
        self.assertAlmostEqual(loss, example.loss_of(model()(x), y).item(), places=5)
        self.assertIsNone(gradient)
        self.assertEqual(parts[0]._kept, {})

    def test_a_tensor_of_another_shape_is_refused_by_the_fields_that_say_it(self):
        with self.assertRaisesRegex(shoal.Error, r"stage 0 gives \[3, 8, 32\].*model\.hidden"):
            Stage(model(), 0, (SEQUENCES, 8, 16), CPU).forward(0, items(1)[0][0], True)
        with self.assertRaisesRegex(shoal.Error, r"not one mean loss"):
            stage = stages(model(), [3])[1]
            stage._loss_of = lambda logits, y: logits
            stage.loss(torch.zeros(SEQUENCES, 8, 16), None, False, False)

    def test_half_precision_takes_and_gives_float32(self):
        parts = stages(model().bfloat16(), [3])
        (x, y), = items(1)
        loss, _ = through(parts, x, y)
        self.assertAlmostEqual(loss, example.loss_of(model()(x), y).item(), places=1)


class StepsTest(unittest.TestCase):
    JOB = {"model": {"hidden": 16, "context": 8}, "swarm": {"recompute": "keep"}}

    def trained(self, given, at_step, orders=1, **more):
        """A replica of stage 1 of 2 takes inner steps 6 and following."""
        script = Script(1, [_library.Order(kind=_library.STEP, step=6 + i, count=16)
                            for i in range(orders)],
                        place=(1, 2), tables=self.JOB, microbatch=SEQUENCES)
        with replica_of(script) as replica:
            run = replica.pipeline(given, example.optimizer_of, example.loss_of, **more)
            run.evaluate(example.shoal.Tokens(torch.zeros(64, dtype=torch.long), 8))
            for step in run.steps(example.shoal.Tokens(torch.zeros(64, dtype=torch.long), 8)):
                at_step(run, step)
        return script

    def test_numbers_are_logged_within_a_step_of_a_stage(self):
        whole = model()

        def logs(run, step):
            run.optimizer.step()
            run.log({"norm/stage1": torch.tensor(2.5), "step": step})
            self.run = run
        script = self.trained([whole[:3], whole[3:]], logs)
        self.assertEqual(script.logged, [("norm/stage1", 2.5), ("step", 6)])
        self.assertEqual(len(script.stage_steps), 1)
        with self.assertRaisesRegex(shoal.Error, "belongs to an inner step"):
            self.run.log({"late": 1})

    def test_of_functions_only_the_replicas_own_is_called(self):
        def never():
            raise AssertionError("stage 0 is another replica's")

        def second():
            return torch.nn.Sequential(*model()[3:])
        script = self.trained([never, second], lambda run, step: run.optimizer.step())
        self.assertEqual(script.tensors[0], ("1.0.norm1.weight", 16))
        self.assertEqual(len(script.stage_steps), 1)

    def test_stages_that_are_made_draw_numbers_of_their_own(self):
        def made(number, seed=1):
            return cut.made_stage([lambda: torch.nn.Linear(4, 4)] * 2, 2, number, seed).weight
        self.assertTrue(torch.equal(made(1), made(1)), "every replica makes the same")
        self.assertFalse(torch.equal(made(0), made(1)))
        self.assertFalse(torch.equal(made(1), made(1, seed=2)))

    def test_what_does_not_fit_to_functions_is_refused(self):
        with self.assertRaisesRegex(shoal.Error, r"stages\[1\]\(\) gives int"):
            self.trained([model, lambda: 7], None)
        with self.assertRaisesRegex(shoal.Error, "swarm.stages = 3"):
            self.trained([model] * 3, None)
        with self.assertRaisesRegex(shoal.Error, "no whole model"):
            self.trained([model] * 2, None, model=model())
        with self.assertRaisesRegex(shoal.Error, r"the program's stage has .* describes 1,048,576"):
            self.trained([model, lambda: torch.nn.Linear(1200, 1200)], None)

    def test_a_program_that_does_not_step_is_told_so(self):
        whole = model()
        with self.assertRaisesRegex(shoal.Error, r"run\.optimizer\.step\(\) was not called"):
            self.trained([whole[:3], whole[3:]], lambda run, step: None)


class CutTest(unittest.TestCase):
    def example(self):
        return torch.zeros(1, 8, dtype=torch.long)

    def test_stages_are_alike_and_each_replica_finds_the_same(self):
        self.assertEqual(cut.cut_sequential(model(), 2, self.example(), 16), [3])
        self.assertEqual(cut.cut_sequential(model(), 5, self.example(), 16),
                         cut.cut_sequential(model(), 5, self.example(), 16))

    def test_a_large_head_is_alone(self):
        sizes = {**SIZES, "vocab": 4096}
        torch.manual_seed(1)
        self.assertEqual(cut.cut_sequential(example.llama(sizes), 2, self.example(), 16), [6])

    def test_the_largest_share_is_as_small_as_it_can_be(self):
        torch.manual_seed(3)
        for _ in range(20):
            shares = torch.rand(7, 2).softmax(0).tolist()
            allowed = set(torch.randperm(6)[:4].add(1).tolist())

            def largest(cuts, shares=shares):
                ends = [0, *cuts, 7]
                return max(sum(share[of] for share in shares[a:b])
                           for a, b in zip(ends, ends[1:]) for of in (0, 1))
            least = min(map(largest, itertools.combinations(sorted(allowed), 2)))
            found = cut._cheapest(shares, allowed, 3)
            self.assertTrue(set(found) <= allowed)
            self.assertAlmostEqual(largest(found), least)

    def test_products_of_matrices_are_most_of_the_work(self):
        whole = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Conv1d(8, 4, 3))
        products = [2 * 8 * 16 * 32, 2 * (4 * 30) * (8 * 3)]
        for (work, _, _), least in zip(cut._measured(whole, torch.ones(1, 8, 16)), products):
            self.assertTrue(least < work < 1.5 * least, (least, work))

    def test_memory_counts_where_there_is_little_work(self):
        whole = torch.nn.Sequential(torch.nn.Embedding(100_000, 16),
                                    *[torch.nn.Linear(16, 16) for _ in range(4)])
        self.assertEqual(cut.cut_sequential(whole, 2, self.example(), 16), [1])

    def test_it_is_cut_only_where_the_tensor_has_the_width_of_the_job(self):
        whole = torch.nn.Sequential(torch.nn.Embedding(8, 16), torch.nn.Linear(16, 64),
                                    torch.nn.Linear(64, 64), torch.nn.Linear(64, 16))
        self.assertEqual(cut.cut_sequential(whole, 2, self.example(), 16), [1])
        with self.assertRaisesRegex(shoal.Error, "model.hidden = 7"):
            cut.cut_sequential(whole, 2, self.example(), 7)

    def test_a_list_has_as_many_stages_as_the_job(self):
        parts = [torch.nn.Linear(2, 2)] * 3
        self.assertEqual(cut.stages_of(parts, 3, None, 2), parts)
        with self.assertRaisesRegex(shoal.Error, "swarm.stages = 3"):
            cut.stages_of(parts, 2, None, 2)
        with self.assertRaisesRegex(shoal.Error, "example=x"):
            cut.stages_of(torch.nn.Sequential(*parts), 2, None, 2)

    def test_tied_weights_are_refused_by_their_names(self):
        whole = model()
        whole[-1].weight = whole[0].weight
        with self.assertRaisesRegex(shoal.Error, r"0\.weight is of stage 0 and of stage 1"):
            cut.names_of([whole[:3], whole[3:]], whole)
        self.assertTrue(cut.names_of([whole], whole), "within one stage they may be")

    def test_a_model_that_is_larger_than_the_job_says_is_refused(self):
        cut.check_size([model()], sum(p.numel() for p in model().parameters()))
        with self.assertRaisesRegex(shoal.Error, r"describes 1,000"):
            cut.check_size([model()], 1000)


class CheckpointTest(unittest.TestCase):
    def test_the_stages_of_a_checkpoint_join_to_the_whole_model(self):
        whole = model()
        parts = [torch.nn.Sequential(*whole[:3]), torch.nn.Sequential(*whole[3:])]
        names = cut.names_of(parts, whole)
        with tempfile.TemporaryDirectory() as folder:
            for number, part in enumerate(parts):
                vectors = Vectors(part, names)
                anchor = torch.zeros(sum(count for _, count in vectors.sizes()))
                vectors.read_into(anchor)
                order = types.SimpleNamespace(text=folder.encode(), index=number, count=2)
                written = files.write_checkpoint(order, vectors,
                                                 State([torch.optim.SGD(part.parameters(), lr=1.0)], {}))
                self.assertEqual([one[:2] for one in written],
                                 [(f"optimizer-0000{number + 1}-of-00002.json", "inner/optimizer")])
                files.write_object((folder.encode(), number, 2), "inner/model", list(vectors.split(anchor)))
            files.write_index(folder, [Vectors(part, names).sizes() for part in parts])
            joined = shoal.load_checkpoint(folder)
            other = example.llama(SIZES)
            other.load_state_dict(joined)
            (x, _), = items(1)
            self.assertTrue(torch.equal(other(x), whole(x)))
            os.remove(os.path.join(folder, files._INDEX))  # of stages that were made one by one
            self.assertEqual(shoal.load_checkpoint(folder).keys(), joined.keys())
            os.remove(os.path.join(folder, "model-00002-of-00002.safetensors"))
            with self.assertRaises(FileNotFoundError):
                shoal.load_checkpoint(folder)


class HeldOutTest(unittest.TestCase):
    def test_microbatches_are_spread_and_begin_again(self):
        def of(first, wanted, length=100):
            return data.held_out_microbatch(range(length), first, 2, wanted, list)
        self.assertEqual(of(0, 4), [0, 25])
        self.assertEqual(of(2, 4), [50, 75])
        self.assertEqual(of(2, 8, length=3), [2, 0])

    def test_of_a_small_set_each_item_weighs_the_same(self):
        self.assertEqual(data.held_out_rows(9, 4, 4, 8), (4, 1.0))
        self.assertEqual(data.held_out_rows(9, 8, 4, 8), (0, 0.0))
        rows, weights = zip(*[data.held_out_rows(6, first, 4, 100) for first in (0, 4, 8)])
        self.assertEqual(rows, (4, 2, 0))
        self.assertAlmostEqual(weights[0] / weights[1], 2)
        self.assertAlmostEqual(sum(weights), 2)


if __name__ == "__main__":
    unittest.main()
