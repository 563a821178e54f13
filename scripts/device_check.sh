#!/usr/bin/env bash
# Shows on a machine with an NVIDIA device that the CUDA kernels give the bytes of the CPU, and how fast they
# are: builds what that takes (the CUDA toolkit, a C++ compiler, CMake, GoogleTest, CLI11 and nlohmann-json; no
# libtorch, no gRPC), runs the tests and the benchmark. With --built the binaries in build-device are taken as
# they are. Results: build-device/kernels.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=build-device
if [[ ${1:-} != --built ]]; then
  cmake --preset cuda -B "$folder" -DSHOAL_TRAINER=OFF \
    -DSHOAL_FOLDERS="base;outer_opt/core;outer_opt/cuda;bench/kernels"
  cmake --build "$folder" --parallel "$(nproc)" \
    --target cuda_lanes_test device_codec_test device_vectors_test shoal-kernels
fi
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || echo "nvidia-smi is not here" >&2
for test in cuda_lanes_test device_codec_test device_vectors_test; do
  "$folder/tests/$test" --gtest_brief=1
done
"$folder/bin/shoal-kernels"
"$folder/bin/shoal-kernels" --json >"$folder/kernels.json"
