#!/usr/bin/env bash
# The part `trainer` of scripts/device_check.sh: compiles the sources that see libtorch against the PyTorch of this
# machine's python3, links shoal-trainer with what scripts/device_pack.sh brought, and trains on the device.
# TORCH_FOLDER (with include/ and lib/) names another libtorch; one without CUDA makes a trainer for the CPU.
#
# usage: scripts/device_trainer.sh build|test|train PACK
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pack=$PWD/${2:?the folder of device_pack.sh}
folder=$PWD/build-device-trainer
torch=${TORCH_FOLDER:-$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')}
cuda=${CUDA_HOME:-/usr/local/cuda}
programs=(shoal-trainer trainer_replica_group_process_test)

# Beside PyTorch's own libraries those of CUDA and NCCL that come as Python packages of their own.
library_path() {
  local path=$torch/lib each
  for each in "$torch"/../nvidia/*/lib; do
    if [[ -d $each ]]; then path=$path:$each; fi
  done
  echo "$path:$cuda/lib64:$pack/lib"
}

libraries=$(library_path)  # for the programs that are made here, not for compilers and interpreters

compile_flags() {
  echo -std=c++20 -O2 -DNDEBUG -fPIC -pthread -ffp-contract=off -w -I. -Igenerated \
    -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include"
  if [[ ! -e $torch/lib/libtorch_cuda.so ]]; then return; fi
  echo -DSHOAL_TORCH_CUDA=1 -isystem "$cuda/include"
  local each
  for each in "$torch"/../nvidia/*/include; do
    if [[ -d $each ]]; then echo -isystem "$each"; fi
  done
}

torch_libraries() {
  local name
  for name in torch torch_cpu c10 torch_cuda c10_cuda; do
    if [[ -e $torch/lib/lib$name.so ]]; then echo "$torch/lib/lib$name.so"; fi
  done
}

# PyTorch's CUDA library registers itself when it is loaded; nothing names it.
link() {
  local name=$1 inputs shared
  mapfile -t inputs < <(sed "s|^|$pack/link/|" "$pack/link/$name.inputs")
  mapfile -t shared < <(sed "s|^|$pack/lib/|" "$pack/link/$name.libraries")
  # shellcheck disable=SC2046
  g++ -pthread -o "$folder/bin/$name" "$folder"/*.o -Wl,--start-group "${inputs[@]}" -Wl,--end-group \
    -Wl,--no-as-needed $(torch_libraries) "${shared[@]}" $(nccl) -Wl,--allow-shlib-undefined \
    -Wl,-rpath-link,"${libraries//:/,-rpath-link,}" -ldl -lrt
}

# The library that replica groups add with, wherever it lies here.
nccl() {
  local each
  for each in ${libraries//:/ }; do
    if [[ -e $each/libnccl.so.2 ]]; then
      echo "$each/libnccl.so.2"
      return
    fi
  done
}

build() {
  mkdir -p "$folder/bin"
  rm -f "$folder"/*.o
  local flags
  flags=$(compile_flags | tr '\n' ' ')
  # shellcheck disable=SC2016
  xargs -P "${JOBS:-$(nproc)}" -I SOURCE bash -c \
    'g++ '"$flags"' -c SOURCE -o '"$folder"'/$(basename SOURCE).o' <"$pack/link/torch_sources"
  for program in "${programs[@]}"; do link "$program"; done
  cp "$pack"/bin/shoal "$pack"/bin/shoal-agent "$pack"/bin/shoal-coordinator "$folder/bin/"
}

run_tests() {
  local failed=0
  export LD_LIBRARY_PATH=$libraries
  "$folder/bin/shoal-trainer" version
  "$folder/bin/shoal-trainer" bench --cuda --layers 4 --hidden 512 --heads 8 --batch 16 || failed=1
  SHOAL_TRAINER_PROGRAM=$folder/bin/shoal-trainer "$folder/bin/trainer_replica_group_process_test" || failed=1
  return "$failed"
}

field() { sed -n "s/^ *\"$1\": \"\(.*\)\",*\$/\1/p" "$folder/cluster/up.json" | head -n 1; }

agents=()
stop_all() {
  local agent
  for agent in "${agents[@]}"; do kill "$agent" 2>/dev/null || true; done
  "$folder/bin/shoal" down --data-dir "$folder/cluster" >/dev/null 2>&1 || true
}

start_agent() {
  "$folder/bin/shoal-agent" --coordinator "$(field grpc)" --join-token "$(field token_file)" \
    --enrol "$(field http | sed 's|.*://||')" --data-dir "$folder/cluster/agents/$1" --name "agent-$1" --devices "${DEVICES:-auto}" --host 127.0.0.1 \
    --data-root "$folder" --peer-ports 0 >"$folder/cluster/logs/agent-$1.log" 2>&1 &
  agents+=("$!")
}

# One agent with the CPU and two with the device train one model, in fragments with overlap.
train() {
  export LD_LIBRARY_PATH=$libraries
  cat docs/*.md >"$folder/text.txt"
  rm -rf "$folder/cluster"
  trap stop_all EXIT
  "$folder/bin/shoal" up --agents 1 --threads 4 --detach --http 127.0.0.1:0 --grpc 127.0.0.1:0 \
    --data-dir "$folder/cluster"
  start_agent 2
  start_agent 3
  SHOAL_ADDR=$(field http)
  export SHOAL_ADDR
  sleep 10
  "$folder/bin/shoal" agent ls
  "$folder/bin/shoal" job submit examples/kjv.toml --name device --set "data.train=\"$folder/text.txt\"" \
    --set train.steps="${STEPS:-200}" --set sync.every=20 --set sync.fragments=2 --set sync.overlap_steps=2 \
    --set sync.blend=0.5 --wait --timeout 150
  "$folder/bin/shoal" round ls device
  grep -h -i -E 'warning|error|replica group|libtorch' "$folder"/cluster/logs/*.log | tail -n 20 || true
}

case ${1:-} in
  build) build ;;
  test) run_tests ;;
  train) train ;;
  *)
    echo "error: build, test or train" >&2
    exit 2
    ;;
esac
