// What is said when this binary and the coordinator are of two versions: which ones, and which of
// them is to be upgraded. Within /api/v1 both work with each other; only what the newer one has
// learned since is not known to the other.
#pragma once

#include <string>
#include <string_view>

namespace shoal::cli {

// One sentence; empty when both are the same, or one is no version ("0.1.0").
std::string version_advice(std::string_view own, std::string_view coordinator);

}  // namespace shoal::cli
