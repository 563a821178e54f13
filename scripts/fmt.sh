#!/usr/bin/env bash
# Formats every C++ file of the repository in place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/files.sh
source scripts/files.sh
sources '*.h' '*.cc' '*.cu' '*.cuh' | xargs -0 --no-run-if-empty clang-format -i
