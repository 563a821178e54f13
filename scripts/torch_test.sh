#!/usr/bin/env bash
# Shoal beside the real PyTorch 2 and `transformers`, which come from PyPI into build/torch/venv (about 5 GB;
# SHOAL_TORCH_PYTHON names an interpreter that has them, peft and lightning). The committed models have the logits
# that the library gives today; four agents train each of them on, and what they export has Shoal's loss in the
# library. Before them come the ids of tokenizers, behind them the wheel, programs under it, and what of
# scripts/device_check.sh needs no device: the trainer compiled against this PyTorch. Expects a finished build in
# build/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$PWD/build/torch
fixtures=$PWD/tests/golden/transformers
shoal=$PWD/build/bin/shoal
text=$folder/text
context=32 val_fraction=0.05
mkdir -p "$folder"

python=${SHOAL_TORCH_PYTHON:-$folder/venv/bin/python}
if [[ -z ${SHOAL_TORCH_PYTHON:-} ]] && ! "$python" -c 'import torch, transformers, peft, lightning' 2>/dev/null; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet --no-cache-dir torch transformers safetensors peft lightning
fi
# The headers that the compiler needs beside those of PyTorch's own CUDA.
if [[ -z ${SHOAL_TORCH_PYTHON:-} ]]; then "$folder/venv/bin/pip" install --quiet --no-cache-dir nvidia-cuda-crt; fi
"$python" scripts/tokenizer_goldens.py check "$shoal"
"$python" -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)'

head -c 60000 <(cat docs/*.md) >"$text"
cluster=$folder/cluster
stop_cluster() { "$shoal" down --data-dir "$cluster" >/dev/null 2>&1 || true; }
trap stop_cluster EXIT
stop_cluster
rm -rf "$cluster" "$folder"/*.export "$folder"/*.toml
"$shoal" up --agents 4 --detach --http 127.0.0.1:0 --grpc 127.0.0.1:0 --data-dir "$cluster" >/dev/null
SHOAL_ADDR=$(sed -n 's/^ *"http": "\(.*\)",*$/\1/p' "$cluster/up.json" | head -n 1)
export SHOAL_ADDR

# job_file NAME STAGES MODEL: a job that begins from a fixture; MODEL are the lines of [model] beside its sizes.
job_file() {
  cat <<END
name = "$1"
[model]
layers = 2
hidden = 32
heads = 4
kv_heads = 2
ffn = 48
context = $context
vocab = 256
init = "hf:$fixtures/$1"
$3
[data]
train = "$text"
val_fraction = $val_fraction
[train]
steps = 40
batch = 8
warmup = 5
lr = 1e-3
[sync]
every = 20
[eval]
batches = 20
[swarm]
stages = $2
END
  if (($2 > 1)); then echo 'activations = "fp32"'; fi
}

# round_trip NAME STAGES MODEL
round_trip() {
  local name=$1 loss dtype
  "$python" scripts/transformers_check.py golden "$fixtures/$name"
  job_file "$@" >"$folder/$name.toml"
  "$shoal" job submit --wait "$folder/$name.toml"
  loss=$("$shoal" job get "$name" --json | awk -F'[:,]' '/"validation_loss"/ { gsub(/ /, "", $2); print $2; exit }')
  for dtype in fp32 bf16; do
    "$shoal" checkpoint export "$name" -o "$folder/$name.$dtype.export" --dtype "$dtype" --shard-size 40KB
    "$python" scripts/transformers_check.py loss "$folder/$name.$dtype.export" "$text" "$val_fraction" "$context" "$loss"
  done
}

round_trip llama3 1 'head_dim = 12
norm_eps = 1e-6
rope = { theta = 500000, scaling = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_context = 16 }'
round_trip qwen2 1 'tie_embeddings = true
qkv_bias = true
norm_eps = 1e-6
rope = { theta = 1000000 }'
round_trip linear 2 'rope = { scaling = "linear", factor = 4 }'
stop_cluster

echo '== tests of the package'
PYTHONPATH=$PWD/build/python "$python" -m unittest discover -s python/tests -p '*_test.py'
echo '== stages of a Llama'
scripts/torch_pipeline.sh "$python"
echo '== wheel'
scripts/wheel.sh build
scripts/torch_programs_test.py "$python"
echo '== check of a device, without one'
PACK=build-device-check/pack LEVEL=0 scripts/device_pack.sh build
PACK=build-device-check/pack PATH=$(dirname "$python"):$PATH scripts/device_check.sh --packed --cpu trainer programs speed
