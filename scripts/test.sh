#!/usr/bin/env bash
# Everything that must be green before a change goes in: lint, unit and integration tests, 200 simulator
# seeds. All parts run even when one fails; the summary says which. Expects a finished build in build/.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

seeds=200
selection=()
torch=false
for argument in "$@"; do
  case $argument in
    --quick)
      seeds=10
      selection=(--label-exclude 'integration|slow')
      ;;
    --torch) torch=true ;;
    *)
      echo "usage: ./dev test [--quick | --torch]" >&2
      exit 2
      ;;
  esac
done

if $torch; then exec scripts/torch_test.sh; fi

names=() results=() times=()
part() { # NAME COMMAND…
  local name=$1 started=$SECONDS result=ok
  shift
  printf '\n== %s\n' "$name"
  "$@" || result=FAILED
  names+=("$name") results+=("$result") times+=("$((SECONDS - started))")
}

part lint scripts/lint.sh
part tests ctest --test-dir build --output-on-failure --no-tests=error --parallel "$(nproc)" \
  "${selection[@]}"
part simulator build/bin/shoal-sim --seeds "$seeds"

printf '\n== summary\n'
failed=0
for i in "${!names[@]}"; do
  printf '%-10s %-7s %4d s\n' "${names[i]}" "${results[i]}" "${times[i]}"
  if [[ ${results[i]} != ok ]]; then failed=1; fi
done
exit "$failed"
