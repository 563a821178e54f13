"""Notices that averages are undone: an optimizer with copies of the parameters writes those back at its
next step, so that each replica trains on from its own parameters and no digest shows it.

A few values of each parameter are compared: before the average was taken, after it, and after the next
step. If they are nearer to what they were before it, several times in a row, a warning says so.
"""

import torch

from shoal import shards

_VALUES, _PARAMETERS, _IN_A_ROW = 1024, 16, 3


class Undone:
    def __init__(self, parameters):
        """`parameters`: [(name, parameter)]."""
        self._parameters = parameters[::max(1, len(parameters) // _PARAMETERS)]
        self._before = self._after = None
        self._times, self._said = 0, False

    @torch.no_grad()
    def sample(self):
        return torch.cat([shards.local_values(parameter).reshape(-1)[:_VALUES].double().cpu()
                          for _, parameter in self._parameters])

    def averaged(self, before):
        """`before`: a sample from before the average was taken."""
        after = self.sample()
        if not torch.equal(before, after):
            self._before, self._after = before, after

    def stepped(self):
        if self._before is None or self._said:
            return
        before, after, self._before = self._before, self._after, None
        now, change = self.sample(), after - before
        taken = torch.dot(now - before, change) / torch.dot(change, change)  # 1: all of it is still there
        near = (now - before).norm() < 0.75 * change.norm()
        self._times = self._times + 1 if bool(taken < 0.25) and bool(near) else 0
        if self._times == _IN_A_ROW:
            self._said = True
            print(f"warning: the first step after each of the last {_IN_A_ROW} averages undid it: the optimizer seems "
                  "to have copies of the parameters (let it take them anew: replica.diloco(model, optimizer, "
                  "after_average=function), docs/python_state.md)", flush=True)
