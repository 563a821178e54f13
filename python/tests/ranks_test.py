"""Two processes that are one replica train what one process trains."""

import os
import re
import tempfile
import unittest
from unittest import mock

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing
except ImportError:
    raise unittest.SkipTest("this Python has no torch") from None

import shoal
from shoal import _library, ranks
from script_util import Script, order, replica_of, steps
from run_test import Numbers, plain, small_model, trained

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
except ImportError:
    fully_shard = None

RANKS = 2


def data_parallel():
    return torch.nn.parallel.DistributedDataParallel(small_model()), None


def sharded():
    model = small_model()  # 5 rows: the ranks hold 3 and 2
    mesh = init_device_mesh("cpu", (RANKS,))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh), None


def tensor_parallel():
    """Columns of one layer, rows of the next; all ranks train the whole batch."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    mesh = init_device_mesh("cpu", (RANKS,))
    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}), (0, 1)


def alone(make):
    if make is tensor_parallel:
        return torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    return small_model()


READ, WRITE = order(_library.READ), order(_library.WRITE)


def script_of(count, folder):
    """Trains, is evaluated, is written and read again, and trains on."""
    text = os.fsencode(folder)
    return Script(count, [READ, *steps(0, 3), order(_library.EVALUATE, index=0, count=2, sequences=4), READ,
                          order(_library.WRITE_CHECKPOINT, text=text), *steps(3, 2),
                          order(_library.READ_CHECKPOINT, text=text), WRITE, *steps(3, 3), READ])


def rank_main(rank, make, count, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    script = script_of(count, folder) if rank == 0 else None
    link = ranks.RankedLink(script, ranks.make_group(torch.device("cpu"), 60))
    torch.set_num_threads(1)
    with replica_of(link, rank, RANKS) as replica:
        model, part = make()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        run = replica.diloco(model, optimizer)
        run.evaluate(Numbers(), lambda x, y: torch.nn.functional.mse_loss(model(x), y))
        for x, y in run.batches(Numbers(), part=part):
            plain(run, model, optimizer, x, y)
    if rank == 0:
        reported = [name for name, *_ in script.written]
        torch.save([script.tensors, script.steps, script.losses, script.read, reported], f"{folder}/answers")
    dist.destroy_process_group()


def different_models(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    link = ranks.RankedLink(Script(32, []) if rank == 0 else None,
                            ranks.make_group(torch.device("cpu"), 60))
    try:
        with replica_of(link, rank, RANKS) as replica:
            model = torch.nn.Linear(3, 2 + rank)
            run = replica.diloco(model, torch.optim.SGD(model.parameters(), lr=1))
            list(run.batches(Numbers()))
    except shoal.Error as refusal:
        with open(f"{folder}/{rank}", "w") as file:
            file.write(str(refusal))
    dist.destroy_process_group()


class RanksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def expect_as_alone(self, make, count):
        torch.multiprocessing.spawn(rank_main, (make, count, self.folder), RANKS)
        tensors, losses, evaluated, read, reported = torch.load(f"{self.folder}/answers")
        self.assertEqual(sorted([*reported, "model.safetensors"]),
                         sorted(one for one in os.listdir(self.folder) if "safetensors" in one))
        with tempfile.TemporaryDirectory() as folder:
            one = script_of(count, folder)
            trained(one, count, plain, lambda: alone(make))
        self.assertEqual(tensors, one.tensors)
        for mine, others in ((losses, one.steps), (evaluated, one.losses), *zip(read, one.read)):
            self.assertEqual(len(mine), len(others))
            for a, b in zip(mine, others):
                self.assertAlmostEqual(a, b, places=5)

    def test_data_parallel_ranks(self):
        self.expect_as_alone(data_parallel, 32)

    @unittest.skipUnless(fully_shard, "this PyTorch has no fully_shard")
    def test_sharded_ranks(self):
        self.expect_as_alone(sharded, 32)
        written = sorted(name for name in os.listdir(self.folder) if name.startswith("optimizer"))
        self.assertEqual(written, ["optimizer-1-of-2.safetensors", "optimizer-2-of-2.safetensors"])

    @unittest.skipUnless(fully_shard, "this PyTorch has no fully_shard")
    def test_tensor_parallel_ranks(self):
        self.expect_as_alone(tensor_parallel, 38)

    def test_different_models_are_named(self):
        torch.multiprocessing.spawn(different_models, (self.folder,), RANKS)
        for rank in range(RANKS):
            with open(f"{self.folder}/{rank}") as file:
                self.assertIn("ranks 0 and 1 of this replica have different parameters", file.read())

    def test_torchrun_refuses_a_pytorch_before_2(self):
        for version in ("1.13.1+debian", "1.9.0"):
            with mock.patch.dict(os.environ), mock.patch("os.execv") as execv:
                os.environ.pop("RANK", None)
                with mock.patch("torch.__version__", version):
                    with self.assertRaisesRegex(shoal.Error, f"needs PyTorch 2, and .* has {re.escape(version)}"):
                        shoal.torchrun(2)
            execv.assert_not_called()

    @unittest.skipUnless(int(torch.__version__.split(".")[0]) >= 2, "needs PyTorch 2")
    def test_torchrun_of_this_pytorch_takes_the_command(self):
        from torch.distributed.run import parse_args
        with mock.patch.dict(os.environ), mock.patch("os.execv") as execv:
            os.environ.pop("RANK", None)
            with mock.patch("sys.argv", ["train.py", "--size", "3"]):
                shoal.torchrun(4)
        (_, command), _ = execv.call_args
        self.assertEqual(command[1:3], ["-m", "torch.distributed.run"])
        parsed = parse_args(command[3:])
        self.assertEqual((int(parsed.nproc_per_node), parsed.standalone), (4, True))
        self.assertEqual((parsed.training_script, parsed.training_script_args),
                         ("train.py", ["--size", "3"]))

    def test_ranks_on_several_hosts_are_refused(self):
        with mock.patch.dict(os.environ, {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}):
            with self.assertRaisesRegex(shoal.Error, "several hosts"):
                ranks.world()


if __name__ == "__main__":
    unittest.main()
