"""A Llama of Hugging Face, cut by its blocks into the stages of a pipeline. Needs `transformers`.
The job's [model] gives its sizes; its parameters have the names of LlamaForCausalLM."""

import pipeline
import shoal

import torch
from transformers import LlamaConfig, LlamaForCausalLM


class Block(torch.nn.Module):
    """A decoder layer that takes and gives hidden states, with positions from 0 on."""

    def __init__(self, layer, rotary):
        super().__init__()
        self.layer, self.rotary = layer, rotary

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)[None]
        output = self.layer(x, position_ids=places, position_embeddings=self.rotary(x, places))
        return output[0] if isinstance(output, tuple) else output


def llama(sizes):
    config = LlamaConfig(
        vocab_size=sizes["vocab"], hidden_size=sizes["hidden"], intermediate_size=sizes["ffn"],
        num_hidden_layers=sizes["layers"], num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"], max_position_embeddings=sizes["context"],
        tie_word_embeddings=False, attn_implementation="sdpa")  # which is causal without a mask
    return LlamaForCausalLM(config)


def flat(model):
    inner = model.model
    blocks = [Block(layer, inner.rotary_emb) for layer in inner.layers]
    return torch.nn.Sequential(inner.embed_tokens, *blocks, inner.norm, model.lm_head)


def train(replica):
    sizes = replica.job["model"]
    text, held_out = pipeline.texts_of(replica.data_path, sizes["context"])
    model = llama(sizes)
    run = replica.pipeline(flat(model), pipeline.optimizer_of, pipeline.loss_of, model=model,
                           example=torch.zeros(1, sizes["context"], dtype=torch.long))
    run.evaluate(held_out)
    for _ in run.steps(text):
        torch.nn.utils.clip_grad_norm_(run.stage.parameters(), 1.0)
        run.optimizer.step()


if __name__ == "__main__":
    with shoal.join() as replica:
        train(replica)
