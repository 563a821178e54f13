"""What boards hold after a mirror, read back by their own packages: tensorboard, wandb and mlflow of PyPI.

    python3 python/tests/boards_check.py BoardsCheck.test_tensorboard

One board in each process, as people run them: the packages change each other. Not among the tests that every machine can run: its packages are not Debian's (`./dev test --boards` fetches them).
"""
import os
import pathlib
import struct
import sys
import tempfile
import time
import unittest
from unittest import mock

from shoal import mirror

JOB = {"id": "job_1", "name": "mine", "created_at": "2026-11-27T02:00:00.000Z",
       "spec": {"name": "mine", "train": {"steps": 30, "lr": 0.01}}}
POINTS = [(10, 1.5e9, {"train_loss": 2.5, "round": 1.0}), (20, 1.5e9 + 2, {"train_loss": 2.25, "round": 2.0})]


def fill(board):
    for point in POINTS:
        board.add(*point)
    board.keep()


def records_of(data):
    """The records of a file of wandb: LevelDB's log in blocks of 32 KiB, behind 7 bytes of its own."""
    record, at = b"", 7
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # the whole of it, or its last part
            yield record
            record = b""


class BoardsCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_tensorboard(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        fill(board := mirror.TensorBoard(self.folder, JOB))
        board.end("completed")
        events = EventAccumulator(str(self.folder / "mine"), size_guidance={"tensors": 0}).Reload()
        found = events.Tensors("shoal/train_loss")
        self.assertEqual([(one.step, one.wall_time) for one in found], [(10, 1.5e9), (20, 1.5e9 + 2)])
        self.assertEqual([one.tensor_proto.float_val[0] for one in found], [2.5, 2.25])

    def test_wandb(self):
        from wandb.proto import wandb_internal_pb2
        with mock.patch.dict(os.environ, {"WANDB_MODE": "offline", "WANDB_DIR": str(self.folder), "WANDB_SILENT": "true"}):
            fill(board := mirror.Wandb("trial", JOB))
            board.end("completed")
        records, end = [], time.monotonic() + 20  # wandb writes the file after finish() has returned
        while not any(record.HasField("exit") for record in records) and time.monotonic() < end:
            time.sleep(0.1)
            file = next(self.folder.rglob("*.wandb"))
            records = [wandb_internal_pb2.Record.FromString(data) for data in records_of(file.read_bytes())]
        losses, configured = [], {}
        for record in records:
            losses += [item.value_json for item in record.history.item
                       if "train_loss" in (item.key, *item.nested_key)]
            configured |= {item.key: item.value_json for item in record.run.config.update}
        self.assertEqual(losses, ["2.5", "2.25"])
        self.assertEqual(configured["train.steps"], "30")

    def test_mlflow(self):
        address = f"sqlite:///{self.folder}/mlflow.db"
        fill(mirror.MLflow(address, JOB))
        board = mirror.MLflow(address, JOB)
        board.add(30, 1.5e9 + 4, {"train_loss": 2.0})
        board.end("completed")
        history = board.client.get_metric_history(board.run, "train_loss")
        self.assertEqual(sorted((one.step, one.value) for one in history), [(10, 2.5), (20, 2.25), (30, 2.0)])
        run = board.client.get_run(board.run)
        self.assertEqual((run.info.status, run.data.params["train.lr"]), ("FINISHED", "0.01"))


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)  # wandb wants a number
