#!/usr/bin/env bash
# The C++ trainer in scripts/device_check.sh: compiles the sources that see libtorch against the PyTorch of this
# machine's python3, links shoal-trainer and its tests with what scripts/device_pack.sh brought, and runs them.
# TORCH_FOLDER (with include/ and lib/) names another libtorch; one without CUDA makes a trainer for the CPU.
#
# usage: scripts/device_trainer.sh build|test|jobs|speed PACK [cuda|cpu [OPTION of device_speed.py…]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pack=$PWD/${2:?the folder of device_pack.sh}
kind=${3:-cuda}
folder=$PWD/build-device-trainer
torch=${TORCH_FOLDER:-$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')}
cuda=${CUDA_HOME:-/usr/local/cuda}
if [[ ! -e $torch/lib/libtorch.so || ! -e $torch/include/torch ]]; then
  echo "error: $torch is no PyTorch with its headers and libraries: install the wheel, or name one with TORCH_FOLDER" >&2
  exit 1
fi

# Beside PyTorch's own libraries those of CUDA and NCCL that come as Python packages of their own.
library_path() {
  local path=$torch/lib each
  for each in "$torch"/../nvidia/*/lib; do
    if [[ -d $each ]]; then path=$path:$each; fi
  done
  echo "$path:$cuda/lib64:$pack/lib"
}

libraries=$(library_path)

compile_flags() {
  echo -std=c++20 -O2 -DNDEBUG -fPIC -pthread -ffp-contract=off -w -I. -Igenerated \
    "-DSHOAL_GOLDEN_DIR='\"$PWD/tests/golden\"'" -isystem "$pack/include" \
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

# first_of PATTERN: the first such library on the path, wherever it lies here.
first_of() {
  local folder each
  for folder in ${libraries//:/ }; do
    for each in "$folder"/$1; do
      if [[ -e $each ]]; then
        echo "$each"
        return
      fi
    done
  done
}

# What PyTorch with CUDA computes with, and what replica groups add with.
cuda_libraries() {
  if [[ -e $torch/lib/libtorch_cuda.so ]]; then first_of 'libcudart.so.*'; fi
  first_of libnccl.so.2
}

# compile SOURCES FOLDER: the listed sources, to objects in the folder.
compile() {
  mkdir -p "$2"
  rm -f "$2"/*.o
  local flags
  flags=$(compile_flags | tr '\n' ' ')
  # shellcheck disable=SC2016
  xargs -P "${JOBS:-$(nproc)}" -I SOURCE bash -c \
    "${CXX:-g++} $flags"' -c SOURCE -o '"$2"'/$(basename SOURCE).o' <"$1"
}

# link PROGRAM OBJECTS…: PyTorch's CUDA library registers itself when it is loaded; nothing names it.
link() {
  local name=$1 inputs shared
  shift
  mapfile -t inputs < <(sed "s|^|$pack/link/|" "$pack/link/$name.inputs")
  mapfile -t shared < <(sed "s|^|$pack/lib/|" "$pack/link/$name.libraries")
  # shellcheck disable=SC2046
  g++ -pthread -o "$folder/bin/$name" "$@" -Wl,--start-group "${inputs[@]}" -Wl,--end-group \
    -Wl,--no-as-needed $(torch_libraries) "${shared[@]}" $(cuda_libraries) -Wl,--allow-shlib-undefined \
    -Wl,--disable-new-dtags,-rpath,"${libraries//:/,-rpath,}" -ldl -lrt
}

build() {
  mkdir -p "$folder/bin"
  compile "$pack/link/torch_sources" "$folder/objects"
  compile "$pack/link/torch_test_sources" "$folder/test_objects"
  link shoal-trainer "$folder"/objects/*.o
  link trainer_replica_group_process_test "$folder"/objects/*.o
  link trainer_model_test "$folder"/test_objects/*.o "$folder"/objects/*.o
  cp "$pack"/bin/shoal "$pack"/bin/shoal-agent "$pack"/bin/shoal-coordinator "$folder/bin/"
  ln -sfn "$pack/lib" "$folder/lib"
}

run_tests() {
  local failed=0
  "$folder/bin/shoal-trainer" version
  "$folder/bin/trainer_model_test" --gtest_brief=1 || failed=1
  "$folder/bin/trainer_model_test" --gtest_filter='OnDevice.*' || failed=1
  SHOAL_TRAINER_PROGRAM=$folder/bin/shoal-trainer "$folder/bin/trainer_replica_group_process_test" || failed=1
  return "$failed"
}

case ${1:-} in
  build) build ;;
  test) run_tests ;;
  jobs) scripts/device_jobs.py "$folder/bin" --devices "$kind" mixed boundary ;;
  speed) scripts/device_speed.py "$folder/bin/shoal-trainer" "${@:4}" ;;
  *)
    echo "error: build, test, jobs or speed" >&2
    exit 2
    ;;
esac
