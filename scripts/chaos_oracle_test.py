#!/usr/bin/env python3
"""Tests of what judges a storm: each promise with what breaks it, planted."""
import hashlib
import json
import pathlib
import struct
import tempfile
import types
import unittest

from chaos_oracle import Ledger, Oracle
from chaos_sight import CheckpointFiles, Holder, Round, Sight, complaints_about, number_of, read_logs

CONTEXT = 16


def committed(number, runs, epoch=0, job_tokens=None, tokens=None):
    own = sum(end - first for first, end in runs) * CONTEXT
    tokens = own if tokens is None else tokens
    return Round(epoch, number, float(number), tokens, number * own if job_tokens is None else job_tokens, own,
                 tuple(runs))


def sight(round_number, rounds=(), **fields):
    job = {"phase": "training", "reason": "running", "detail": "", "committed_round": round_number,
           "next_sequence": 10 * round_number, "returned": "[]", **fields}
    return Sight(job, tuple(rounds), (), (), (), (), ())


class LedgerTest(unittest.TestCase):
    def ledger(self, *rounds):
        ledger = Ledger(CONTEXT)
        for one in rounds:
            ledger.add(one)
        return ledger

    def said(self, ledger, at):
        return " | ".join(ledger.complaints(at))

    def test_adds_up(self):
        ledger = self.ledger(committed(1, [(0, 10)]), committed(2, [(10, 20)]))
        self.assertEqual(self.said(ledger, sight(2)), "")

    def test_twice(self):
        ledger = self.ledger(committed(1, [(0, 10)]), committed(2, [(9, 19)]))
        self.assertIn("sequence 9 was trained in rounds 1 and 2", self.said(ledger, sight(2)))

    def test_forgotten(self):
        ledger = self.ledger(committed(1, [(0, 10)]), committed(2, [(11, 21)]))
        self.assertIn("21 sequences were leased; 20 are trained", self.said(ledger, sight(2, next_sequence=21)))
        self.assertEqual(self.said(ledger, sight(2, next_sequence=21, returned="[[10, 1]]")), "")

    def test_tokens_of_a_round(self):
        self.assertIn("round 1 counts 5 tokens", self.said(self.ledger(committed(1, [(0, 10)], tokens=5)), sight(1)))

    def test_tokens_of_the_job(self):
        ledger = self.ledger(committed(1, [(0, 10)]), committed(2, [(10, 20)], job_tokens=321))
        self.assertIn("160 and 160 tokens make 321", self.said(ledger, sight(2)))

    def test_what_was_given_up_may_be_trained_again(self):
        ledger = self.ledger(committed(1, [(0, 10)]), committed(2, [(10, 20)]), committed(2, [(10, 20)], epoch=1))
        self.assertEqual(self.said(ledger, sight(2)), "")

    def test_an_adopted_round_is_the_one_that_was_seen(self):
        ledger = self.ledger(committed(1, [(0, 10)]), committed(2, [(10, 20)]), committed(3, [(20, 30)]))
        ledger.add(Round(7, 2, 9.0, 0, 320, 0, ()))
        ledger.add(committed(3, [(20, 31)], epoch=7, job_tokens=496))
        self.assertEqual(self.said(ledger, sight(3, next_sequence=31)), "")
        self.assertEqual(len(ledger.commits), 4)


