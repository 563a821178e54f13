"""What a run leaves as it found it, and what differs between replicas."""

import collections
import contextlib
import dataclasses
import io
import random
import unittest

try:
    import numpy
    import torch
except ImportError:
    raise unittest.SkipTest("this Python has no torch, or no NumPy") from None

import shoal
from shoal import _library, data, effects
from shoal.batch import moved
from shoal.stage import Stage
from script_util import Script, order, replica_of, steps
from run_test import Numbers, plain, small_model, trained

EVALUATE = [order(_library.EVALUATE, index=0, count=1, sequences=4)]


def run_over(orders, body, dataset=None, model=None, rank=0, ranks=1, part=None, evaluate=None, collate=None):
    """The script after `body(run, batch)` for each batch, and what was printed."""
    script, printed = Script(32, orders), io.StringIO()
    with replica_of(script, rank, ranks) as replica, contextlib.redirect_stdout(printed):
        model = model or small_model()
        run = replica.diloco(model, torch.optim.SGD(model.parameters(), lr=0.01))
        if evaluate:
            evaluate(run, model)
        for batch in run.batches(dataset or Numbers(), collate, part=part):
            body(run, batch)
            run.step(1.0)
    script.printed = printed.getvalue()
    return script


class ModeTest(unittest.TestCase):
    def modes_after_an_evaluation(self, model):
        modes = []

        def evaluated(x, y):
            self.assertFalse(any(module.training for module in model.modules()))
            return model(x).sum()
        run_over([*EVALUATE, *steps(0, 1)], lambda run, batch: modes.extend(m.training for m in model.modules()),
                 model=model, evaluate=lambda run, model: run.evaluate(Numbers(), evaluated))
        return modes

    def test_a_frozen_batch_norm_stays_frozen(self):
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
        model[0].eval()
        self.assertEqual(self.modes_after_an_evaluation(model), [True, False, True])
        self.assertEqual(model[0].running_mean.tolist(), [0, 0, 0])

    def test_a_module_with_two_parents_keeps_its_mode(self):
        shared = torch.nn.Linear(3, 3)
        model = torch.nn.Sequential(torch.nn.Sequential(shared), torch.nn.Sequential(shared))
        shared.eval()
        model.training = False  # so that each parent is restored by itself
        self.assertEqual(self.modes_after_an_evaluation(model), [False, True, False, True])

    def test_a_module_that_does_more_than_change_its_mode_does_it_again(self):
        class Merging(torch.nn.Linear):  # as adapters that are added to their weight for inference
            def train(self, mode=True):
                self.merged = not mode
                return super().train(mode)
        model = torch.nn.Sequential(Merging(3, 2))
        self.assertEqual(self.modes_after_an_evaluation(model), [True, True])
        self.assertFalse(model[0].merged)

    def test_a_stage_keeps_the_modes_of_its_modules(self):
        norm = torch.nn.BatchNorm1d(2).eval()
        model = torch.nn.Sequential(norm, torch.nn.Linear(2, 2))
        stage = Stage(model, 0, (2, 2, 2), torch.device("cpu"))
        for train in (True, False, True):
            stage.forward(0, torch.ones(2, 2, 2) * 50, train)
        self.assertEqual([m.training for m in model.modules()], [True, False, True])
        self.assertEqual(norm.running_mean.tolist(), [0, 0])
        Stage(model.eval(), 0, (2, 2, 2), torch.device("cpu"))
        self.assertTrue(norm.training, "a model that comes in eval() mode is trained")


def drawn():
    return torch.rand(()).item(), random.random(), numpy.random.rand()


