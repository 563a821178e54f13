#!/usr/bin/env bash
# Whether what --otlp sends is OTLP: a real cluster trains, and OpenTelemetry's own protocol definitions, which come from
# PyPI into a virtual environment in the build folder, read it: otlp_check.sh [BUILD].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
environment=${1:-build}/otlp-venv
if [[ ! -x $environment/bin/python ]]; then python3 -m venv "$environment"; fi
"$environment/bin/pip" install --quiet opentelemetry-proto
SHOAL_BIN=$(realpath "${1:-build}")/bin PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" scripts/otlp_check.py
