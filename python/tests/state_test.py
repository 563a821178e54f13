"""What checkpoints keep of optimizers, schedules, scalers and buffers, and what they say of the rest."""

import collections
import contextlib
import io
import os
import tempfile
import unittest

try:
    import numpy
    import torch
except ImportError:
    raise unittest.SkipTest("this Python has no torch, or no NumPy") from None

import shoal
from shoal import _library, files, trees
from script_util import Script, order, replica_of, steps, write_tensors
from run_test import Numbers, loss_of, small_model, trained

READ, WRITE = order(_library.READ), order(_library.WRITE)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        text = os.fsencode(folder.name)
        self.write = [READ, order(_library.WRITE_CHECKPOINT, text=text)]
        self.read = [order(_library.READ_CHECKPOINT, text=text), WRITE]

    def run_of(self, orders, make, model=small_model, before=lambda run, model, optimizer: None, count=64, **more):
        """The script, what was printed, the model and its optimizer. `make(model)`: the optimizer;
        `before(run, model, optimizer)`: called before the loop, may give a function for each step."""
        script, printed = Script(count, orders), io.StringIO()
        with contextlib.redirect_stdout(printed), replica_of(script) as replica:
            model = model()
            optimizer = make(model)
            run = replica.diloco(model, optimizer, **more)
            each = before(run, model, optimizer) or (lambda: None)
            for x, y in run.batches(Numbers()):
                def closure(x=x, y=y):
                    optimizer.zero_grad()
                    loss = loss_of(model, x, y)
                    loss.backward()
                    return loss
                loss = optimizer.step(closure)
                each()
                run.step(loss)
        script.printed, script.model, script.optimizer = printed.getvalue(), model, optimizer
        return script

    def continued(self, make, before=lambda run, model, optimizer: None, **more):
        """Two runs: one goes straight on, the other from the first one's checkpoint."""
        straight = self.run_of([*steps(0, 3), *self.write, *steps(3, 3), READ], make, before=before, **more)
        resumed = self.run_of([*self.read, *steps(3, 3), READ], make, before=before, **more)
        return straight, resumed


def counting(model):
    """As Prodigy or Schedule-Free: numbers in the group, tensors in a list, a text."""
    return Counting(model.parameters())


