// What `shoal agent doctor` finds in the agents and in what replicas say of their lines: who is not
// there, which pairs have no way, or only one over a relay, and what to open where. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/api.h"

namespace shoal::cli {

enum class FindingKind { kAbsent, kUnreachable, kRelayed, kReverse };

struct Finding {
  FindingKind kind = FindingKind::kAbsent;
  std::vector<std::string> agents;  // one, or both ends of a pair: from whom, to whom
  std::string what, remedy;         // sentences; no remedy: nothing needs to be done
  bool is_fault() const {
    return kind == FindingKind::kAbsent || kind == FindingKind::kUnreachable;
  }
};

// Faults first. `agents` and `links`: items of GET /agents and GET /network.
std::vector<Finding> diagnose(const Json& agents, const Json& links);
std::string to_text(const std::vector<Finding>& findings);
Json to_json(const std::vector<Finding>& findings);

}  // namespace shoal::cli
