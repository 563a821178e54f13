"""What the package must leave as it found it: the random state of the process and the mode of each
module. And the seeds: after the model is built, each inner step of each replica has its own.
"""

import contextlib
import random
import sys

import torch


def seed(*words):
    """Seeds the generators of Python, NumPy and PyTorch with a number that follows from `words`, the
    same on every host. A program that draws from generators of its own seeds them itself."""
    drawn = random.Random("/".join(map(str, words))).getrandbits(63)
    random.seed(drawn)
    torch.manual_seed(drawn)
    seed_numpy(drawn)


def seed_numpy(number):
    """Where the program or PyTorch has imported it."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % 2**32)


@contextlib.contextmanager
def random_state_kept():
    """The generators continue afterwards where they are now."""
    python, cpu = random.getstate(), torch.get_rng_state()
    numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_rng_state(cpu)
        if numpy is not None:
            sys.modules["numpy"].random.set_state(numpy)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)


@contextlib.contextmanager
def evaluating(models):
    """All modules are in eval() mode, and afterwards each in the mode that it has now: a frozen batch
    norm stays frozen."""
    before = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for module, mode in before:  # parents first; train() may do more than set the mode
            if module.training != mode:
                module.train(mode)
        for module, mode in before:  # where a module has two parents, or its train() other ideas
            module.training = mode
