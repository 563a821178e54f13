"""The parts of the package that need no agent."""

import ctypes
import difflib
import os
import tempfile
import types
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("this Python has no torch") from None

import shoal
from shoal import _library, data, files, stored
from shoal.registry import shown
from shoal.run import failure_of
from shoal.state import State
from shoal.vectors import Vectors
from script_util import write_tensors


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 2)
        self.frozen = torch.nn.Linear(2, 2)
        self.frozen.requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(2)
        self.head = torch.nn.Linear(2, 4, bias=False)
        self.head.weight = self.embedding.weight


class VectorsTest(unittest.TestCase):
    def test_only_what_is_trained_travels_and_a_tied_weight_once(self):
        names = [name for name, _ in Vectors(Tied()).sizes()]
        self.assertEqual(names, ["embedding.weight", "norm.weight", "norm.bias"])

    def test_values_go_and_come_back_also_in_half_precision(self):
        model = Tied()
        model.norm.bfloat16()
        vectors = Vectors(model)
        flat = torch.arange(12, dtype=torch.float32)
        vectors.write_from(flat)
        self.assertEqual(model.head.weight[1].tolist(), [2, 3])
        self.assertEqual(model.norm.bias.tolist(), [10, 11])
        back = torch.zeros(12)
        vectors.read_into(back)
        self.assertEqual(back.tolist(), flat.tolist())

    def test_a_model_without_anything_to_train_is_refused(self):
        with self.assertRaisesRegex(shoal.Error, "requires gradients"):
            Vectors(Tied().requires_grad_(False))
        with self.assertRaisesRegex(shoal.Error, "complex"):
            Vectors(torch.nn.ParameterDict({"c": torch.nn.Parameter(torch.zeros(1).cfloat())}))


def held_out(dataset, index, batches, count=2):
    """The items of a batch."""
    wanted = types.SimpleNamespace(index=index, count=batches, sequences=count)
    span = data.held_out_span(len(dataset), wanted)
    return data.held_out_items_of(dataset, span)[0] if span.size else []


