#!/usr/bin/env bash
# Makes build-device-pack/all.tar.gz: what scripts/device_check.sh --packed needs on a machine with an NVIDIA device that has no
# network, no GoogleTest and no gRPC. Tests, benchmark and control plane are built here and stripped; the shared
# libraries that they need go with them (not those of glibc, the compiler, CUDA and NCCL, which are there). The
# objects of the trainer go too, without those of the few sources that see libtorch, which scripts/device_trainer.sh compiles there
# against another one. Take the archive with the working tree to the same place there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build="build-device"
pack="$build/pack"
archive="build-device-pack/all.tar.gz"
tests=(cuda_lanes_test device_codec_test device_vectors_test device_group_test streaming_device_test
  streaming_golden_test nccl_test)
programs=(shoal-kernels shoal shoal-agent shoal-coordinator)
linked_there=(bin/shoal-trainer tests/trainer_replica_group_process_test)

build() {
  cmake --preset cuda -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHOAL_CUDA_ARCHITECTURES=90 \
    -DSHOAL_GOLDEN_DIR=tests/golden
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "${tests[@]}" "${programs[@]}" \
    "${linked_there[@]}"
}

# The libraries that a bare machine with the same or a newer glibc and C++ compiler does not have.
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
  for object in "$build"/trainer/model/CMakeFiles/trainer_model.dir/*.cc.o; do
    nm -C "$object" | awk -v source="trainer/model/$(basename "$object" .o)" \
      '/ U (at|c10|torch)::/ {seen = 1} END {if (seen) print source}'
  done
}

# The shared libraries that a program names, but for those that are there.
needed_of() {
  objdump -p "$1" | awk '$1 == "NEEDED" && $2 !~ /^(libtorch|libc10|libc\.|libm\.|libstdc|libgcc|libnccl|ld-linux)/ {print $2}'
}

# What `program` is linked from, in order, but libtorch: objects and archives are copied, shared libraries too.
copy_link() {
  local program=$1 input name link=$pack/link
  name=$(basename "$program")
  ninja -C "$build" -t commands "$program" | tail -n 1 | tr ' ' '\n' | grep -E '\.(o|a)$' | awk '!seen[$0]++' |
    while read -r input; do
      local from=$build/$input to
      if [[ $input == /* ]]; then from=$input; fi
      to=$(tr '/' '_' <<<"${input#/}")
      strip --strip-debug -o "$link/$to" "$from"
      echo "$to"
    done >"$link/$name.inputs"
  needed_of "$build/$program" >"$link/$name.libraries"
  ldd "$build/$program" | awk -v wanted="$link/$name.libraries" \
    'BEGIN {while ((getline line <wanted) > 0) named[line]} $1 in named {print $3}' | copy_libraries
  libraries_of "$pack"/lib/* | copy_libraries
}

rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/lib" "$pack/link"
build
copy_binaries
torch_sources >"$pack/link/torch_sources"
for program in "${linked_there[@]}"; do copy_link "$program"; done
while read -r source; do
  ar d "$pack/link/trainer_model_libtrainer_model.a" "$(basename "$source").o"
done <"$pack/link/torch_sources"
mkdir -p "$(dirname "$archive")"
tar --create --gzip --file "$archive" --directory "$pack" bin lib link
du -sh "$pack"/* "$archive"
