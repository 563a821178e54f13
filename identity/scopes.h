// What people may do: a token has scopes, and a table says what each scope allows. The table is in
// docs/identity.md, too; a test walks all of it. Pure.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/enumerators.h"
#include "base/result.h"

namespace shoal::identity {

using shoal::to_string;

enum class Scope { kAdmin, kOperator, kSubmitter, kViewer, kMetrics };
constexpr auto enumerators_of(Of<Scope>) {
  using enum Scope;
  return enumerators<Scope>({{kAdmin, "admin"},
                             {kOperator, "operator"},
                             {kSubmitter, "submitter"},
                             {kViewer, "viewer"},
                             {kMetrics, "metrics"}});
}

// Scopes of one token; bit i is the i-th scope.
struct ScopeSet {
  std::uint32_t n = 0;
  constexpr ScopeSet() = default;
  constexpr ScopeSet(std::initializer_list<Scope> scopes) {
    for (const Scope scope : scopes) n |= 1u << static_cast<unsigned>(scope);
  }
  constexpr bool has(Scope scope) const { return (n >> static_cast<unsigned>(scope) & 1) != 0; }
  constexpr bool empty() const { return n == 0; }
  auto operator<=>(const ScopeSet&) const = default;
};
std::string to_string(ScopeSet scopes);  // "operator,metrics", in the order of the enum
// Errors: validation, field "scopes". None at all and one twice are refused, too.
Result<ScopeSet> parse_scopes(std::string_view text);

enum class Action {
  kViewCluster,  // agents, devices, lines, events, join page, versions
  kViewJob,      // status, rounds, replicas, series, spec
  kReadLogs,     // of a job's replicas; those of agents are kReadAgentLogs
  kReadAgentLogs,
  kReadMetrics,  // GET /metrics
  kSubmitJob,
  kControlJob,          // pause, resume, cancel, change, remove; its checkpoints: pin, remove
  kDownloadCheckpoint,  // the weights
  kControlAgent,        // cordon, uncordon, drain, remove
  kRevokeAgent,
  kCreateJoinToken,  // and list and revoke them
  kReadAudit,
  kViewSpace,     // what takes the space, by job
  kManageTokens,  // of other people
  kRotateCa,
  kManageData,     // upload files, name datasets, and remove both
  kDownloadData,   // the content of files
  kRaisePriority,  // of a job above the default
};
constexpr auto enumerators_of(Of<Action>) {
  using enum Action;
  return enumerators<Action>({{kViewCluster, "view_cluster"},
                              {kViewJob, "view_job"},
                              {kReadLogs, "read_logs"},
                              {kReadAgentLogs, "read_agent_logs"},
                              {kReadMetrics, "read_metrics"},
                              {kSubmitJob, "submit_job"},
                              {kControlJob, "control_job"},
                              {kDownloadCheckpoint, "download_checkpoint"},
                              {kControlAgent, "control_agent"},
                              {kRevokeAgent, "revoke_agent"},
                              {kCreateJoinToken, "create_join_token"},
                              {kReadAudit, "read_audit"},
                              {kViewSpace, "view_space"},
                              {kManageTokens, "manage_tokens"},
                              {kRotateCa, "rotate_ca"},
                              {kManageData, "manage_data"},
                              {kDownloadData, "download_data"},
                              {kRaisePriority, "raise_priority"}});
}

// The objects that an action may touch, by owner. For objects without an owner, `own` is `any`.
enum class Grant { kNone, kOwn, kAny };
constexpr auto enumerators_of(Of<Grant>) {
  using enum Grant;
  return enumerators<Grant>({{kNone, "none"}, {kOwn, "own"}, {kAny, "any"}});
}

// The most that one of the scopes grants.
Grant granted(ScopeSet scopes, Action action);
// Whether a principal with these scopes may act on an object that is its own or somebody else's.
bool allowed(ScopeSet scopes, Action action, bool owns);

}  // namespace shoal::identity