class Counting(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-2, "k": 0, "d": 1e-6, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            loss = closure()
        for group in self.param_groups:
            group["k"] += 1
            group["d"] *= 1.5
            group["mean"] = torch.tensor(float(group["k"]))
            for parameter in group["params"]:
                state = self.state[parameter]
                past = state.setdefault("past", [torch.zeros_like(parameter)] * 2)
                state["past"] = [past[1], parameter.grad + past[0]]
                state["phase"] = state.get("phase", torch.ones(2, dtype=torch.complex64)) * 1j
                state["label"], state["nested"] = "a", {"t": torch.tensor(group["k"]), 7: (1, None)}
                parameter.add_(state["past"][0] + state["past"][1], alpha=-group["lr"] / group["k"])
        return loss


class OptimizerTest(Folder):
    def test_every_optimizer_of_pytorch_continues_where_it_was(self):
        for kind in ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta",
                     "ASGD", "LBFGS"):
            with self.subTest(kind):
                more = {"momentum": 0.9} if kind == "SGD" else {"amsgrad": True} if kind == "AdamW" else {}

                def make(model, kind=kind, more=more):
                    return getattr(torch.optim, kind)(model.parameters(), lr=0.01, **more)
                straight, resumed = self.continued(make)
                self.assertEqual(straight.read[-1], resumed.read[-1])
                self.assertNotIn("warning", straight.printed + resumed.printed)

    def test_numbers_of_groups_lists_texts_and_any_type_continue(self):
        straight, resumed = self.continued(counting)
        self.assertEqual(straight.read[-1], resumed.read[-1])
        group = resumed.optimizer.param_groups[0]
        self.assertEqual((group["k"], group["d"], float(group["mean"])), (6, 1e-6 * 1.5**6, 6.0))
        state = resumed.optimizer.state[resumed.model[0].weight]
        self.assertEqual((state["label"], state["nested"][7]), ("a", (1, None)))
        self.assertTrue(torch.equal(state["phase"], torch.full((2,), 1j**6, dtype=torch.complex64)))
        self.assertNotIn("warning", straight.printed)

    def test_state_keeps_its_type_where_the_parameter_has_another(self):
        def doubles():
            return small_model().double()

        def body(run, model, optimizer, x, y):
            loss = loss_of(model, x.double(), y)
            loss.backward()
            optimizer.step()
            optimizer.state[model[0].weight]["codes"] = torch.arange(3, dtype=torch.uint8)
            optimizer.zero_grad()
            run.step(loss)
        seen = []

        def watched(run, model, optimizer, x, y):
            seen.append(optimizer.state[model[0].weight]["codes"].dtype)
            body(run, model, optimizer, x, y)
        trained([*steps(0, 1), *self.write], 32, body, doubles)
        trained([*self.read, *steps(1, 1)], 32, watched, doubles)
        self.assertEqual(seen, [torch.uint8])

    def test_what_cannot_be_stored_is_named_before_the_second_step_and_the_rest_is_stored(self):
        class Odd(torch.optim.SGD):
            def step(self, closure):
                loss = super().step(closure)
                self.state[self.param_groups[0]["params"][0]]["function"] = print
                return loss

        def make(model):
            return Odd(model.parameters(), lr=0.01, momentum=0.9)

        def before(run, model, optimizer):
            optimizer.param_groups[0]["mask"] = object()
        straight = self.run_of([*steps(0, 3), *self.write], make, before=before)
        self.assertIn("checkpoints will lack a value of Odd, because group0.mask is a object", straight.printed)
        self.assertIn("the state of 0.weight in Odd, because 0.weight.function is a builtin_function_or_method",
                      straight.printed)
        self.assertEqual(straight.printed.count("warning"), 2, "each is said once")
        tensors, _ = files.read_tensors(os.path.join(self.folder, "optimizer.safetensors"))
        self.assertEqual(sorted(tensors), [f"{name}.momentum_buffer" for name in ("0.bias", "2.bias", "2.weight")])

    def test_a_changed_value_of_the_program_stays(self):
        def make(rate):
            return lambda model: torch.optim.SGD(model.parameters(), lr=rate, weight_decay=0.1)

        def decays(run, model, optimizer):
            def each():
                optimizer.param_groups[0]["lr"] *= 0.5
            return each
        self.run_of([*steps(0, 3), *self.write], make(0.8), before=decays)
        same = self.run_of([*self.read, *steps(3, 1)], make(0.8))
        other = self.run_of([*self.read, *steps(3, 1)], make(0.3))
        self.assertAlmostEqual(same.rates[0], 0.1)
        self.assertAlmostEqual(other.rates[0], 0.3)

    def test_more_groups_in_the_checkpoint_are_dropped_with_a_warning(self):
        def make(model):
            return torch.optim.AdamW(model[2].parameters(), lr=0.01)

        def grows(run, model, optimizer):
            return lambda: len(optimizer.param_groups) == 1 and optimizer.add_param_group(
                {"params": list(model[0].parameters()), "lr": 1e-4})
        straight, resumed = self.continued(make, grows)
        self.assertIn("AdamW has 1 parameter groups, and 2 in the checkpoint", resumed.printed)
        self.assertIn("0.weight is in no optimizer", resumed.printed)
        self.assertEqual(int(resumed.optimizer.state[resumed.model[2].bias]["step"]), 6)
        self.assertEqual(int(resumed.optimizer.state[resumed.model[0].bias]["step"]), 2)

    def test_the_state_of_another_optimizer_is_dropped_with_a_warning(self):
        self.run_of([*steps(0, 2), *self.write], lambda model: torch.optim.SGD(model.parameters(), lr=1, momentum=0.9))
        resumed = self.run_of([*self.read, *steps(2, 1)], lambda model: torch.optim.Adam(model.parameters()))
        self.assertIn("the optimizer is Adam, and the checkpoint has the state of SGD: it begins anew",
                      resumed.printed)
        self.assertEqual(len(resumed.steps), 1)

    def test_an_optimizer_with_a_form_of_its_own_is_stored_whole(self):
        class Own(torch.optim.SGD):
            count = 0

            def step(self, closure):
                self.count += 1
                return super().step(closure)

            def state_dict(self):
                return {"own": {"count": self.count}}

            def load_state_dict(self, state):
                self.count = state["own"]["count"]
        straight, resumed = self.continued(lambda model: Own(model.parameters(), lr=0.01))
        self.assertEqual(resumed.optimizer.count, 6)

    def test_a_checkpoint_of_a_version_before_is_continued(self):
        def make(model):
            return torch.optim.AdamW(model.parameters(), lr=0.01)
        straight = self.run_of([*steps(0, 3), *self.write, *steps(3, 3), READ], make)
        place = os.path.join(self.folder, "optimizer.safetensors")
        tensors, _ = files.read_tensors(place)
        order_of = ["0.weight", "0.bias", "2.weight", "2.bias"]
        old = [(f"{order_of.index(name.rpartition('.')[0])}.{name.rpartition('.')[2]}", values)
               for name, values in tensors.items()]
        write_tensors(self.folder, "optimizer", old)  # without a document
        self.assertEqual(self.run_of([*self.read, *steps(3, 3), READ], make).read[-1], straight.read[-1])


