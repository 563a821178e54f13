// The CA certificates that a member of a cluster trusts: one, or two while the CA is replaced.
#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"
#include "identity/certificate.h"

namespace shoal::identity {

inline constexpr std::size_t kRootsMost = 4;

struct Root {
  Certificate certificate;
  Instant until;  // trusted before this instant, or until the certificate ends
};
using Roots = std::vector<Root>;

}  // namespace shoal::identity