class OracleTest(unittest.TestCase):
    def setUp(self):
        self.alive = {0: {10}, 1: {11}}
        cluster = types.SimpleNamespace(name="chaos", trainer_pids=lambda: self.alive,
                                        data_of_coordinator=lambda: pathlib.Path("nowhere"))
        self.oracle = Oracle(cluster, CONTEXT, 2)

    def hold(self, *rounds):
        """Agent 0 serves stage 0, agent 1 stage 1."""
        held = tuple(Holder((0, stage), stage, stage, number) for stage, number in enumerate(rounds))
        self.oracle.living.seen(types.SimpleNamespace(holders=held), self.alive)

    def stored(self, number):
        self.oracle.checkpoints.stored = (("ckpt_1", number, []),)

    def back_to(self, number):
        self.oracle.seen(sight(9), 9)
        self.oracle.seen(sight(number), number)
        return self.oracle.broken

    def test_a_checkpoint_that_is_deleted_while_it_is_read(self):
        """The files go after the look; the next look does not know the checkpoint any more."""
        part = {"anchor": "", "momentum": "", "files": [{"path": "model.safetensors", "sha256": "0" * 64}]}
        self.oracle.checkpoints.stored = (("ckpt_1", 5, [part]),)
        looks = []
        self.oracle.look = lambda: looks.append(setattr(self.oracle.checkpoints, "stored", ()))
        self.assertEqual((self.oracle.checkpoint_complaints(), len(looks)), ([], 1))
        self.oracle.checkpoints.stored = (("ckpt_1", 5, [part]),)
        self.oracle.look = lambda: looks.append(None)
        self.assertIn("model.safetensors is not", self.oracle.checkpoint_complaints()[0])

    def test_lost_although_it_lives(self):
        self.hold(9, 9)
        self.assertIn("from round 9 to 5", self.back_to(5)[0])
        self.assertEqual(self.oracle.rounds_lost, 4)

    def test_a_stage_is_dead(self):
        self.hold(9, 9)
        self.stored(5)
        self.alive = {0: {10}, 1: set()}
        self.assertEqual((self.back_to(5), self.oracle.rounds_given_up), ([], 4))

    def test_a_new_process_holds_nothing(self):
        """Also while the tables still name the replica of the one before."""
        self.hold(9, 9)
        self.alive = {0: {10}, 1: {12}}
        self.hold(9, 9)
        self.assertEqual(self.back_to(5), [])

    def test_behind_the_newest_checkpoint(self):
        self.stored(5)
        self.assertIn("the newest whole checkpoint is of 5", self.back_to(4)[0])

    def test_told_and_not_there(self):
        """A round that the API told is one that counts."""
        self.hold(9, 9)
        self.oracle.seen(sight(8), 9)
        self.assertIn("from round 9 to 8", self.oracle.broken[0])

    def restored(self, next_round, tokens):
        self.oracle.seen(sight(9), 9)
        self.oracle.restore_begins()
        self.oracle.seen(sight(2), 2)  # of the backup
        new = Round(5, next_round, self.oracle.restored_at + 1, tokens, 0, tokens, ())
        self.oracle.seen(sight(next_round, [new]), next_round)
        return self.oracle.broken

    def test_a_restore_goes_on_from_what_lives(self):
        self.hold(9, 9)
        self.assertEqual(self.restored(10, 160), [])

    def test_a_restore_adopts_what_lives(self):
        self.hold(9, 9)
        self.assertEqual(self.restored(9, 0), [])

    def test_a_restore_forgets_what_lives(self):
        self.hold(9, 9)
        self.assertIn("from round 9 to 2", self.restored(3, 160)[0])

    def test_a_restore_adopts_something_older(self):
        self.hold(9, 9)
        self.assertIn("from round 9 to 8", self.restored(8, 0)[0])

    def test_a_failed_job(self):
        self.oracle.seen(sight(1, phase="failed"), 1)
        self.assertIn("the job is failed", self.oracle.broken[0])

    def test_events_that_never_are(self):
        self.oracle.judge_event("agent_quarantined", "agent-1")
        self.oracle.judge_event("replica_failed", "agent-2 (digest_mismatch)")
        self.oracle.judge_event("replica_failed", "agent-2 (trainer_crashed)")
        self.assertEqual(len(self.oracle.broken), 2)


class SightTest(unittest.TestCase):
    def part(self, **fields):
        reduces = json.dumps([{"anchor": "aa", "momentum": "bb"}])
        return {"round": 1, "stage": 0, "replica": 3, "state": "committed", "reject_reason": "none", "anchor": "aa",
                "momentum": "bb", "reduces": reduces, **fields}

    def test_other_bits(self):
        self.assertEqual(list(complaints_about(self.part())), [])
        self.assertIn("has momentum cc, its stage bb", " ".join(complaints_about(self.part(momentum="cc"))))
        self.assertIn("outlier", " ".join(complaints_about(self.part(reject_reason="outlier"))))

    def test_names(self):
        self.assertEqual((number_of("agent-3"), number_of("agent-12.4")), (3, 12))

    def test_logs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "agent0.log")
            path.write_text("all is well\nterminate called after throwing\n")
            self.assertEqual(read_logs(pathlib.Path(folder)), ["agent0.log: terminate called after throwing"])


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.folder.name)
        self.files = CheckpointFiles(types.SimpleNamespace(data_of_coordinator=lambda: root))
        self.path = self.files.root / "ckpt_1" / "model.safetensors"
        self.path.parent.mkdir(parents=True)
        data = struct.pack("<2f", 1, 2)
        self.anchor = self.files.digest(data) if self.files.digest else ""
        header = json.dumps({"__metadata__": {"anchor": self.anchor}}).encode()
        self.path.write_bytes(struct.pack("<Q", len(header)) + header + data)
        self.store(self.anchor)

    def tearDown(self):
        self.folder.cleanup()

    def store(self, anchor):
        entry = {"path": self.path.name, "sha256": hashlib.sha256(self.path.read_bytes()).hexdigest()}
        self.files.stored = (("ckpt_1", 5, [{"anchor": anchor, "momentum": "", "files": [entry]}]),)

    def test_whole(self):
        self.assertEqual((self.files.complaints(), self.files.floor()), ([], 5))

    def test_spoiled_by_somebody_else(self):
        self.path.write_bytes(self.path.read_bytes()[:-1] + b"x")
        self.assertIn("another SHA-256", self.files.complaints()[0])

    def test_spoiled_by_the_storm(self):
        self.path.write_bytes(self.path.read_bytes()[:-1] + b"x")
        self.files.spoiled(self.path)
        self.assertEqual((self.files.complaints(), self.files.floor()), ([], 0))

    def test_gone(self):
        self.path.unlink()
        self.assertIn("is stored, and model.safetensors is not", self.files.complaints()[0])

    def test_holds_something_else(self):
        if self.files.digest is None:
            self.skipTest("libxxhash is not installed")
        self.store("0" * 32)
        self.assertIn(f"has the anchor {self.anchor}", self.files.complaints()[0])


if __name__ == "__main__":
    unittest.main()