class KeepTest(Folder):
    @staticmethod
    def make(model):
        return torch.optim.SGD(model.parameters(), lr=0.8)

    def test_a_schedule_continues(self):
        def kept(run, model, optimizer):
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
            run.keep("schedule", schedule)
            return schedule.step
        straight, resumed = self.continued(self.make, kept)
        self.assertEqual(straight.rates[3:], resumed.rates)
        self.assertLess(resumed.rates[-1], 0.3)
        self.assertIn(("object-schedule.json", "object/schedule"), [one[:2] for one in straight.written])

    def test_objects_that_were_kept_in_one_file_continue(self):
        def kept(run, model, optimizer):
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
            run.keep("schedule", schedule)
            return schedule.step
        straight = self.run_of([*steps(0, 3), *self.write, *steps(3, 3)], self.make, before=kept)
        with open(os.path.join(self.folder, "object-schedule.json"), encoding="utf-8") as file:
            document = f'{{"schedule": {file.read()}}}'
        os.remove(os.path.join(self.folder, "object-schedule.json"))
        write_tensors(self.folder, "kept", [("a", torch.ones(1))], document)
        self.assertEqual(self.run_of([*self.read, *steps(3, 3)], self.make, before=kept).rates, straight.rates[3:])

    def test_files_of_the_program_come_back(self):
        with tempfile.TemporaryDirectory() as own:
            path = os.path.join(own, "words.txt")

            def kept(run, model, optimizer):
                run.keep_file(path)
                run.keep_file(os.path.join(own, "later"), name="not-there-yet")
            with open(path, "w") as file:
                file.write("one")
            script = self.run_of([*steps(0, 1), *self.write], self.make, before=kept)
            self.assertIn(("file-words.txt", "file/words.txt"), [one[:2] for one in script.written])
            self.assertIn("checkpoints will lack the file not-there-yet of run.keep_file(), because", script.printed)
            with open(path, "w") as file:
                file.write("two")
            self.run_of(self.read, self.make, before=kept)
            with open(path) as file:
                self.assertEqual(file.read(), "one")
            self.assertEqual(os.listdir(own), ["words.txt"])
            self.assertIn("keeps the files words.txt, which the program does not",
                          self.run_of(self.read, self.make).printed)

    def test_a_plateau_and_a_schedule_of_milestones_continue(self):
        def kept(run, model, optimizer):
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
            steps_ = torch.optim.lr_scheduler.MultiStepLR(torch.optim.SGD(model.parameters(), lr=1), [2, 4])
            run.keep("plateau", plateau)
            run.keep("milestones", steps_)
            self.milestones = steps_

            def each():
                plateau.step(1.0)
                steps_.optimizer.step()
                steps_.step()
            return each
        straight, resumed = self.continued(self.make, kept)
        self.assertEqual(straight.rates[3:], resumed.rates)
        self.assertIsInstance(self.milestones.milestones, collections.Counter)
        self.assertEqual(self.milestones.last_epoch, 6)

    def test_a_moving_average_of_the_model_continues(self):
        def kept(run, model, optimizer):
            average = torch.optim.swa_utils.AveragedModel(model)
            run.keep("average", average)
            self.averages.append(average)
            return lambda: average.update_parameters(model)
        self.averages = []
        straight, resumed = self.continued(self.make, kept)
        values = [list(average.state_dict().values()) for average in self.averages]
        self.assertEqual(int(values[1][0]), 6)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(*values)))

    def test_what_cannot_be_stored_is_named_before_the_first_step(self):
        class Odd:
            def state_dict(self):
                return {"a": [1, print]}

            def load_state_dict(self, state):
                raise AssertionError(state)
        script = self.run_of([*steps(0, 1), *self.write], self.make,
                             before=lambda run, model, optimizer: run.keep("odd", Odd()))
        self.assertIn("checkpoints will lack odd of run.keep(), because odd.a.1 is a builtin", script.printed)
        resumed = self.run_of([*self.read, *steps(1, 1)], self.make,
                              before=lambda run, model, optimizer: run.keep("odd", Odd()))
        self.assertIn("odd is not in the checkpoint: it begins anew", resumed.printed)

    def test_state_that_does_not_fit_is_dropped_with_a_warning(self):
        class Position:
            def __init__(self, version):
                self.version, self.at = version, 0

            def state_dict(self):
                return {"version": self.version, "at": self.at}

            def load_state_dict(self, state):
                self.at = state["at"]
                if state["version"] != self.version:
                    raise ValueError("another version")
        first, second = Position(1), Position(2)
        first.at = 7
        self.run_of([*steps(0, 1), *self.write], self.make, before=lambda run, *_: run.keep("data", first))
        resumed = self.run_of(self.read, self.make, before=lambda run, *_: run.keep("data", second))
        self.assertIn("data of the checkpoint does not fit: ValueError: another version: it begins anew",
                      resumed.printed)
        self.assertEqual(second.at, 0)
        resumed = self.run_of(self.read, self.make, before=lambda run, *_: run.keep("other", Position(1)))
        self.assertIn("the checkpoint keeps data, which the program does not", resumed.printed)

    def test_a_replica_that_joins_says_what_begins_anew(self):
        def kept(run, model, optimizer):
            run.keep("schedule", torch.optim.lr_scheduler.StepLR(optimizer, 2))
        self.assertIn("joined at step 5 without a checkpoint: schedule begin anew",
                      self.run_of([WRITE, *steps(5, 2)], self.make, before=kept).printed)
        self.assertNotIn("joined", self.run_of(steps(0, 2), self.make, before=kept).printed)

    def test_bad_calls_are_refused(self):
        def refused(call):
            with self.assertRaises(shoal.Error) as caught:
                self.run_of(steps(0, 1), self.make, before=call)
            return str(caught.exception)
        optimizer = torch.optim.SGD([torch.ones(1)], lr=1)
        self.assertIn("int has no state_dict()", refused(lambda run, *_: run.keep("a", 7)))
        for name in (7, "", "a b", ".a", "../a", "a" * 65):
            self.assertIn("a name is a text of 1 to 64 letters", refused(lambda run, *_: run.keep(name, optimizer)))
        self.assertIn("a name is a text", refused(lambda run, *_: run.keep_file("a b")))
        self.assertIn("is kept already", refused(lambda run, *_: [run.keep_file(path) for path in ("x/a", "y/a")]))
        self.assertIn("called before", refused(lambda run, *_: [run.keep("a", optimizer) for _ in range(2)]))
        self.assertIn("the loop has begun", refused(lambda run, *_: lambda: run.keep("a", optimizer)))


