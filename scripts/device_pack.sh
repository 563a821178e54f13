#!/usr/bin/env bash
# Makes build-device-pack: what scripts/device_check.sh --packed needs on a machine with an NVIDIA device that has no
# network, no GoogleTest and no gRPC. Tests, benchmark and control plane are built here and stripped; the shared
# libraries that they need go with them (not those of glibc, the compiler, CUDA and NCCL, which are there). Of the
# trainer go all objects but those of the few sources that see libtorch, which scripts/device_trainer.sh compiles there
# against another one. Take the folder with the working tree to the same place there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build="build-device"
pack="build-device-pack"
tests=(cuda_lanes_test device_codec_test device_vectors_test device_group_test streaming_device_test
  streaming_golden_test nccl_test)
programs=(shoal-kernels shoal shoal-agent shoal-coordinator)
linked_there=(bin/shoal-trainer tests/trainer_cell_process_test)

build() {
  cmake --preset cuda -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHOAL_CUDA_ARCHITECTURES=90 \
    -DSHOAL_GOLDEN_DIR=tests/golden
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "${tests[@]}" "${programs[@]}" \
    "${linked_there[@]}"
}

# Those that a bare machine with the same or a newer glibc and C++ compiler does not have.
libraries_of() {
  ldd "$@" | awk '/=> \// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s|libnccl|ld-linux-x86-64)\.so'
}

copy_libraries() {
  local library
  while read -r library; do
    strip -o "$pack/lib/$(basename "$library")" "$(readlink -f "$library")"
  done
}

copy_binaries() {
  local name
  for name in "${tests[@]}"; do strip -o "$pack/bin/$name" "$build/tests/$name"; done
  for name in "${programs[@]}"; do strip -o "$pack/bin/$name" "$build/bin/$name"; done
  libraries_of "$pack"/bin/* | copy_libraries
}

# The sources whose objects name something of libtorch.
torch_sources() {
  local object
  for object in "$build"/trainer/CMakeFiles/trainer_model.dir/*.cc.o; do
    if nm -C "$object" | grep -qE ' U (at|c10|torch)::'; then
      echo "trainer/$(basename "$object" .o)"
    fi
  done
}

# What `program` is linked from, in order, but libtorch: objects and archives are copied, shared libraries too.
copy_link() {
  local program=$1 input name archive=$pack/link
  name=$(basename "$program")
  ninja -C "$build" -t commands "$program" | tail -n 1 | tr ' ' '\n' | grep -E '\.(o|a)$' | awk '!seen[$0]++' |
    while read -r input; do
      local from=$build/$input to
      if [[ $input == /* ]]; then from=$input; fi
      to=$(tr '/' '_' <<<"${input#/}")
      strip --strip-debug -o "$archive/$to" "$from"
      echo "$to"
    done >"$archive/$name.inputs"
  objdump -p "$build/$program" | awk '/NEEDED/ {print $2}' |
    grep -vE '^(libtorch|libc10|libc\.|libm\.|libstdc|libgcc|libnccl|ld-linux)' >"$archive/$name.libraries"
  ldd "$build/$program" | grep -F -f "$archive/$name.libraries" | awk '{print $3}' | copy_libraries
  libraries_of "$pack"/lib/* | copy_libraries
}

rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/lib" "$pack/link"
build
copy_binaries
torch_sources >"$pack/link/torch_sources"
for program in "${linked_there[@]}"; do copy_link "$program"; done
while read -r source; do
  ar d "$pack/link/trainer_libtrainer_model.a" "$(basename "$source").o"
done <"$pack/link/torch_sources"
du -sh "$pack" "$pack"/*
