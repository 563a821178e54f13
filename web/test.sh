#!/usr/bin/env bash
# Tests of the dashboard: types, unit tests, budgets, and with --e2e a browser against a real cluster
# (BIN: folder of shoal, shoal-coordinator, shoal-agent and shoal-trainer; default ../build/bin).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

before=$(cat dist/.sources.sha256 2>/dev/null || true)
./build.sh
npx vitest run
if [[ $before != "$(cat dist/.sources.sha256)" ]]; then
  echo "note: web/dist was stale and has been built anew; build the coordinator again and commit it" >&2
fi
if [[ ${1:-} == --e2e ]]; then
  BIN=${BIN:-$PWD/../build/bin} node e2e/run.mjs
fi
