#include "identity/scopes.h"

#include <algorithm>
#include <array>

#include "identity/names.h"

namespace shoal::identity {
namespace {

using Row = std::array<Grant, word_count<Scope>()>;  // in the order of Scope

// The table. A new action does not compile without its row.
constexpr Row row_of(Action action) {
  constexpr Grant kNo = Grant::kNone, kOwn = Grant::kOwn, kAny = Grant::kAny;
  switch (action) {
    //                           admin operator submitter viewer metrics
    case Action::kViewCluster:
      return {kAny, kAny, kAny, kAny, kNo};
    case Action::kViewJob:
      return {kAny, kAny, kAny, kAny, kNo};
    case Action::kReadLogs:
      return {kAny, kAny, kOwn, kAny, kNo};
    case Action::kReadAgentLogs:
      return {kAny, kAny, kNo, kNo, kNo};
    case Action::kReadMetrics:
      return {kAny, kAny, kNo, kAny, kAny};
    case Action::kSubmitJob:
      return {kAny, kAny, kAny, kNo, kNo};
    case Action::kControlJob:
      return {kAny, kAny, kOwn, kNo, kNo};
    case Action::kDownloadCheckpoint:
      return {kAny, kOwn, kOwn, kNo, kNo};
    case Action::kControlAgent:
      return {kAny, kAny, kNo, kNo, kNo};
    case Action::kRevokeAgent:
      return {kAny, kAny, kNo, kNo, kNo};
    case Action::kCreateJoinToken:
      return {kAny, kAny, kNo, kNo, kNo};
    case Action::kReadAudit:
      return {kAny, kAny, kNo, kNo, kNo};
    case Action::kManageTokens:
      return {kAny, kNo, kNo, kNo, kNo};
    case Action::kRotateCa:
      return {kAny, kNo, kNo, kNo, kNo};
  }
  return {kNo, kNo, kNo, kNo, kNo};
}

}  // namespace

std::string to_string(ScopeSet scopes) {
  std::string text;
  for (const auto& [scope, word] : kWords<Scope>) {
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
    const auto scope = parse_word<Scope>(word);
    if (!scope) return Error{Code::kValidation, quoted(word) + " is no scope", "scopes", kRemedy};
    if (scopes.has(*scope)) {
      return Error{Code::kValidation, quoted(word) + " is given twice", "scopes", kRemedy};
    }
    scopes.n |= ScopeSet{*scope}.n;
    if (comma == std::string_view::npos) return scopes;
    rest.remove_prefix(comma + 1);
  }
}

Grant granted(ScopeSet scopes, Action action) {
  const Row row = row_of(action);
  Grant most = Grant::kNone;
  for (const auto& [scope, word] : kWords<Scope>) {
    if (scopes.has(scope)) most = std::max(most, row[static_cast<std::size_t>(scope)]);
  }
  return most;
}

bool allowed(ScopeSet scopes, Action action, bool owns) {
  const Grant grant = granted(scopes, action);
  return grant == Grant::kAny || (grant == Grant::kOwn && owns);
}

}  // namespace shoal::identity
