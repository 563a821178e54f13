#!/usr/bin/env bash
# device_check_test.sh BUILD: packs a finished build for a machine with a device, and runs there what needs none: the
# tests on the host, and a program of the Python package. `./dev test --torch` runs the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PACK=build-device-check/pack
export PATH=/usr/bin:$PATH  # Debian's python3, which has a PyTorch
LEVEL=0 scripts/device_pack.sh "$1"
scripts/device_check.sh --packed --cpu tests programs
