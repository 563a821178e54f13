#!/usr/bin/env bash
# Makes build-device-pack/all.tar.xz ($PACK names another folder): what scripts/device_check.sh --packed needs on a machine with an NVIDIA device that
# has no network, no GoogleTest and no gRPC. Tests, benchmark, programs and the Python package are built here and
# stripped; the shared libraries that they need go with them (not those of glibc, the compiler, CUDA and NCCL, which
# are there). The objects of the trainer go too, without those of the few sources that see libtorch, which
# scripts/device_trainer.sh compiles there against another one. Take the archive with the working tree to the same
# place there.
#
# usage: scripts/device_pack.sh [BUILD]
# BUILD: a finished build to pack, with or without CUDA. Without it, build-device is built by the cuda preset.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build-device}
pack="$build/pack"
archive="${PACK:-build-device-pack}/all.tar.xz"
tests=(cuda_lanes_test device_group_test device_vectors_test streaming_device_test streaming_golden_test)
with_cuda=(device_codec_test nccl_test)
programs=(shoal shoal-agent shoal-coordinator shoal-reducer shoal-kernels)
linked_there=(bin/shoal-trainer tests/trainer_replica_group_process_test tests/trainer_model_test)

# Programs and libraries find what is in lib/ by themselves: LD_LIBRARY_PATH would change Python's libraries, too.
build() {
  local old_tags=-Wl,--disable-new-dtags  # also for what those libraries need
  cmake --preset cuda -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHOAL_CUDA_ARCHITECTURES=90 \
    -DSHOAL_GOLDEN_DIR=tests/golden -DCMAKE_BUILD_RPATH="\$ORIGIN/../lib;\$ORIGIN/../../lib" \
    -DCMAKE_EXE_LINKER_FLAGS="$old_tags" -DCMAKE_SHARED_LINKER_FLAGS="$old_tags"
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "${tests[@]}" "${with_cuda[@]}" "${programs[@]}" \
    shoal_replica "${linked_there[@]}"
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
  for name in "${tests[@]}" "${with_cuda[@]}"; do
    if [[ -e $build/tests/$name ]]; then strip -o "$pack/bin/$name" "$build/tests/$name"; fi
  done
  for name in "${programs[@]}"; do strip -o "$pack/bin/$name" "$build/bin/$name"; done
  libraries_of "$pack"/bin/* | copy_libraries
}

# As in a wheel: programs of jobs are trained by the interpreter of the agent.
copy_package() {
  mkdir -p "$pack/python/shoal"
  cp python/shoal/*.py "$pack/python/shoal"
  strip --strip-unneeded -o "$pack/python/shoal/libshoal_replica.so" "$build/python/shoal/libshoal_replica.so"
  cp scripts/wheel_trainer.sh "$pack/bin/shoal-trainer"
  libraries_of "$pack/python/shoal/libshoal_replica.so" | copy_libraries
}

# torch_sources TARGET: the sources of a target of trainer/model whose objects name something of libtorch.
torch_sources() {
  local object
  for object in "$build/trainer/model/CMakeFiles/$1.dir"/*.cc.o; do
    nm -C "$object" | awk -v source="trainer/model/$(basename "$object" .o)" \
      '/[^a-z_](at|c10|torch)::/ {seen = 1} END {if (seen) print source}'
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
      if grep -qxF "trainer/model/$(basename "$input" .o)" "$link/torch_test_sources"; then continue; fi
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
mkdir -p "$pack/bin" "$pack/lib" "$pack/link" "$pack/include"
if (($# == 0)); then build; fi
copy_binaries
copy_package
torch_sources trainer_model >"$pack/link/torch_sources"
torch_sources trainer_model_test >"$pack/link/torch_test_sources"
for program in "${linked_there[@]}"; do copy_link "$program"; done
while read -r source; do
  ar d "$pack/link/trainer_model_libtrainer_model.a" "$(basename "$source").o"
done <"$pack/link/torch_sources"
cp -r /usr/include/gtest /usr/include/gmock "$pack/include"
mkdir -p "$(dirname "$archive")"
XZ_OPT="-T0 -${LEVEL:-6}" tar --create --xz --file "$archive" --directory "$pack" bin include lib link python
du -sh "$pack"/* "$archive"