def normed():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))


class BufferTest(Folder):
    @staticmethod
    def make(model):
        return torch.optim.SGD(model.parameters(), lr=0.01)

    def trained(self, orders, **more):
        return self.run_of(orders, self.make, normed, count=64, **more)

    def test_a_checkpoint_has_the_statistics_and_gives_them_back(self):
        script = self.trained([*steps(0, 3), *self.write])
        self.assertIn(("buffers.safetensors", "buffers"), [one[:2] for one in script.written])
        loaded = normed()
        shoal.load_checkpoint(self.folder, loaded)
        for name, values in script.model.state_dict().items():
            self.assertTrue(torch.equal(values, loaded.state_dict()[name]), name)
        self.assertFalse(loaded.load_state_dict(shoal.load_checkpoint(self.folder)).missing_keys)
        resumed = self.trained(self.read)
        self.assertTrue(torch.equal(resumed.model[0].running_mean, script.model[0].running_mean))
        self.assertEqual(int(resumed.model[0].num_batches_tracked), 3)

    def test_a_job_that_begins_from_another_has_its_statistics(self):
        script = self.trained([*steps(0, 3), *self.write])
        seeded = self.trained([order(_library.SEED, text=os.fsencode(self.folder))])
        self.assertTrue(torch.equal(seeded.model[0].running_mean, script.model[0].running_mean))

    def test_buffers_that_do_not_fit_are_dropped_with_a_warning(self):
        self.trained([*steps(0, 1), *self.write])
        place = os.path.join(self.folder, "buffers.safetensors")
        os.remove(place)
        write_tensors(self.folder, "buffers", [("0.running_mean", torch.ones(9)), ("gone", torch.ones(1))])
        resumed = self.trained(self.read)
        self.assertIn("0.running_mean has another shape; gone is no buffer of the model", resumed.printed)

    def test_local_buffers_are_not_sent_and_their_mean_is(self):
        plain_mean = {"sync": {"algorithm": "local_sgd"}}
        local = self.trained(steps(0, 1))
        self.assertEqual(len(local.tensors), 4)
        script = Script(64, [*steps(0, 1), READ, WRITE, READ], tables=plain_mean)
        with replica_of(script) as replica:
            model = normed()
            run = replica.diloco(model, self.make(model), buffers="mean")
            for x, y in run.batches(Numbers()):
                model(x)
                model[0].running_mean = model[0].running_mean + 1  # another tensor in its place
                run.step(1.0)
                mean = model[0].running_mean.tolist()
        self.assertEqual(script.tensors[4:], [("0.running_mean", 3), ("0.running_var", 3)])
        self.assertEqual(script.read[0][14:17], mean)
        self.assertEqual(int(model[0].num_batches_tracked), 1)

    def test_a_mean_that_the_outer_step_would_overshoot_is_refused(self):
        for sync, refused in (({"algorithm": "diloco", "outer": {"lr": 0.9, "momentum": 0.5}}, True),
                              ({"algorithm": "diloco", "outer": {"lr": 1, "momentum": 0}}, False),
                              ({"algorithm": "diloco", "outer": {"lr": 1, "momentum": 0, "method": "adam"}}, True),
                              ({"algorithm": "local_sgd"}, False)):
            script = Script(64, [], tables={"sync": sync})
            with contextlib.ExitStack() as stack:
                if refused:
                    stack.enter_context(self.assertRaisesRegex(shoal.Error, "beyond the mean.*local_sgd"))
                replica, model = stack.enter_context(replica_of(script)), normed()
                list(replica.diloco(model, self.make(model), buffers="mean").batches(Numbers()))
        with self.assertRaisesRegex(shoal.Error, "choose \"local\" or \"mean\""):
            self.trained([], buffers="sum")


