#!/usr/bin/env bash
# What only a machine with an NVIDIA device can show: that CUDA kernels, golden histories, replica groups, the trainer
# and Python programs do there what they do on the CPU, and how fast. Such a machine may be bare, and rented for
# minutes: every step has a time limit, one that fails stops no other, and the last lines say how each ended.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

usage() {
  cat <<'HELP'
usage: scripts/device_check.sh [--packed] [--cpu] [--results DIR] [PART...]

  tests      unit tests and golden histories on the device
  bench      every kernel beside a copy of as many bytes, and the outer step of 2^30 parameters
  trainer    compiles shoal-trainer against the PyTorch of python3; its tests, a replica group, and jobs of two replicas
             on the device
  programs   the Python package with that PyTorch: a small GPT, and a Llama of transformers
  speed      inner steps in bf16 beside PyTorch's, eager and compiled, on Llamas of 350 M and 1 B parameters
  sanitize   compute-sanitizer over the tests of the kernels
  all        these, in this order

Without a part: tests and bench. All but these two need --packed. A step ends within 2 to 5 minutes, compiling
within 8; it runs beside `tests` and `bench`.

  --packed       takes build-device-pack/all.tar.xz, which scripts/device_pack.sh made elsewhere (PACK names another
                 folder). Without it, tests and bench are built here: CUDA 12, a C++ compiler, CMake, Ninja, GoogleTest, CLI11, nlohmann-json, xxHash;
                 no libtorch, no gRPC.
  --cpu          the same without a device, as far as it goes: the rest is named as skipped
  --results DIR  where log.txt, kernels.json and speed.json go (default: build-device-check/results)
HELP
}

folder="build-device-check"
pack="${PACK:-build-device-pack}"
results=$folder/results
packed=false
kind=cuda
parts=()
all=(tests bench trainer programs speed sanitize)
while (($# > 0)); do
  case $1 in
    --packed) packed=true ;;
    --cpu) kind=cpu ;;
    --results)
      results=${2:?--results needs a folder}
      shift
      ;;
    tests | bench | sanitize | trainer | programs | speed) parts+=("$1") ;;
    all) parts=("${all[@]}") ;;
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
if ! $packed; then
  for part in "${parts[@]}"; do
    if [[ $part != tests && $part != bench ]]; then
      echo "error: $part needs --packed" >&2
      exit 2
    fi
  done
fi

folders="base;job;outer_opt/core;messages;outer_opt/cuda;swarm/core;swarm/cuda;coordinator/core;agent/core;tests/sim;tests/golden;bench/kernels"
tests=(cuda_lanes_test device_vectors_test device_group_test streaming_device_test)
with_cuda=(device_codec_test)
with_nccl=(env)  # what goes before the tests
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

skip() { summary+=("skipped $1: $2"); }

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
    # Python reads the archive, because not every machine has xz.
    step unpack 60 python3 -m tarfile --extract "$pack/all.tar.xz" "$pack" || return 1
    bin=$pack/bin
    kernels=$bin/shoal-kernels
    with_nccl=(env "LD_LIBRARY_PATH=$(nccl_of_python):${LD_LIBRARY_PATH:-}")
    with_cuda+=(nccl_test)
    tests+=(streaming_golden_test)
    return 0
  fi
  bin=$folder/tests
  kernels=$folder/bin/shoal-kernels
  step configure 60 cmake --preset cuda -B "$folder" -DSHOAL_TRAINER=OFF -DSHOAL_FOLDERS="$folders" || return
  if grep -q 'NCCL for replica groups: ON' "$folder/step.log"; then with_cuda+=(nccl_test); fi
  step build 480 cmake --build "$folder" --parallel "$(nproc)" --target "${tests[@]}" "${with_cuda[@]}" shoal-kernels
}

# The compiler has the cores while tests and kernels have the device.
begin_trainer() {
  rm -f "$folder/trainer_build."*
  (
    scripts/device_trainer.sh build "$pack" >"$folder/trainer_build.log" 2>&1
    echo $? >"$folder/trainer_build.status"
  ) &
}

# shellcheck disable=SC2016
await_trainer='until [[ -e $0.status ]]; do sleep 0.5; done; cat "$0.log"; exit "$(cat "$0.status")"'

run_tests() {
  local test
  for test in "${tests[@]}"; do step "$test" 120 "${with_nccl[@]}" "$bin/$test"; done
  for test in "${with_cuda[@]}"; do
    if [[ $kind == cuda ]]; then
      step "$test" 120 "${with_nccl[@]}" "$bin/$test"
    else
      skip "$test" "needs a device"
    fi
  done
}

run_bench() {
  if [[ $kind == cpu ]]; then
    skip kernels "needs a device"
    return
  fi
  # shellcheck disable=SC2016
  step kernels 180 bash -c 'set -o pipefail; "$0" --json | tee "$1"' "$kernels" "$results/kernels.json"
}

run_sanitize() {
  local tool
  for tool in memcheck racecheck; do
    if [[ $kind == cpu ]]; then
      skip "$tool" "needs a device"
      continue
    fi
    step "$tool" 200 compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/device_codec_test" \
      --gtest_brief=1
  done
}

run_trainer() {
  step trainer_build 480 bash -c "$await_trainer" "$folder/trainer_build" &&
    step trainer_tests 240 scripts/device_trainer.sh test "$pack" &&
    step trainer_jobs 300 scripts/device_trainer.sh jobs "$pack" "$kind"
}

run_programs() {
  local name
  step pytorch 60 python3 -c 'import torch; print("PyTorch", torch.__version__)' || return
  for name in example llama; do
    if [[ $name == llama ]] && ! python3 -c 'import transformers' 2>/dev/null; then
      skip llama "python3 has no transformers"
      continue
    fi
    step "$name" 200 scripts/device_jobs.py "$pack/bin" --devices "$kind" "$name"
  done
}

run_speed() {
  local size=(--size tiny --steps 5 --repeats 1)
  if [[ $kind == cuda ]]; then size=(--repeats 1); fi
  step speed 400 scripts/device_trainer.sh speed "$pack" "$kind" --json "$results/speed.json" "${size[@]}"
}

run_part() {
  case $1 in
    tests) run_tests ;;
    bench) run_bench ;;
    trainer) run_trainer ;;
    programs) run_programs ;;
    speed) run_speed ;;
    sanitize) run_sanitize ;;
  esac
}

wants() { [[ " ${parts[*]} " == *" $1 "* ]]; }

if [[ $kind == cpu ]]; then
  skip device "--cpu"
else
  step device 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
fi
if find_binaries; then
  if wants trainer; then begin_trainer; fi
  for part in "${parts[@]}"; do run_part "$part"; done
else
  failed=1
fi
echo "== summary"
printf '%s\n' "${summary[@]}"
exit "$failed"
