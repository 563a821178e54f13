// Why a port turned somebody away, as a closed list, and how often. All ports count with the same
// words: docs/refusals.md says what belongs to which.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/enumerators.h"
#include "base/fields.h"

namespace shoal {

enum class RefusalReason {
  kMalformed,        // no valid request, handshake or frame, or an unfinished one
  kLimits,           // too many, too much, or too slow
  kUnauthenticated,  // no token, or none that works
  kForbidden,        // known, but not allowed to; or from a place that is not
  kNoCertificate,
  kForeign,      // a certificate of another CA or cluster, or one that was altered
  kExpired,      // or not valid yet
  kRevoked,      // a certificate or key that no longer counts
  kOtherMember,  // a valid certificate of this cluster, but not that of a peer that belongs here
};
constexpr auto enumerators_of(Of<RefusalReason>) {
  using enum RefusalReason;
  return enumerators<RefusalReason>({{kMalformed, "malformed"},
                                     {kLimits, "limits"},
                                     {kUnauthenticated, "unauthenticated"},
                                     {kForbidden, "forbidden"},
                                     {kNoCertificate, "no_certificate"},
                                     {kForeign, "foreign"},
                                     {kExpired, "expired"},
                                     {kRevoked, "revoked"},
                                     {kOtherMember, "other_member"}});
}

struct RefusalCounts {
  std::array<std::int64_t, enumerator_count<RefusalReason>()> by_reason{};

  std::int64_t& operator[](RefusalReason reason) {
    return by_reason[static_cast<std::size_t>(reason)];
  }
  std::int64_t operator[](RefusalReason reason) const {
    return by_reason[static_cast<std::size_t>(reason)];
  }
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (const std::int64_t each : by_reason) sum += each;
    return sum;
  }
  // Counts of others may be anything from 0 up: the sum ends at the largest number.
  RefusalCounts& operator+=(const RefusalCounts& other) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < by_reason.size(); ++i) {
      by_reason[i] += std::min(other.by_reason[i], kMost - by_reason[i]);
    }
    return *this;
  }
  // What was added since `before`. A count that fell was begun again, from zero.
  RefusalCounts since(const RefusalCounts& before) const {
    RefusalCounts added;
    for (std::size_t i = 0; i < by_reason.size(); ++i) {
      const bool begun_again = by_reason[i] < before.by_reason[i];
      added.by_reason[i] = by_reason[i] - (begun_again ? 0 : before.by_reason[i]);
    }
    return added;
  }
  bool operator==(const RefusalCounts&) const = default;
};
constexpr auto fields_of(Of<RefusalCounts>) {
  using T = RefusalCounts;
  return fields<&T::by_reason>();
}

}  // namespace shoal
