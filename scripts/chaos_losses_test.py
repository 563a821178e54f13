#!/usr/bin/env python3
"""Tests of what explains the gap of a record: small cases that a person can add up."""
import unittest

from chaos_losses import find_losses

ROUNDS = [0.0, 10.0, 20.0]  # two of 10 s


class LossesTest(unittest.TestCase):
    def test_nothing_happened(self):
        losses = find_losses(ROUNDS, 4, 10, 80, [])
        self.assertEqual((losses.living, losses.lost, losses.held_up, losses.dropped, losses.rest), (80, 0, 0, 0, 0))

    def test_down_is_not_living(self):
        self.assertEqual(find_losses(ROUNDS, 4, 10, 60, [("cut", 0.0, 20.0)]).living, 60)

    def test_a_long_round_costs_all_who_live(self):
        losses = find_losses([0.0, 13.0], 4, 10, 40, [])
        self.assertEqual((losses.lost, losses.held_up, losses.rest), (12, 12, 0))

    def test_the_victim_of_a_hold_up_waits_for_nobody(self):
        losses = find_losses([0.0, 13.0], 4, 10, 30, [("freeze-host", 10.0, 30.0)])
        self.assertEqual(losses.held_up, 9)
        self.assertEqual(losses.dropped, 10)

    def test_who_is_back_before_the_commit_loses_nothing(self):
        self.assertEqual(find_losses(ROUNDS, 4, 10, 78, [("cut", 4.0, 6.0)]).dropped, 0)

    def test_but_what_was_killed_is_gone(self):
        self.assertEqual(find_losses(ROUNDS, 4, 10, 74, [("kill-host", 4.0, 6.0)]).dropped, 4)

    def test_what_is_not_explained_is_the_rest(self):
        losses = find_losses(ROUNDS, 4, 10, 69, [("kill-host", 4.0, 6.0)])
        self.assertEqual(losses.rest, 5)
        self.assertEqual(losses.figures()["rest"], {"replica_s": 5, "percent": round(500 / 78, 2)})

    def test_no_round_explains_nothing(self):
        with self.assertRaises(ValueError):
            find_losses([1.0], 4, 10, 0, [])


if __name__ == "__main__":
    unittest.main()
