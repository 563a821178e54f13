// Records of the states that a replica was told to take and has not taken yet: a slow replica may
// hear of a commit before it has obeyed the last one. Bounded; the oldest are dropped first.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "outer_opt/core/round/round.h"

namespace shoal {

class ComingStates {
 public:
  void expect(const CommitRecord& record) {
    const auto at = std::ranges::lower_bound(records_, record.key, {}, &CommitRecord::key);
    if (at != records_.end() && at->key == record.key) return;
    records_.insert(at, record);
    if (records_.size() > kMax) records_.erase(records_.begin());
  }

  // The state of `key` is held now: its record, once. Those before it will not come any more.
  std::optional<CommitRecord> take(const RoundKey& key) {
    const auto it = std::ranges::find(records_, key, &CommitRecord::key);
    if (it == records_.end()) return std::nullopt;
    CommitRecord record = std::move(*it);
    records_.erase(records_.begin(), it + 1);
    return record;
  }

  // The same record, with a newer proof. False: its state is not expected.
  bool renew(const CommitRecord& record) {
    const auto it = std::ranges::find(records_, record.key, &CommitRecord::key);
    if (it == records_.end()) return false;
    *it = record;
    return true;
  }

  void clear() { records_.clear(); }

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<ComingStates>) {
    using T = ComingStates;
    return fields<&T::records_>();
  }

  static constexpr std::size_t kMax = 8;
  std::vector<CommitRecord> records_;  // by key
};

}  // namespace shoal