class SeedTest(unittest.TestCase):
    def masks(self, orders, **more):
        seen = []
        run_over(orders, lambda run, batch: seen.append(
            tuple(torch.nn.functional.dropout(torch.ones(64)).tolist()) + drawn()[1:]), **more)
        return seen

    def test_two_replicas_draw_different_masks_and_one_draws_other_ones_at_each_step(self):
        def of(first):  # the sequences that are leased to a replica
            return [order(_library.TRAIN, step=i, first_sequence=first + 4 * i, sequences=4) for i in range(3)]
        one, other = self.masks(of(0)), self.masks(of(100))
        self.assertEqual(len(set(one) | set(other)), 6)
        self.assertEqual(one, self.masks(of(0)), "a step that is taken again draws the same")
        self.assertEqual(one[1:], self.masks(of(0)[1:]), "also where a replica begins there")

    def test_replicas_build_the_same_model(self):
        models = [run_over([order(_library.READ), *steps(i, 1)], lambda run, batch: None).read[0] for i in (0, 7)]
        self.assertEqual(*models)

    def test_ranks_draw_the_same_only_where_they_train_the_same_part(self):
        def of(rank, part):
            return self.masks(steps(0, 2), rank=rank, ranks=2, part=part)
        self.assertEqual(of(0, (0, 1)), of(1, (0, 1)))
        self.assertNotEqual(of(0, None)[0], of(1, None)[0])

    def test_replicas_draw_different_batches(self):
        class Noise(Numbers):
            def __getitem__(self, index):
                return torch.rand(3)
        seen = []
        for first in (0, 100):
            run_over([order(_library.TRAIN, step=0, first_sequence=first, sequences=4)],
                     lambda run, batch: seen.append(batch.tolist()), Noise())
        self.assertNotEqual(*seen)

    def test_a_recomputed_pass_draws_the_same(self):
        class Drawing(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight, self.seen = torch.nn.Parameter(torch.ones(())), []

            def forward(self, x):
                self.seen.append(drawn())
                return x * self.weight * self.seen[-1][1]
        module = Drawing()
        stage = Stage(module, 0, (1, 2, 2), torch.device("cpu"), recompute=True)
        before = torch.get_rng_state().tolist()
        stage.forward(0, torch.ones(1, 2, 2), True, (1, "pass", 0, 0, 0))
        stage.forward(1, torch.ones(1, 2, 2), True, (1, "pass", 0, 4, 0))
        stage.backward(0, torch.ones(4), True)
        first, second, again = module.seen
        self.assertEqual(first, again)
        self.assertNotEqual(first, second)
        self.assertEqual(before, torch.get_rng_state().tolist())

    def test_the_random_state_continues_behind_an_evaluation(self):
        def states(orders):
            seen = []

            def noisy(x, y):
                drawn()
                return x.sum()
            with replica_of(Script(32, orders)) as replica:
                model = small_model()
                run = replica.diloco(model, torch.optim.SGD(model.parameters(), lr=1))
                run.evaluate(Numbers(), noisy)
                for _ in run.batches(Numbers()):
                    run.step(1.0)
                seen.append(drawn())
            return seen
        self.assertEqual(states([*steps(0, 1), *EVALUATE]), states(steps(0, 1)))


class LoopTest(unittest.TestCase):
    def test_a_loop_over_epochs_ends_with_the_job(self):
        script, seen, after = Script(32, steps(0, 3)), [], False
        with replica_of(script) as replica:
            model = small_model()
            optimizer = torch.optim.AdamW(model.parameters())
            run = replica.diloco(model, optimizer)
            for epoch in range(3):
                for x, y in run.batches(Numbers()):
                    seen.append(epoch)
                    plain(run, model, optimizer, x, y)
            after = True
        self.assertEqual((seen, after), ([0, 0, 0], True))
        self.assertEqual(script.times_told, 1)

    def test_a_second_loop_continues_and_has_the_same_data(self):
        script, seen = Script(32, steps(0, 3)), []
        with replica_of(script) as replica:
            model = small_model()
            run = replica.diloco(model, torch.optim.SGD(model.parameters(), lr=1))
            for _ in run.batches(Numbers()):
                seen.append(run.step_number)
                run.step(1.0)
                break
            with self.assertRaisesRegex(shoal.Error, "another dataset"):
                list(run.batches(list(range(9))))
            for _ in run.batches(Numbers()):
                seen.append(run.step_number)
                run.step(1.0)
        self.assertEqual(seen, [0, 1, 2])

    def test_the_order_of_a_dataset_that_grows_stays(self):
        growing = [torch.tensor([float(i)]) for i in range(64)]
        seen = []

        def grows(run, batch):
            seen.extend(batch.flatten().tolist())
            growing.append(torch.tensor([-1.0]))
        run_over(steps(0, 16), grows, growing)
        self.assertEqual(sorted(seen), list(range(64)))


Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass(frozen=True)
class Fields:
    x: object
    name: str = "a"


class Itself:
    def to(self, device):
        self.device = device
        return self


class BatchTest(unittest.TestCase):
    def test_containers_keep_their_types(self):
        cpu, x = torch.device("cpu"), torch.ones(1)
        defaults = collections.defaultdict(list, a=x)
        for given in (Pair(x, [x, "text"]), (x,), [x], {"a": {"b": x}}, collections.OrderedDict(a=x), defaults,
                      collections.deque([x], 3), Fields((x,)), collections.UserDict(a=x), {1, 2}, "text", None, 7):
            self.assertIs(type(moved(given, cpu)), type(given))
        self.assertEqual(moved(Pair(1, 2), cpu).y, 2)
        self.assertEqual(moved(defaults, cpu)["none"], [])

    def test_tensors_arrive_and_the_given_batch_stays(self):
        meta, x = torch.device("meta"), torch.ones(1)
        for given, inner in ((Pair(x, x), lambda b: b.y), ({"a": [x]}, lambda b: b["a"][0]),
                             (Fields((x,)), lambda b: b.x[0]), (collections.UserDict(a=x), lambda b: b["a"])):
            self.assertEqual(inner(moved(given, meta)).device.type, "meta")
            self.assertEqual(inner(given).device.type, "cpu")

    def test_what_can_move_moves_itself(self):
        given = Itself()
        self.assertIs(moved([given], torch.device("meta"))[0], given)
        self.assertEqual(given.device.type, "meta")
        self.assertIs(moved(Itself, torch.device("meta")), Itself)

    def test_named_tuples_train(self):
        class Named(Numbers):
            def __getitem__(self, index):
                return Pair(*super().__getitem__(index))
        seen = []
        run_over(steps(0, 2), lambda run, batch: seen.append(batch.x.shape), Named())
        self.assertEqual(seen, [(4, 3)] * 2)


class Values:
    """Items are numbers."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return torch.tensor(float(self.values[index]))


def evaluations(count, sequences=4, first=0):
    return [order(_library.EVALUATE, index=i, count=count, sequences=sequences) for i in range(first, count)]


class EvaluationTest(unittest.TestCase):
    def mean(self, values, count=5, sequences=4, **more):
        script = run_over(evaluations(count, sequences), None, evaluate=lambda run, model: run.evaluate(
            Values(values), lambda x: x.mean()), **more)
        found = [loss for loss in script.losses if loss == loss]
        return sum(found) / len(found), len(found)

    def test_small_sets_are_evaluated_in_full(self):
        for values in ([3.0], [1.0, 2, 4], list(range(9)), [float(i**2) for i in range(17)]):
            mean, batches = self.mean(values)
            self.assertAlmostEqual(mean, sum(values) / len(values), places=5)
            self.assertEqual(batches, -(-len(values) // 4))

    def test_ranks_evaluate_a_batch_that_cannot_be_divided(self):
        values = [1.0, 2, 4, 8, 16]
        of_ranks = [self.mean(values, rank=rank, ranks=4)[0] for rank in range(4)]
        self.assertAlmostEqual(sum(of_ranks) / 4, sum(values) / 5, places=5)

    def test_each_set_of_a_dictionary_has_a_series(self):
        sets = {"small": Values([1.0, 3]), "large": Values(range(8))}
        script = run_over([*evaluations(4), *steps(0, 1), *evaluations(4)], lambda run, batch: None,
                          evaluate=lambda run, model: run.evaluate(sets, lambda x: x.mean()))
        self.assertEqual(script.logged, [("eval/small", 2.0), ("eval/large", 3.5)])
        self.assertAlmostEqual(sum(script.losses[:2]) / 2, (2.0 + 3.5) / 2, places=5)
        self.assertIn("validation loss of large: 3.5000", script.printed, "behind the last step")

    def test_bad_sets_are_refused(self):
        for given, words in (({}, "no datasets"), ({"a b": [1]}, "letters"), ({0: [1]}, "letters"),
                             ({"a": []}, "empty"), (7, "no length")):
            with self.assertRaisesRegex(shoal.Error, words):
                run_over([], None, evaluate=lambda run, model, given=given: run.evaluate(given, None))

    def test_a_loss_that_is_no_number_is_told(self):
        script = run_over(EVALUATE, None, evaluate=lambda run, model: run.evaluate(
            Values([1.0]), lambda x: x.mean() * float("nan")))
        self.assertIn("the loss of an evaluation is nan", script.printed)
        with self.assertRaisesRegex(shoal.Error, r"\[1\] is not one number|\[2\] is not one number"):
            run_over(EVALUATE, None, evaluate=lambda run, model: run.evaluate(Values([1.0, 2]), lambda x: x))


class Augmented(Numbers):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + torch.from_numpy(numpy.random.normal(0, 1, 3)).float(), y


class IdentityTest(unittest.TestCase):
    def digest(self, dataset, identity=None):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            words = list(data.digest_of(dataset, identity).words)
        return words, printed.getvalue()

    def test_random_items_are_not_compared_and_a_warning_says_so(self):
        numpy.random.seed(1)
        one, said = self.digest(Augmented())
        self.assertIn("16 of 16 items", said)
        self.assertIn("identity=", said)
        numpy.random.seed(2)
        self.assertEqual(self.digest(Augmented())[0], one)
        self.assertNotEqual(self.digest([torch.rand(1)] * 9)[0], one, "lengths differ")

    def test_objects_without_content_are_not_compared(self):
        one, said = self.digest([object() for _ in range(4)])
        self.assertIn("4 of 4 items", said)
        self.assertEqual(one, self.digest([object() for _ in range(4)])[0])

    def test_equal_items_are_compared_in_silence(self):
        one, said = self.digest(Numbers())
        self.assertEqual(said, "")
        self.assertNotEqual(one, self.digest([Numbers()[0]] * 64)[0])

    def test_a_declared_identity_takes_the_place_of_items(self):
        class Unread(Numbers):
            def __getitem__(self, index):
                raise OSError("no item is read")
        one, said = self.digest(Unread(), "imagenet-2012")
        self.assertEqual(said, "")
        self.assertEqual(one, self.digest(Numbers(), "imagenet-2012")[0])
        self.assertNotEqual(one, self.digest(Numbers(), "imagenet-2010")[0])

    def test_the_program_draws_on_as_if_nothing_was_read(self):
        effects.seed(3)
        expected = drawn()
        effects.seed(3)
        self.digest(Augmented())
        self.assertEqual(drawn(), expected)


if __name__ == "__main__":
    unittest.main()
