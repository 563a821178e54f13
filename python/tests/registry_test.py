"""What may be registered with replica.diloco(), and what may not change afterwards."""

import contextlib
import io
import os
import tempfile
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("this Python has no torch") from None

import shoal
from shoal import _library, names
from script_util import Script, order, replica_of, steps, write_tensors
from run_test import Numbers, loss_of, plain, small_model, trained

READ, WRITE = order(_library.READ), order(_library.WRITE)


def registered(model, optimizer=None, orders=(), body=plain):
    """The script, and what was printed, of a run with this model and optimizer."""
    script, printed = Script(64, list(orders)), io.StringIO()
    with contextlib.redirect_stdout(printed), replica_of(script) as replica:
        optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
        run = replica.diloco(model, optimizer)
        for x, y in run.batches(Numbers()):
            body(run, model, optimizer, x, y)
    script.printed = printed.getvalue()
    return script


class Wrapper(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        return self.inner(*inputs)


class OptimizedModule(torch.nn.Module):  # what torch.compile makes, which PyTorch 1.13 lacks
    def __init__(self, inner):
        super().__init__()
        self._orig_mod = inner

    def forward(self, *inputs):
        return self._orig_mod(*inputs)


class DistributedDataParallel(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module


class NamesTest(unittest.TestCase):
    def of(self, model):
        return [name for name, _ in names.parameters(model)]

    def test_wrappers_add_nothing(self):
        plain_names = self.of(small_model())
        inside = small_model()
        inside[0] = OptimizedModule(inside[0])
        for model in (inside, OptimizedModule(small_model()), torch.nn.DataParallel(small_model()),
                      DistributedDataParallel(OptimizedModule(inside))):
            self.assertEqual(self.of(model), plain_names)

    def test_names_of_the_user_stay(self):
        class Own(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.module = torch.nn.Linear(1, 1)
        self.assertEqual(self.of(Own()), ["module.weight", "module.bias"])

    def test_the_order_is_that_of_pytorch(self):
        model = torch.nn.Transformer(8, 2, 1, 1, 8)
        self.assertEqual(self.of(model), [name for name, _ in model.named_parameters()])

    def test_a_list_has_numbers(self):
        shared = torch.nn.Linear(1, 1)
        self.assertEqual(self.of([shared, torch.nn.Sequential(shared, torch.nn.Linear(1, 1))]),
                         ["0.weight", "0.bias", "1.1.weight", "1.1.bias"])

    def test_a_compiled_block_is_loaded_into_the_plain_model(self):
        with tempfile.TemporaryDirectory() as folder:
            inside = small_model()
            inside[0] = OptimizedModule(inside[0])
            write = order(_library.WRITE_CHECKPOINT, text=os.fsencode(folder))
            script = registered(inside, orders=[*steps(0, 2), READ, write])
            result = small_model()
            shoal.load_checkpoint(folder, result)
            self.assertTrue(torch.equal(result[0].weight, inside[0]._orig_mod.weight))
            self.assertFalse(result.load_state_dict(shoal.load_checkpoint(folder), strict=False).missing_keys)
        self.assertEqual(script.tensors[0][0], "0.weight")

    def test_names_that_versions_before_stored_are_read(self):
        wanted = {"0.weight", "module.bias"}
        self.assertEqual(names.plain("0._orig_mod.weight", wanted), "0.weight")
        self.assertEqual(names.plain("module._orig_mod.0.weight", wanted), "0.weight")
        self.assertEqual(names.plain("module._orig_mod.bias", wanted), "module.bias")
        self.assertEqual(names.plain("else._orig_mod.weight", wanted), "else._orig_mod.weight")


class BoundaryTest(unittest.TestCase):
    def changed(self, change, orders=(READ, *steps(0, 2), READ), make=small_model):
        """What is said after `change(model, optimizer)` at the first step."""
        def body(run, model, optimizer, x, y):
            if run.step_number == 0:
                change(model, optimizer)
            plain(run, model, optimizer, x, y)
        with self.assertRaises(shoal.Error) as caught:
            registered(make(), orders=orders, body=body)
        return str(caught.exception)

    def test_what_is_unfrozen_or_frozen_is_named(self):
        def frozen():
            model = small_model()
            model[0].requires_grad_(False)
            return model
        said = self.changed(lambda model, _: model[0].requires_grad_(True), make=frozen)
        self.assertIn("0.weight requires gradients now; 0.bias requires gradients now", said)
        said = self.changed(lambda model, _: model[2].bias.requires_grad_(False))
        self.assertIn("2.bias requires gradients no longer", said)

    def test_what_is_replaced_added_or_removed_is_named(self):
        def put(model, _):
            model[0] = torch.nn.Linear(3, 5)
        self.assertIn("0.weight is another tensor", self.changed(put))
        self.assertIn("more.weight is new", self.changed(
            lambda model, _: model.add_module("more", torch.nn.Linear(2, 2))))

        def remove(model, _):
            del model[2]
        self.assertIn("2.weight is no parameter of the model any more", self.said_of(remove))

    def said_of(self, change):
        """Without a step behind it, which the changed model could not take."""
        model = small_model()
        with self.assertRaises(shoal.Error) as caught, replica_of(Script(64, [READ])) as replica:
            run = replica.diloco(model, torch.optim.SGD(model.parameters(), lr=1))
            change(model, None)
            list(run.batches(Numbers()))
        return str(caught.exception)

    def test_a_change_before_the_first_batch_is_named(self):
        def put(model, _):
            model[0] = torch.nn.Linear(3, 5)
        self.assertIn("0.weight is another tensor", self.said_of(put))

    def test_the_failure_reaches_the_agent(self):
        script = Script(64, [*steps(0, 1), READ])

        def body(run, model, optimizer, x, y):
            model[0].requires_grad_(False)
            plain(run, model, optimizer, x, y)
        with self.assertRaises(shoal.Error):
            trained(script, 64, body)
        self.assertIn("0.weight requires gradients no longer", script.failed)

    def test_a_second_model_in_the_optimizer_is_refused(self):
        other = torch.nn.Linear(7, 1)
        self.assertIn("a tensor of shape [1, 7] that is no parameter of the model", self.changed(
            lambda _, optimizer: optimizer.add_param_group({"params": other.parameters()})))
        model = small_model()
        with self.assertRaisesRegex(shoal.Error, r"shape \[1, 7\].*train apart.*register its model"):
            registered(model, torch.optim.SGD([*model.parameters(), *other.parameters()], lr=1))

    def test_a_group_of_registered_parameters_may_be_added(self):
        model = small_model()

        def body(run, model, optimizer, x, y):
            if run.step_number == 1:
                optimizer.add_param_group({"params": model[0].parameters()})
            plain(run, model, optimizer, x, y)
        script = registered(model, torch.optim.SGD(model[2].parameters(), lr=0.01),
                            [*steps(0, 3), READ], body)
        self.assertEqual(len(script.steps), 3)
        self.assertIn("no optimizer has 0.weight, 0.bias: 2 of 4", script.printed)

    def test_steps_of_another_optimizer_are_noticed(self):
        model = small_model()
        second = torch.optim.SGD(model.parameters(), lr=0.01)

        def body(run, model, optimizer, x, y):
            plain(run, model, optimizer if run.step_number < 2 else second, x, y)
        script = registered(model, None, [READ, *steps(0, 2), READ, *steps(2, 2), READ, *steps(4, 2), READ], body)
        self.assertEqual(script.printed.count("took no step in 2 inner steps up to step 3"), 1)
        self.assertEqual(script.printed.count("warning"), 1)


class ArgumentTest(unittest.TestCase):
    def refusal(self, model, optimizer):
        with self.assertRaises(shoal.Error) as caught, replica_of(Script(1, [])) as replica:
            replica.diloco(model, optimizer)
        return str(caught.exception)

    def test_what_is_no_model_is_refused(self):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1)
        for given, words in ((optimizer, "the model comes first"), (model.parameters(), "the model is generator"),
                             (None, "the model is NoneType"), ([], "the model is list"),
                             ([model, 7], "model 1 of the list is int")):
            self.assertIn(words, self.refusal(given, optimizer))

    def test_what_is_no_optimizer_is_refused(self):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for given, words in ((model, "has no param_groups"), (None, "NoneType is no optimizer"), ([], "is empty"),
                             (schedule, "give its optimizer"), ([optimizer, 7], "int is no optimizer")):
            self.assertIn(words, self.refusal(model, given))

    def test_a_second_call_is_refused(self):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1)
        with self.assertRaisesRegex(shoal.Error, "a second time"), replica_of(Script(1, [])) as replica:
            replica.diloco(model, optimizer)
            replica.diloco(model, optimizer)

    def test_parameters_that_cannot_be_averaged_are_refused_in_one_sentence(self):
        def with_parameter(parameter, name="odd"):
            model = small_model()
            model.register_parameter(name, parameter)
            return model
        odd = torch.nn.Parameter
        for parameter, words in ((odd(torch.zeros(0, 4)), r"the parameter odd has no elements.*\[0, 4\].*freeze it"),
                                 (torch.nn.parameter.UninitializedParameter(), "odd is not initialized: run a batch"),
                                 (odd(torch.zeros(2, device="meta")), "odd is on the meta device.*to_empty"),
                                 (odd(torch.zeros(2).cfloat()), "odd is torch.complex64.*freeze it")):
            model = with_parameter(parameter)
            optimizer = torch.optim.SGD(small_model().parameters(), lr=1)
            self.assertRegex(self.refusal(model, optimizer), words)
        model = with_parameter(odd(torch.zeros(1)), "a\udcff")
        self.assertIn(r"'a\udcff' has a name that is not UTF-8", self.refusal(
            model, torch.optim.SGD(model.parameters(), lr=1)))

    def test_a_frozen_parameter_without_elements_trains(self):
        model = small_model()
        model.register_parameter("none", torch.nn.Parameter(torch.zeros(0), requires_grad=False))
        self.assertEqual(len(registered(model, orders=steps(0, 2)).steps), 2)

    def test_several_models_and_optimizers_train(self):
        class Both(torch.nn.Module):
            def forward(self, x):
                return models[1](models[0](x))
        models = [torch.nn.Linear(3, 5), torch.nn.Linear(5, 2)]
        optimizers = [torch.optim.SGD(models[0].parameters(), lr=0.02, momentum=0.9),
                      torch.optim.AdamW(models[1].parameters(), lr=0.01)]

        def body(run, _, given, x, y):
            loss = loss_of(Both(), x, y)
            loss.backward()
            for one in given:
                one.step()
                one.zero_grad()
            run.step(loss)
        with tempfile.TemporaryDirectory() as folder:
            text = os.fsencode(folder)
            script = registered(models, optimizers, [*steps(0, 9), READ,
                                                     order(_library.WRITE_CHECKPOINT, text=text)], body)
            momentum = optimizers[0].state[models[0].weight]["momentum_buffer"].clone()
            taken = int(optimizers[1].state[models[1].bias]["step"])
            for one in optimizers:
                one.state.clear()
            registered(models, optimizers, [order(_library.READ_CHECKPOINT, text=text)], body)
        self.assertEqual([name for name, _ in script.tensors], ["0.weight", "0.bias", "1.weight", "1.bias"])
        self.assertLess(script.steps[-1], script.steps[0])
        self.assertEqual(script.rates[0], 0.02)
        self.assertTrue(torch.equal(optimizers[0].state[models[0].weight]["momentum_buffer"], momentum))
        self.assertEqual(int(optimizers[1].state[models[1].bias]["step"]), taken)

    def test_an_optimizer_without_a_rate_trains(self):
        model = small_model()

        class Relative(torch.optim.SGD):
            def step(self):
                self.param_groups[0]["lr"] = 1e-3
                super().step()
                self.param_groups[0]["lr"] = None
        script = registered(model, Relative(model.parameters(), lr=1.0), steps(0, 2))
        self.assertEqual(script.rates, [0.0, 0.0])

    def test_a_schedule_may_be_made_after_registering(self):
        with replica_of(Script(64, steps(0, 2))) as replica:
            model = small_model()
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
            run = replica.diloco(model, optimizer)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            for x, y in run.batches(Numbers()):
                plain(run, model, optimizer, x, y)
                schedule.step()
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 1e-5)


class LoadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.tensors = [("0.weight", torch.ones(5, 3)), ("0.bias", torch.ones(5))]
        write_tensors(self.folder, "model", self.tensors)

    def test_a_part_of_the_model_is_loaded(self):
        model = small_model()
        shoal.load_checkpoint(self.folder, torch.nn.DataParallel(model))
        self.assertEqual(model[0].bias.tolist(), [1] * 5)

    def test_where_nothing_matches_both_kinds_of_names_are_said(self):
        with self.assertRaisesRegex(shoal.Error, "no tensor of the checkpoint is in the model: it has 0.weight, "
                                                 "0.bias .*and the model inner.0.weight"):
            shoal.load_checkpoint(self.folder, Wrapper(small_model()))

    def test_what_does_not_fit_is_named_and_nothing_is_loaded(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 5, bias=False))
        before = model[0].weight.tolist()
        with self.assertRaisesRegex(shoal.Error, "0.bias is not in the model"):
            shoal.load_checkpoint(self.folder, model)
        self.assertEqual(model[0].weight.tolist(), before)
        with self.assertRaisesRegex(shoal.Error, "0.weight has shape .5, 3., the model's has .4, 3."):
            shoal.load_checkpoint(self.folder, torch.nn.Sequential(torch.nn.Linear(3, 4)))


if __name__ == "__main__":
    unittest.main()
