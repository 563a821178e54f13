"""A Llama of Hugging Face in stages, beside the same one in one piece."""

import os
import sys
import unittest

try:
    import torch
    import transformers  # noqa: F401
except ImportError:
    raise unittest.SkipTest("this Python has no transformers") from None

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/python"))
import llama_pipeline as example  # noqa: E402

from shoal import cut  # noqa: E402
from shoal.stage import Stage  # noqa: E402

SIZES = {"layers": 4, "hidden": 32, "ffn": 96, "heads": 4, "kv_heads": 2, "vocab": 64,
         "context": 16}
SEQUENCES = 3


def llama():
    torch.manual_seed(1)
    return example.llama(SIZES)


class LlamaTest(unittest.TestCase):
    def test_gradients_of_two_stages_are_those_of_the_library(self):
        torch.manual_seed(2)
        x, y = torch.randint(64, (2, SEQUENCES, 16))
        whole = llama()
        example.pipeline.loss_of(whole(x).logits, y).backward()
        model = llama()
        modules = cut.stages_of(example.flat(model), 2, torch.zeros(1, 16, dtype=torch.long), 32)
        names = cut.names_of(modules, model)
        self.assertEqual(sorted(names.values()), sorted(n for n, _ in whole.named_parameters()))
        first, last = (Stage(module, i, (SEQUENCES, 16, 32), torch.device("cpu"),
                             example.pipeline.loss_of) for i, module in enumerate(modules))
        output = first.forward(0, x, True)
        _, gradient = last.loss(last.received(output.detach().flatten(), True), y, True, True)
        first.backward(0, gradient.flatten(), True)
        for stage in (first, last):
            stage.scale_gradients(stage.tokens)
        ours = dict(model.named_parameters())
        for name, parameter in whole.named_parameters():
            torch.testing.assert_close(ours[name].grad, parameter.grad, rtol=1e-4, atol=1e-7,
                                       msg=lambda text, name=name: f"{name}: {text}")


if __name__ == "__main__":
    unittest.main()
