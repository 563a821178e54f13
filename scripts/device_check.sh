#!/usr/bin/env bash
# What only a machine with an NVIDIA device can show: that CUDA kernels, golden histories and the communicators
# of replica groups do there what they do on the CPU, and how fast the kernels are. Such a machine may be bare, and rented for
# minutes: every step has a time limit, one that fails stops no other, and the last lines say how each ended.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

usage() {
  cat <<'HELP'
usage: scripts/device_check.sh [--packed] [--results DIR] [PART...]

  tests      unit tests and golden histories on the device
  bench      every kernel beside a copy of as many bytes
  sanitize   compute-sanitizer over the tests of the kernels
  trainer    compiles shoal-trainer against the PyTorch of python3, trains a replica group and a small job on the device;
             needs --packed
Without a part: tests and bench. A step ends within 2 to 4 minutes, compiling within 8.

  --packed       takes build-device-pack/all.tar.gz, which scripts/device_pack.sh made elsewhere. Without it, tests and
                 bench are built here: CUDA 12, a C++ compiler, CMake, Ninja, GoogleTest, CLI11, nlohmann-json, xxHash;
                 no libtorch, no gRPC.
  --results DIR  where log.txt and kernels.json go (default: build-device-check/results)
HELP
}

folder="build-device-check"
pack="build-device-pack"
results=$folder/results
packed=false
parts=()
while (($# > 0)); do
  case $1 in
    --packed) packed=true ;;
    --results)
      results=${2:?--results needs a folder}
      shift
      ;;
    tests | bench | sanitize | trainer) parts+=("$1") ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "error: there is no part $1" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done
if ((${#parts[@]} == 0)); then parts=(tests bench); fi

folders="base;job;outer_opt/core;messages;outer_opt/cuda;swarm/core;swarm/cuda;coordinator/core;agent/core;tests/sim;tests/golden;bench/kernels"
tests=(cuda_lanes_test device_codec_test device_vectors_test device_group_test streaming_device_test)
with_libraries=(env)  # what goes before a packed program, and before nothing else
summary=()
failed=0
mkdir -p "$folder" "$results"
: >"$results/log.txt"

# step NAME SECONDS COMMAND...: its output goes to log.txt, the end of it is shown.
step() {
  local name=$1 seconds=$2 status=0 start=$SECONDS
  shift 2
  echo "== $name"
  timeout --kill-after=5 "$seconds" "$@" >"$folder/step.log" 2>&1 || status=$?
  (echo "== $name: $*" && cat "$folder/step.log") >>"$results/log.txt"
  tail -n 25 "$folder/step.log"
  case $status in
    0) summary+=("ok      $name ($((SECONDS - start)) s)") ;;
    124 | 137) summary+=("LATE    $name (over $seconds s)") ;;
    *) summary+=("FAILED  $name ($((SECONDS - start)) s, status $status)") ;;
  esac
  if ((status != 0)); then failed=1; fi
  return "$status"
}

# Where the libraries of the Python package `nvidia-nccl` lie, if there is one.
nccl_of_python() {
  python3 - <<'PYTHON' 2>/dev/null
import nvidia.nccl
print(list(nvidia.nccl.__path__)[0] + "/lib")
PYTHON
}

# Sets where the binaries are, after having built them if need be.
find_binaries() {
  if $packed; then
    step unpack 60 tar --extract --gzip --file "$pack/all.tar.gz" --directory "$pack" || return 1
    bin=$pack/bin
    kernels=$bin/shoal-kernels
    with_libraries=(env "LD_LIBRARY_PATH=$PWD/$pack/lib:$(nccl_of_python):${LD_LIBRARY_PATH:-}")
    tests+=(nccl_test streaming_golden_test)
    return 0
  fi
  bin=$folder/tests
  kernels=$folder/bin/shoal-kernels
  step configure 60 cmake --preset cuda -B "$folder" -DSHOAL_TRAINER=OFF -DSHOAL_FOLDERS="$folders" || return
  if grep -q 'NCCL for replica groups: ON' "$folder/step.log"; then tests+=(nccl_test); fi
  step build 480 cmake --build "$folder" --parallel "$(nproc)" --target "${tests[@]}" shoal-kernels
}

run_tests() {
  local test
  for test in "${tests[@]}"; do
    step "$test" 120 "${with_libraries[@]}" "$bin/$test"
  done
}

run_sanitize() {
  local tool
  for tool in memcheck racecheck; do
    step "$tool" 200 compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/device_codec_test" \
      --gtest_brief=1
  done
}

run_trainer() {
  step trainer_build 480 scripts/device_trainer.sh build "$pack" &&
    step trainer_tests 240 scripts/device_trainer.sh test "$pack" &&
    step trainer_job 240 scripts/device_trainer.sh train "$pack"
}

run_part() {
  case $1 in
    tests) run_tests ;;
    bench)
      step kernels 180 "$kernels"
      timeout 180 "$kernels" --json >"$results/kernels.json"
      ;;
    sanitize) run_sanitize ;;
    trainer) run_trainer ;;
  esac
}

step device 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
if find_binaries; then
  for part in "${parts[@]}"; do run_part "$part"; done
else
  failed=1
fi
echo "== summary"
printf '%s\n' "${summary[@]}"
exit "$failed"
