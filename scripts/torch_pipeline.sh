#!/usr/bin/env bash
# A Llama of the real `transformers` in two stages: four agents train it under Shoal, and what they stored is a
# model of the library. usage: torch_pipeline.sh PYTHON; expects a finished build in build/. `./dev test --torch`
# runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1
folder=$PWD/build/torch/pipeline
shoal=$PWD/build/bin/shoal
mkdir -p "$folder"

head -c 60000 <(cat docs/*.md) >"$folder/text"
cluster=$folder/cluster
stop_cluster() { "$shoal" down --data-dir "$cluster" >/dev/null 2>&1 || true; }
trap stop_cluster EXIT
stop_cluster
rm -rf "$cluster" "$folder/checkpoint"
"$shoal" up --agents 4 --trainer-root examples/python --python "$python" --detach --http 127.0.0.1:0 --grpc 127.0.0.1:0 \
  --data-dir "$cluster" >/dev/null
SHOAL_ADDR=$(sed -n 's/^ *"http": "\(.*\)",*$/\1/p' "$cluster/up.json" | head -n 1)
export SHOAL_ADDR
cat >"$folder/job.toml" <<END
name = "llama-pipeline"
[trainer]
kind = "python"
entry = "llama_pipeline.py"
[model]
layers = 4
hidden = 32
heads = 4
kv_heads = 2
ffn = 96
context = 32
vocab = 256
[data]
train = "$folder/text"
[train]
steps = 120
batch = 8
[sync]
every = 20
[swarm]
stages = 2
max_replicas = 2
END
"$shoal" job submit --wait "$folder/job.toml"
"$shoal" checkpoint download llama-pipeline -o "$folder/checkpoint"
PYTHONPATH=build/python:examples/python "$python" - "$folder" <<'END'
import json
import sys
import torch
import llama_pipeline, pipeline, shoal

folder = sys.argv[1]
sizes = json.load(open(folder + "/checkpoint/part-00.json"))["spec"]["model"]
model = llama_pipeline.llama(sizes)
missing = model.load_state_dict(shoal.load_checkpoint(folder + "/checkpoint"), strict=False)
assert not missing.missing_keys and not missing.unexpected_keys, missing
_, held_out = pipeline.texts_of(folder + "/text", sizes["context"])
with torch.no_grad():
    x, y = zip(*[held_out[i] for i in range(len(held_out))])
    loss = float(pipeline.loss_of(model(torch.stack(x)).logits, torch.stack(y)))
print(f"held-out loss of the joined model in transformers: {loss:.3f}")
assert loss < 4.5, "5.5 is what guessing gives"
END
