// The name in a certificate: one URI in the subject's alternative names.
//
//   shoal://CLUSTER/coordinator
//   shoal://CLUSTER/agent/agt_7
//   shoal://CLUSTER/agent/agt_7/job/job_3/stage/0/epoch/2/replica/rep_41
//
// The grammar is strict: each name has one text only, at most kNameMax bytes long. The cluster
// stands where a URI has its host, so that an operator can bind a CA to it by a name constraint.
//
// Pure. Any thread may call everything.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/result.h"

namespace shoal::identity {

using shoal::to_string;

inline constexpr std::size_t kClusterNameMax = 32;
inline constexpr std::size_t kNameMax = 192;

// Names a cluster for good, also when its CA changes: 3 to 32 lower-case letters, digits and
// hyphens, a letter first and no hyphen last. Empty only before it is set.
struct ClusterName {
  std::string text;
  auto operator<=>(const ClusterName&) const = default;
};
Result<ClusterName> parse_cluster_name(std::string_view text);

// One replica of one job. `epoch` counts how often the job went back to a checkpoint.
struct ReplicaName {
  AgentId agent;
  JobId job;
  StageIndex stage = 0;
  std::int64_t epoch = 0;
  ReplicaId replica;
  auto operator<=>(const ReplicaName&) const = default;
};

struct CoordinatorName {
  auto operator<=>(const CoordinatorName&) const = default;
};

enum class PeerKind { kCoordinator, kAgent, kReplica };  // in the order of PeerName's variant
constexpr auto enumerators_of(Of<PeerKind>) {
  using enum PeerKind;
  return enumerators<PeerKind>(
      {{kCoordinator, "coordinator"}, {kAgent, "agent"}, {kReplica, "replica"}});
}

struct PeerName {
  ClusterName cluster;
  std::variant<CoordinatorName, AgentId, ReplicaName> who;
  auto operator<=>(const PeerName&) const = default;
};

PeerKind kind_of(const PeerName& name);
AgentId agent_of(const PeerName& name);  // of a replica its agent; of the coordinator none

// Whether everything is within the grammar: what may be put into a certificate.
bool is_valid(const PeerName& name);
std::string to_string(const PeerName& name);
// Anything else than the text of a valid name: invalid_argument, field "name".
Result<PeerName> parse_name(std::string_view uri);

// For messages: what came from outside, at most 60 characters of it, without control characters.
std::string quoted(std::string_view text);

}  // namespace shoal::identity
