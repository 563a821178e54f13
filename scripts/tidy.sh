#!/usr/bin/env bash
# What clang-tidy finds in sources, a line each: tidy.sh BUILD_FOLDER FILE…  The rules are in .clang-tidy; -Wthread-safety
# checks the locks beside them (threads/annotations.h), for which the same parse of a file does. A source that the
# build does not know is read with the flags of one that it does. Always succeeds.
set -uo pipefail
build=$1
shift
# clang cannot read the precompiled headers of GCC, and would check nothing of a file that has one.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
sed -E 's/ -Winvalid-pch| -fpch-preprocess| -include [^ ]*cmake_pch\.hxx//g' "$build/compile_commands.json" \
  >"$commands/compile_commands.json"
clang-tidy -p "$commands" --quiet --config-file="$(dirname "${BASH_SOURCE[0]}")/../.clang-tidy" \
  --extra-arg=-Wthread-safety --extra-arg=-Werror=thread-safety "$@" 2>/dev/null |
  grep -E ': (warning|error): ' || true
