#!/usr/bin/env bash
# Whether `./dev lint --tidy` would find a lock that was forgotten: tidy_test.sh BUILD_FOLDER. A source that holds its
# locks has no finding. In the other one each line that breaks a rule of threads/annotations.h says which finding it
# must have, and no other line has one.
set -uo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
build=$1
if ! command -v clang-tidy >/dev/null; then
  echo "skipped: clang-tidy is not installed (./dev deps)" >&2
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# box METHODS: a class with a lock
box() {
  cat <<SOURCE
#include "threads/mutex.h"

namespace shoal {

class Box {
 public:
$1
 private:
  int unlocked() SHOAL_REQUIRES(mutex_) { return value_; }
  void locks() SHOAL_EXCLUDES(mutex_) { const MutexLock lock(mutex_); }

  Mutex mutex_;
  CondVar changed_;
  int value_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal
SOURCE
}

box '  int get() {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) { return value_ > 0; });
    {
      const MutexUnlock meanwhile(mutex_);
      locks();
    }
    return unlocked();
  }' >"$scratch/good.cc"
findings=$("$here/tidy.sh" "$build" "$scratch/good.cc")
if [[ -n $findings ]]; then
  printf 'findings where nothing is wrong:\n%s\n' "$findings" >&2
  exit 1
fi

box "  int reads() { return value_; }  // finds: reading variable 'value_' requires holding
  int writes() {
    MutexLock lock(mutex_);
    lock.unlock();
    return ++value_;  // finds: writing variable 'value_' requires holding
  }
  int calls() { return unlocked(); }  // finds: calling function 'unlocked' requires holding
  void blocks() {
    const MutexLock lock(mutex_);
    locks();  // finds: cannot call function 'locks' while mutex 'mutex_' is held
  }
  void waits_without() {
    changed_.wait(mutex_, [] { return true; });  // finds: calling function 'wait
  }
  void looks_without() {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [this] { return value_ > 0; });  // finds: reading variable 'value_' requires holding
  }" >"$scratch/bad.cc"
findings=$("$here/tidy.sh" "$build" "$scratch/bad.cc")
failed=0
while IFS=: read -r number line; do
  if [[ $findings != *"bad.cc:$number:"*"error: ${line##*// finds: }"* ]]; then
    printf 'not found: line %s,%s\n' "$number" "$line" >&2
    failed=1
  fi
done < <(grep -n '// finds: ' "$scratch/bad.cc")
expected=$(grep -c '// finds: ' "$scratch/bad.cc")
if [[ $(sort -u -t: -k2,2 <<<"$findings" | wc -l) != "$expected" ]]; then failed=1; fi
if ((failed)); then printf 'the findings:\n%s\n' "$findings" >&2; fi
exit "$failed"
