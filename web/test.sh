#!/usr/bin/env bash
# Tests of the dashboard: types, unit tests, budgets. With --browser also a browser against generated data: bad
# input, logins, and the largest sizes with their time limits. With --e2e also against a real cluster (BIN: folder of shoal,
# shoal-coordinator, shoal-agent and shoal-trainer; default ../build/bin).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

before=$(cat dist/.sources.sha256 2>/dev/null || true)
./build.sh
npx vitest run
if [[ $before != "$(cat dist/.sources.sha256)" ]]; then
  echo "note: web/dist was stale and has been rebuilt; build the coordinator again and commit it" >&2
fi
if [[ ${1:-} == --browser || ${1:-} == --e2e ]]; then
  node e2e/hostile.mjs
  node e2e/login.mjs
  node e2e/load.mjs
fi
if [[ ${1:-} == --e2e ]]; then
  BIN=${BIN:-$PWD/../build/bin} node e2e/run.mjs
fi
