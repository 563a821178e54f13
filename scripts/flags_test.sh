#!/usr/bin/env bash
# Whether docs/operations.md lists the flags of a program, no more and no less: flags_test.sh PROGRAM. The heading of
# its table is the program's name.
set -euo pipefail
page=$(dirname "${BASH_SOURCE[0]}")/../docs/operations.md
name=$(basename "$1")
documented=$(awk -v heading="## $name" '/^## /{here = ($0 == heading)} here && /^\| `--/' "$page" |
  cut -d'|' -f2 | grep -oE -- '--[a-z-]+' | sort)
known=$("$1" --help | sed -nE 's/^  (-[a-z],)?(--[a-z-]+).*/\2/p' | grep -vxE -- '--(help|version)' | sort)
[[ -n $known ]]
diff <(echo "$documented") <(echo "$known") && exit 0
echo "docs/operations.md (<) and $name --help (>) differ" >&2
exit 1
