// The keys of commit proofs (commit_proof.h). The newest signs; older ones verify what members
// still hold. An id is CLUSTER/NUMBER, numbered from 1, so that a key of another cluster and a
// newer key than the newest here are told apart.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace shoal::coordinator {

struct RecordKey {
  std::string id;
  std::string secret;
  Instant made_at;
};
using RecordKeys = std::vector<RecordKey>;  // oldest first

inline const RecordKey* find_key(const RecordKeys& keys, std::string_view id) {
  const auto found = std::ranges::find(keys, id, &RecordKey::id);
  return found == keys.end() ? nullptr : &*found;
}

inline std::string_view cluster_of_key(std::string_view id) {
  return id.substr(0, std::min(id.rfind('/'), id.size()));
}

// 0: the id has no number.
inline std::int64_t number_of_key(std::string_view id) {
  std::int64_t number = 0;
  const auto slash = id.rfind('/');
  if (slash == std::string_view::npos) return 0;
  std::from_chars(id.data() + slash + 1, id.data() + id.size(), number);
  return number;
}

}  // namespace shoal::coordinator
