#!/usr/bin/env python3
"""Tests of chaos_plan.py: a plan follows from its seed alone, and is one worth playing."""
import itertools
import pathlib
import tempfile
import unittest

import chaos_plan


def faults_of(plan):
    return [fault for burst in plan for fault in burst.faults]


def overlapping(faults):
    return [(one, other) for one, other in itertools.combinations(faults, 2)
            if one.at_s < other.healed_s and other.at_s < one.healed_s]


class Plan(unittest.TestCase):
    def test_follows_from_the_seed(self):
        self.assertEqual(chaos_plan.make_plan(7, 600, 6), chaos_plan.make_plan(7, 600, 6))
        self.assertNotEqual(chaos_plan.make_plan(7, 600, 6), chaos_plan.make_plan(8, 600, 6))

    def test_is_what_it_was(self):
        """A seed of an old report still means the same."""
        first = chaos_plan.make_plan(1, 60, 6)[0].faults[:3]
        self.assertEqual([(one.kind, one.victim, one.at_s) for one in first],
                         [("freeze-host", 4, 1.0), ("freeze-trainer", 5, 6.0), ("flip-checkpoint", -1, 12.645)])

    def test_a_longer_one_begins_like_the_shorter(self):
        short = chaos_plan.make_plan(3, 300, 6)
        self.assertEqual(chaos_plan.make_plan(3, 900, 6)[:len(short)], short)

    def test_faults_overlap(self):
        plan = chaos_plan.make_plan(1, 600, 6)
        self.assertGreater(sum(bool(overlapping(burst.faults)) for burst in plan), len(plan) / 2)

    def test_every_kind_occurs(self):
        self.assertEqual({one.kind for one in faults_of(chaos_plan.make_plan(1, 600, 6))}, set(chaos_plan.KINDS))

    def test_only_the_kinds_that_were_asked_for(self):
        self.assertEqual({one.kind for one in faults_of(chaos_plan.make_plan(1, 600, 6, ["cut"]))}, {"cut"})
        self.assertEqual(chaos_plan.make_plan(1, 600, 6, []), ())

    def test_nothing_is_kept_busy_twice(self):
        for seed in range(20):
            for one, other in overlapping(faults_of(chaos_plan.make_plan(seed, 600, 6))):
                keeps = chaos_plan.KINDS[one.kind].keeps
                same = keeps and keeps == chaos_plan.KINDS[other.kind].keeps and one.victim == other.victim
                self.assertFalse(same, f"seed {seed}: {one} and {other}")
                self.assertFalse({one.kind, other.kind} <= chaos_plan.ON_ITS_DISKS, f"seed {seed}: {one} and {other}")

    def test_between_bursts_all_is_healed(self):
        plan = chaos_plan.make_plan(5, 900, 6)
        for before, after in itertools.pairwise(plan):
            self.assertAlmostEqual(after.begin_s - before.healed_s, chaos_plan.CALM_S)


class EverySoOften(unittest.TestCase):
    def test_even_distances_and_nobody_twice_at_a_time(self):
        faults = chaos_plan.every_so_often(1, 1800, 62, 32, ("kill-host", "freeze-host", "cut"), 20)
        distances = {round(b.at_s - a.at_s, 1) for a, b in itertools.pairwise(faults)}
        self.assertEqual((len(faults), distances), (62, {29.0}))
        self.assertFalse([pair for pair in overlapping(faults) if pair[0].victim == pair[1].victim])

    def test_somebody_is_left(self):
        with self.assertRaises(ValueError):
            chaos_plan.every_so_often(1, 60, 10, 3, ("cut",), 20)


class Trace(unittest.TestCase):
    def read(self, text, speed=1):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "trace.csv")
            path.write_text(text)
            return chaos_plan.read_trace(path, speed)

    def test_in_compressed_time(self):
        trace = self.read("time,what,node\n5000,add,a\n5000,add,b\n65000,remove,a\n125000,add,c\n185000,add,a\n", 60)
        self.assertEqual(trace.nodes, ("a", "b", "c"))
        self.assertEqual(trace.first, {0, 1})
        self.assertEqual([(move.at_s, move.joins, move.node) for move in trace.moves],
                         [(1.0, False, 0), (2.0, True, 2), (3.0, True, 0)])

    def refused(self, text, *names):
        with self.assertRaises(chaos_plan.BadTrace) as caught:
            self.read(text)
        for name in names:
            self.assertIn(name, str(caught.exception))

    def test_refuses_what_it_does_not_understand(self):
        self.refused("", "no row")
        self.refused("0,add,a\n-5,remove,a\n", "trace.csv:2", "-5,remove,a")
        self.refused("0,add,a\n5,drop,a\n", "trace.csv:2", "add or remove")
        self.refused("0,add\n", "trace.csv:1")
        self.refused("0,add,a\n5,add,a\n", "at 5 ms a is added, and is there")
        self.refused("0,remove,a\n", "removed, and is not there")
        self.refused("".join(f"0,add,n{number}\n" for number in range(65)), "65 nodes", "at most 64")


if __name__ == "__main__":
    unittest.main()
