#!/usr/bin/env bash
# Cheap checks of the house rules; seconds, no build needed except for --tidy. Prints every finding as
# file:line: what, then how many there are.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=scripts/files.sh
source scripts/files.sh
if [[ -z $(sources dev | tr -d '\0') ]]; then
  echo "error: git does not list this folder's files; is it a checkout?" >&2
  exit 1
fi
findings=$(mktemp)
trap 'rm -f "$findings"' EXIT

check_format() {
  sources '*.h' '*.cc' '*.cu' '*.cuh' |
    xargs -0 --no-run-if-empty clang-format --dry-run 2>&1 |
    grep 'clang-format-violations' | sed 's/ warning: code should be/ not/; s/ \[-Wclang.*//' |
    sort -u -t: -k1,1
}

# A source over 600 lines or a header over 300 takes everything.
check_file_sizes() {
  sources '*.h' '*.cc' '*.cu' '*.cuh' | while IFS= read -r -d '' file; do
    local limit=600 lines
    if [[ $file == *.h ]]; then limit=300; fi
    lines=$(wc -l <"$file")
    if ((lines > limit)); then echo "$file:$lines: over $limit lines"; fi
  done
}

# Functions over 70 lines, by awk: see function_length.awk for what it takes for one. The few old ones are
# in long_functions.txt ("file name lines"), where they may only become shorter.
check_function_lengths() {
  sources '*.cc' '*.cu' '*.cuh' '*.h' |
    xargs -0 --no-run-if-empty awk -v allowed=scripts/long_functions.txt -f scripts/function_length.awk
}

check_words() {
  local mine=(':!scripts/lint.sh' ':!LICENSE')
  # A TODO must say what it waits for: TODO(reason).
  sources '*' "${mine[@]}" | xargs -0 --no-run-if-empty grep -nIE '\bTODO\b([^(]|$)|\b(FIXME|XXX)\b' -- |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: TODO without the reason it waits/'
  sources '*' "${mine[@]}" | xargs -0 --no-run-if-empty grep -nIiE '\bfor now\b|\bquick hack\b' -- |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: says what it is not/'
  sources '*' "${mine[@]}" | xargs -0 --no-run-if-empty grep -nIE '/(home|Users)/[a-z]+/|/work/|/root/' -- |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: path of one machine/'
  # A comment begins with its subject: "Of the cookie" does not say what it describes.
  sources '*' "${mine[@]}" ':!migrations' ':!*.md' ':!*.json' ':!web/dist' | xargs -0 --no-run-if-empty \
    grep -nIE '(//|#|/\*) (Of|Who|Whom|Whose|Whoever) [a-z]' -- |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: a comment opens with Of or Who; begin with its subject/'
}

# Names that were given up, with what to say instead: old_words.txt. What is history may use them.
check_old_words() {
  local history=(':!CHANGELOG.md' ':!migrations' ':!tests/data' ':!web/dist' ':!LICENSE' ':!scripts/old_words.txt')
  local old instead except
  while IFS=$'\t' read -r old instead except; do
    if [[ -z $old || $old == '#'* ]]; then continue; fi
    sources '*' "${history[@]}" | xargs -0 --no-run-if-empty grep -nIE -- "$old" |
      grep -vE "^(${except:-/}):" | sed "s|^\([^:]*:[0-9]*\):.*|\1: an old word; say $instead|"
  done <scripts/old_words.txt
}

# What a replica does with its weights is said once: everybody else drives replica/core. Tests and checkers
# that compute the same on their own may call it, to compare.
check_outer_step() {
  sources '*.cc' '*.h' '*.cu' ':!outer_opt' ':!replica/core' ':!tests' ':!bench/kernels' |
    xargs -0 --no-run-if-empty grep -nE \
      '\b(nesterov_step|delayed_nesterov_step|shared_adamw_step|group_step|make_group_input|follow_step|apply_step) ?\(' -- |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: the arithmetic of the outer step belongs to replica\/core/'
}

check_text() {
  sources '*' ':!LICENSE' | xargs -0 --no-run-if-empty grep -nIE '[[:blank:]]+$' -- |
    grep -v '\.md:' | sed 's/^\([^:]*:[0-9]*\):.*/\1: blanks at the end of the line/'
  sources '*.h' | while IFS= read -r -d '' file; do
    if ! grep -q '^#pragma once' "$file"; then echo "$file:1: no #pragma once"; fi
  done
}

# Locks are those of threads/: clang knows what they protect. One that no annotation names protects nothing.
check_locks() {
  local mine=(':!threads/')
  sources '*.h' '*.cc' '*.cu' '*.cuh' "${mine[@]}" | xargs -0 --no-run-if-empty grep -nE \
    'std::([a-z_]*mutex|condition_variable(_any)?|(lock_guard|unique_lock|scoped_lock|shared_lock)\b)|#include <(mutex|shared_mutex|condition_variable)>' -- |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: not a lock of threads\/mutex.h, which clang checks/'
  sources '*.h' '*.cc' | xargs -0 --no-run-if-empty grep -nE '^ *(mutable )?Mutex [a-z_]+;' -- |
    while IFS=: read -r file number line; do
      local name=${line##*Mutex }
      if grep -qE "SHOAL_[A-Z_]+\([a-z_.]*\b${name%%;*}\)" "$file"; then continue; fi
      echo "$file:$number: nothing is SHOAL_GUARDED_BY(${name%%;*})"
    done
}

check_scripts() {
  { sources '*.sh' '*.sbatch' dev .ci/run; } | xargs -0 --no-run-if-empty shellcheck --format=gcc -x
}

check_pages() { python3 scripts/pages.py; }

check_comment_paths() { python3 scripts/comment_paths.py; }

check_test_places() { python3 scripts/test_places.py; }

check_tidy() {
  if [[ ! -f build/compile_commands.json ]]; then
    echo "build/compile_commands.json:1: missing; run ./dev build first"
    return
  fi
  sources '*.cc' | xargs -0 --no-run-if-empty -P "$(nproc)" -n 4 scripts/tidy.sh build
}

{
  check_format
  check_file_sizes
  check_function_lengths
  check_words
  check_old_words
  check_outer_step
  check_text
  check_locks
  check_scripts
  check_pages
  check_comment_paths
  check_test_places
  if [[ ${1:-} == --tidy ]]; then check_tidy; fi
} >"$findings"

count=$(wc -l <"$findings")
cat "$findings"
if ((count > 0)); then
  echo "$count findings; ./dev fmt repairs the formatting" >&2
  exit 1
fi
echo "lint: nothing to report"
