#!/usr/bin/env bash
# What clang-tidy finds in sources, a line each: tidy.sh BUILD_FOLDER FILE…  The rules are in .clang-tidy; -Wthread-safety
# checks the locks beside them (threads/annotations.h), for which the same parse of a file does. A source that the
# build does not know is read with the flags of one that it does. Always succeeds.
set -uo pipefail
build=$1
shift
here=$(dirname "${BASH_SOURCE[0]}")
# clang cannot read the precompiled headers of GCC, and would check nothing of a file that has one. Each source is read
# alone, also where the build compiles several together: a missing #include is an error here.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
"$here/compile_commands.py" "$build" |
  sed -E 's/ -Winvalid-pch| -fpch-preprocess| -include [^ ]*cmake_pch\.hxx//g' >"$commands/compile_commands.json"
clang-tidy -p "$commands" --quiet --config-file="$here/../.clang-tidy" \
  --extra-arg=-Wthread-safety --extra-arg=-Werror=thread-safety "$@" 2>/dev/null |
  grep -E ': (warning|error): ' || true
