#!/usr/bin/env bash
# Whether the overview of docs/cli.md has every command of `shoal` and every option of each: commands_test.sh SHOAL.
# The options that all commands have in common are told below it.
set -euo pipefail
page=$(dirname "${BASH_SOURCE[0]}")/../docs/cli.md
shoal=$1
export SHOAL_ADDR=http://127.0.0.1:1 # names of jobs are nobody's business here
overview=$(awk '/^```/ {inside = !inside; if (!inside) exit} inside' "$page")
missing=0

# has WORD LINES: as a word of its own.
has() { grep -qE -- "(^|[][ |])$1([][ |]|\$)" <<<"$2"; }

# check COMMAND…: it and its subcommands.
check() {
  local lines option sub subs
  lines=$(grep -E "^shoal $1( |\$)" <<<"$overview" || true)
  for word in "$@"; do
    if ! has "$word" "$lines"; then
      echo "docs/cli.md: no 'shoal $*'" >&2
      missing=1
      return
    fi
  done
  subs=$("$shoal" __complete "$@" "")
  if [[ -n $subs && $1 != completion && ($# == 1) ]] && "$shoal" "$@" --help | grep -q '^Subcommands:'; then
    while IFS= read -r sub; do check "$@" "$sub"; done <<<"$subs"
    return
  fi
  while IFS= read -r option; do
    if has "$option" "--help --addr --token-file --ca --insecure-http --json" || has "$option" "$lines"; then continue; fi
    echo "docs/cli.md: no $option of 'shoal $*'" >&2
    missing=1
  done < <("$shoal" __complete "$@" --)
}

commands=$("$shoal" __complete "")
[[ -n $commands ]]
while IFS= read -r command; do check "$command"; done <<<"$commands"
exit $missing
