#!/usr/bin/env bash
# Whether `./dev COMMAND --help` of every command only prints help: nothing is built, installed or started for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Whatever a command would begin with fails and leaves a trace.
traps=$(mktemp -d)
trap 'rm -rf "$traps"' EXIT
for name in cmake ninja apt-get dpkg-query clang-format git; do
  printf '#!/bin/sh\ntouch "%s/called-%s"\nexit 1\n' "$traps" "$name" >"$traps/$name"
  chmod +x "$traps/$name"
done

missing=0
commands=$(./dev help | awk '/^  [a-z]/ {print $1}')
[[ $(wc -w <<<"$commands") -ge 10 ]]
for command in $commands; do
  for arguments in --help -h '--quick --help'; do
    # shellcheck disable=SC2086 # words
    if ! said=$(PATH=$traps:$PATH timeout 60 ./dev "$command" $arguments 2>&1) && [[ $arguments != --quick* ]]; then
      echo "./dev $command $arguments: failed: $said" >&2
      missing=1
    fi
    if ! grep -qE "^  $command( |\$)" <<<"$said"; then
      echo "./dev $command $arguments: does not print its lines of the usage" >&2
      missing=1
    fi
  done
done
for called in "$traps"/called-*; do
  [[ -e $called ]] || continue
  echo "./dev ... --help runs ${called##*/called-}" >&2
  missing=1
done
exit $missing