class MasterSGD(torch.optim.Optimizer):
    """Has its own copies of the parameters, as optimizers for half precision do."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-3})
        self.take()

    def take(self):
        self.masters = [parameter.detach().clone() for parameter in self.param_groups[0]["params"]]

    def step(self, closure):
        loss = closure()
        with torch.no_grad():
            for parameter, master in zip(self.param_groups[0]["params"], self.masters):
                master.add_(parameter.grad, alpha=-self.param_groups[0]["lr"])
                parameter.copy_(master)
        return loss


class HookTest(Folder):
    def test_undone_averages_are_noticed(self):
        printed = self.undone(False)
        self.assertEqual(printed.count("averages undid it"), 1)

    def test_a_hook_takes_the_average_over(self):
        self.assertEqual(self.undone(True), "")

    def undone(self, hook):
        """What is printed where each average moves all parameters by a half."""
        script = Script(32, [part for i in range(4) for part in (*steps(2 * i, 2), READ, WRITE)] + [*steps(8, 1)])
        answer = script.answer

        def moved():
            answer()
            if script._order.kind == _library.READ:
                script.values[:] = [value + 0.5 for value in script.values]
        script.answer = moved
        printed, model = io.StringIO(), small_model()
        optimizer = MasterSGD(model.parameters())
        with contextlib.redirect_stdout(printed), replica_of(script) as replica:
            run = replica.diloco(model, optimizer, after_average=optimizer.take if hook else None)
            for x, y in run.batches(Numbers()):
                def closure(x=x, y=y):
                    optimizer.zero_grad()
                    loss = loss_of(model, x, y)
                    loss.backward()
                    return loss
                run.step(optimizer.step(closure))
        return printed.getvalue()

    def test_an_ordinary_optimizer_is_not_suspected(self):
        for kind in (torch.optim.SGD, torch.optim.AdamW):
            orders = [part for i in range(8) for part in (*steps(i, 1), READ, WRITE)]
            script = self.run_of(orders, lambda model, kind=kind: kind(model.parameters(), lr=0.1))
            self.assertNotIn("undid", script.printed)

    def test_an_optimizer_of_copies_needs_a_hook(self):
        def make(model):
            return torch.optim.SGD([p.detach().clone().requires_grad_() for p in model.parameters()], lr=1)
        with self.assertRaisesRegex(shoal.Error, "no parameter of the model"):
            self.run_of([], make)
        self.run_of([], make, after_average=lambda: None)
        with self.assertRaisesRegex(shoal.Error, "a function without arguments"):
            self.run_of([], make, after_average=7)


class TreeTest(unittest.TestCase):
    def test_values_come_back(self):
        value = {"numbers": [1, 2.5, True, None, "t"], 3: (torch.arange(3), {"x": b"\0\xff"}),
                 "odd": [torch.tensor([1 + 2j]), torch.zeros(0, 3), torch.tensor(7, dtype=torch.bfloat16)],
                 "array": numpy.arange(4, dtype=numpy.uint32).reshape(2, 2), "set": {1, 2},
                 "counter": collections.Counter("aab"), "ordered": collections.OrderedDict(b=1, a=2),
                 "scalar": numpy.float32(0.5), "infinite": float("inf"), (1, "a"): "key"}
        writer = trees.Writer()
        tree = writer.tree(value, "v")
        with tempfile.TemporaryDirectory() as folder:
            place = os.path.join(folder, "t.safetensors")
            write_tensors(folder, "t", writer.tensors.items(), files.json.dumps(tree))
            tensors, metadata = files.read_tensors(place)
        back = trees.value_of(files.json.loads(metadata["state"]), tensors)
        self.assertEqual(list(back), list(value))
        for key in ("numbers", "set", "counter", "ordered", "infinite"):
            self.assertEqual((back[key], type(back[key])), (value[key], type(value[key])))
        self.assertEqual(back[3][1], {"x": b"\0\xff"})
        self.assertEqual(back["array"].dtype, numpy.uint32)
        self.assertTrue((back["array"] == value["array"]).all())
        for one, other in zip(back["odd"], value["odd"]):
            self.assertEqual(one.dtype, other.dtype)
            self.assertTrue(torch.equal(one, other))

    def test_what_cannot_be_stored_is_said_by_its_place_and_leaves_nothing(self):
        loop = []
        loop.append(loop)
        for value, words in (([torch.ones(1), object()], "v.1 is a object"),
                             ({"a": torch.ones(1).to_sparse()}, "sparse"),
                             ({torch.ones(1): 1}, "with a key that is a Tensor"), (loop, "nested too deeply"),
                             (collections.defaultdict(list), "a defaultdict"),
                             (numpy.array([object()]), "v is a ndarray"), (torch.ones(1, device="meta"), "meta")):
            writer = trees.Writer()
            with self.assertRaisesRegex(trees.Unstorable, words):
                writer.tree(value, "v")
            self.assertEqual(writer.tensors, {})

    def test_types_that_are_no_types_are_refused(self):
        with self.assertRaisesRegex(ValueError, "unknown"):
            trees.value_of({"tensor": "a", "dtype": "save", "shape": [1]}, {"a": torch.zeros(4, dtype=torch.uint8)})


if __name__ == "__main__":
    unittest.main()
