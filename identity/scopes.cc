#include "identity/scopes.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "identity/names.h"

namespace shoal::identity {
namespace {

using Row = std::array<Grant, enumerator_count<Scope>()>;  // in the order of Scope

struct Line {
  Action action;
  Row row;
};
constexpr Grant kNo = Grant::kNone, kOwn = Grant::kOwn, kAny = Grant::kAny;

// The table, in the order of Action.
constexpr Line kTable[] = {
    // admin, operator, submitter, viewer, metrics
    {Action::kViewCluster, {kAny, kAny, kAny, kAny, kNo}},
    {Action::kViewJob, {kAny, kAny, kAny, kAny, kNo}},
    {Action::kReadLogs, {kAny, kAny, kOwn, kAny, kNo}},
    {Action::kReadAgentLogs, {kAny, kAny, kNo, kNo, kNo}},
    {Action::kReadMetrics, {kAny, kAny, kNo, kAny, kAny}},
    {Action::kSubmitJob, {kAny, kAny, kAny, kNo, kNo}},
    {Action::kControlJob, {kAny, kAny, kOwn, kNo, kNo}},
    {Action::kDownloadCheckpoint, {kAny, kOwn, kOwn, kNo, kNo}},
    {Action::kControlAgent, {kAny, kAny, kNo, kNo, kNo}},
    {Action::kRevokeAgent, {kAny, kAny, kNo, kNo, kNo}},
    {Action::kCreateJoinToken, {kAny, kAny, kNo, kNo, kNo}},
    {Action::kReadAudit, {kAny, kAny, kNo, kNo, kNo}},
    {Action::kViewSpace, {kAny, kAny, kNo, kNo, kNo}},
    {Action::kManageTokens, {kAny, kNo, kNo, kNo, kNo}},
    {Action::kRotateCa, {kAny, kNo, kNo, kNo, kNo}},
    {Action::kManageData, {kAny, kAny, kOwn, kNo, kNo}},
    {Action::kDownloadData, {kAny, kOwn, kOwn, kNo, kNo}},
    {Action::kRaisePriority, {kAny, kAny, kNo, kNo, kNo}},
};

constexpr bool has_every_action() {
  for (std::size_t i = 0; i < enumerator_count<Action>(); ++i) {
    if (static_cast<std::size_t>(kTable[i].action) != i) return false;
  }
  return std::size(kTable) == enumerator_count<Action>();
}
static_assert(has_every_action());

}  // namespace

std::string to_string(ScopeSet scopes) {
  std::string text;
  for (const auto& [scope, word] : kEnumerators<Scope>) {
    if (scopes.has(scope)) text += (text.empty() ? "" : ",") + std::string(word);
  }
  return text;
}

Result<ScopeSet> parse_scopes(std::string_view text) {
  constexpr char kRemedy[] = "give some of admin, operator, submitter, viewer, metrics";
  ScopeSet scopes;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const auto scope = parse_enumerator<Scope>(word);
    if (!scope)
      return Error{Code::kValidation, quoted(word) + " is not a scope", "scopes", kRemedy};
    if (scopes.has(*scope)) {
      return Error{Code::kValidation, quoted(word) + " is given twice", "scopes", kRemedy};
    }
    scopes.n |= ScopeSet{*scope}.n;
    if (comma == std::string_view::npos) return scopes;
    rest.remove_prefix(comma + 1);
  }
}

Grant granted(ScopeSet scopes, Action action) {
  const Row& row = kTable[static_cast<std::size_t>(action)].row;
  Grant most = Grant::kNone;
  for (const auto& [scope, word] : kEnumerators<Scope>) {
    if (scopes.has(scope)) most = std::max(most, row[static_cast<std::size_t>(scope)]);
  }
  return most;
}

bool allowed(ScopeSet scopes, Action action, bool owns) {
  const Grant grant = granted(scopes, action);
  return grant == Grant::kAny || (grant == Grant::kOwn && owns);
}

}  // namespace shoal::identity
