#!/usr/bin/env bash
# Whether the presets that CI does not build can at least be configured: presets_test.sh PRESET…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for preset in "$@"; do
  if ! cmake --preset "$preset" -B "$work/$preset" >"$work/log" 2>&1; then
    echo "the preset $preset cannot be configured" >&2
    grep -A8 'CMake Error' "$work/log" >&2 || cat "$work/log" >&2
    exit 1
  fi
done