class DataTest(unittest.TestCase):
    def test_each_item_is_read_once_per_epoch_and_epochs_differ(self):
        first = [data.item_of(i, 10, 1) for i in range(10)]
        second = [data.item_of(i, 10, 1) for i in range(10, 20)]
        self.assertEqual(sorted(item for item, _ in first), list(range(10)))
        self.assertEqual(sorted(item for item, _ in second), list(range(10)))
        self.assertEqual({epoch for _, epoch in second}, {1})
        self.assertNotEqual([item for item, _ in first], [item for item, _ in second])

    def test_held_out_batches_are_spread_and_end(self):
        self.assertEqual(held_out(range(100), 0, 2), [0, 25])
        self.assertEqual(held_out(range(100), 1, 2), [50, 75])
        self.assertEqual(held_out(range(100), 2, 2), [])

    def test_a_small_set_is_divided_into_fewer_batches(self):
        self.assertEqual([held_out(range(5), index, 20) for index in range(4)], [[0], [1, 2], [3, 4], []])
        self.assertEqual(held_out(range(1), 0, 20), [0])

    def test_windows_of_tokens(self):
        tokens = shoal.Tokens(torch.arange(9, dtype=torch.uint8), 4)
        self.assertEqual(len(tokens), 2)
        x, y = tokens[1]
        self.assertEqual((x.tolist(), y.tolist()), ([4, 5, 6, 7], [5, 6, 7, 8]))
        with self.assertRaisesRegex(shoal.Error, "too few"):
            shoal.Tokens(torch.arange(4), 4)

    def test_a_digest_tells_data_apart(self):
        def of(values):
            return list(data.digest_of(shoal.Tokens(torch.tensor(values), 2)).words)
        self.assertEqual(of([1, 2, 3]), of([1, 2, 3]))
        self.assertNotEqual(of([1, 2, 3]), of([1, 2, 4]))
        self.assertNotEqual(of([1, 2, 3]), [0, 0])

    def test_paths_stay_beneath_the_data_roots(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            self.assertEqual(data.beneath_roots("text:a", f"text={folder}"), folder + "/a")
            self.assertEqual(data.beneath_roots(folder + "/a", folder), folder + "/a")
            self.assertEqual(data.beneath_roots("/etc/hosts", "/"), os.path.realpath("/etc/hosts"))
            for path in (folder + "/../x", "text:../x", "other:a", "/etc/hosts"):
                with self.assertRaisesRegex(shoal.Error, "beneath no data root"):
                    data.beneath_roots(path, f"text={folder}")

    def test_a_stream_is_refused(self):
        with self.assertRaisesRegex(shoal.Error, "no length"):
            data.check_dataset(iter([1]))


class Numbers:
    """Stands for the library: sequence i has the tokens i, i + 1, …; held-out ones begin at 1000."""

    def __init__(self, context):
        self.shape = _library.DataShape(context, 10, 6, (3, 4))
        self.failure, self.announced = None, None

    def will_read(self, first, count):
        self.announced = (first, count)

    def _write(self, first, address):
        if self.failure is not None:
            raise _library.DataError("shard a, byte 0: gone", self.failure)
        tokens = (ctypes.c_int64 * (self.shape.context + 1)).from_address(address)
        tokens[:] = range(first, first + self.shape.context + 1)

    def read_sequence(self, number, address):
        self._write(number, address)

    def read_held_out(self, index, count, address):
        self._write(1000 + 100 * count + index, address)


class StoredTest(unittest.TestCase):
    def setUp(self):
        self.source = Numbers(3)
        self.dataset = stored.Sequences(self.source)

    def test_sequences_come_in_the_jobs_own_order_also_beyond_an_epoch(self):
        data.check_dataset(self.dataset)
        self.assertEqual(len(self.dataset), 10)
        x, y = data.training_batch(self.dataset, 10, 9, range(2), 1, torch.utils.data.default_collate)
        self.assertEqual(x.tolist(), [[9, 10, 11], [10, 11, 12]])
        self.assertEqual(y.tolist(), [[10, 11, 12], [11, 12, 13]])

    def test_what_comes_next_is_announced_of_datasets_of_the_cluster(self):
        data.announce(self.dataset, 8, 4)
        self.assertEqual(self.source.announced, (8, 4))
        data.announce([1, 2], 0, 2)

    def test_held_out_ones_are_chosen_by_the_library(self):
        sequences = self.dataset.held_out
        first = [x[0].item() for x, _ in held_out(sequences, 1, 2)]
        self.assertEqual(first, [1402, 1403])  # 2 and 3 of 4
        self.assertEqual(held_out(sequences, 3, 4), [])
        microbatch = data.held_out_microbatch(sequences, 5, 2, 100, list)
        self.assertEqual([x[0].item() for x, _ in microbatch], [1605, 1600])
        with self.assertRaises(IndexError):
            sequences[6]

    def test_the_digest_is_that_of_the_datasets(self):
        self.assertEqual(list(data.digest_of(self.dataset).words), [3, 4])

    def test_a_failure_keeps_its_kind(self):
        self.source.failure = _library.DATA_MISSING
        with self.assertRaisesRegex(shoal.Error, "shard a") as caught:
            self.dataset[0]
        self.assertEqual(failure_of(caught.exception), _library.DATA_MISSING)

    def test_a_job_without_a_dataset_is_told_so(self):
        spec = b'{"name": "a", "data": {"train": "text.txt"}}'
        with self.assertRaisesRegex(shoal.Error, "data.dataset") as caught:
            _library.Data(spec)
        self.assertEqual(caught.exception.failure, _library.DATA_INVALID)


class ExampleTest(unittest.TestCase):
    def test_shoal_takes_ten_changed_lines_at_most(self):
        folder = os.path.join(os.path.dirname(__file__), "../../examples/python")
        lines = []
        for name in ("plain.py", "train.py"):
            with open(os.path.join(folder, name)) as file:
                lines.append([line for line in file.read().split('"""', 2)[2].splitlines() if line])
        added = [line for line in difflib.ndiff(*lines) if line.startswith("+ ")]
        self.assertGreater(len(added), 3)
        self.assertLessEqual(len(added), 10, "\n".join(added))


class FilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.path = folder.name, os.path.join(folder.name, "t.safetensors")

    def test_tensors_of_any_type_come_back(self):
        given = [("a", torch.tensor([[1.5, 2]]).bfloat16()), ("b", torch.tensor(7)),
                 ("none", torch.empty(0))]
        write_tensors(self.folder, "t", given, "[1]")
        tensors, metadata = files.read_tensors(self.path)
        self.assertEqual(metadata["state"], "[1]")
        for name, tensor in given:
            self.assertEqual(tensors[name].dtype, tensor.dtype)
            self.assertEqual(tensors[name].tolist(), tensor.tolist())

    def test_a_cut_file_is_refused(self):
        write_tensors(self.folder, "t", [("a", torch.ones(100))])
        whole = os.path.getsize(self.path)
        for size in (4, 20, whole - 1):
            os.truncate(self.path, size)
            with self.assertRaisesRegex(shoal.Error, "take another copy"):
                files.read_tensors(self.path)
            write_tensors(self.folder, "t", [("a", torch.ones(100))])

    def test_an_optimizer_continues_where_it_was(self):
        def trained(model, optimizer, steps):
            for _ in range(steps):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            return model.weight.tolist()
        torch.manual_seed(1)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        trained(model, optimizer, 3)
        copy = torch.nn.Linear(2, 1)
        copy.load_state_dict(model.state_dict())
        tensors, document = State([optimizer], {}).optimizers_written()
        write_tensors(self.folder, "t", tensors.items(), document)
        other = torch.optim.AdamW(copy.parameters(), lr=0.1)
        State([other], {}).read_optimizers(*files.read_tensors(self.path))
        self.assertEqual(trained(copy, other, 2), trained(model, optimizer, 2))

    def test_another_model_is_told_by_its_tensors(self):
        there = {"a": torch.zeros(2), "c": torch.zeros(1)}
        self.assertEqual(files._difference(there, {"a": [3], "b": [1]}),
                         ["b is missing", "c is not in the model",
                          "a has shape [2], the model's has [3]"])
        lines = files._difference({}, {f"w{i}": [1] for i in range(13)})
        self.assertRegex(shown(lines), "w9 is missing; and 3 more$")


if __name__ == "__main__":
    unittest.main()
