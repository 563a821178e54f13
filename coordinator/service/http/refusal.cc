#include "coordinator/service/http/refusal.h"

namespace shoal::coordinator::rest {
namespace {

bool asks_for_proof(const Route* route) {
  return route != nullptr && route->access.door == Door::kProof;
}

// Null: not told.
const char* word_of(const Route* route, const Request& request, int status) {
  if (route == nullptr) return nullptr;
  if (asks_for_proof(route)) return route->access.audit.empty() ? kRefusedRenewal : kRefusedJoin;
  if (status != 401) return nullptr;
  if (route->access.audit == "log_in") return kRefusedLogin;
  return request.authorization.empty() ? nullptr : kRefusedToken;
}

}  // namespace

std::optional<RefusalReason> refusal_of(const Route* route, int status) {
  switch (status) {
    case 401:
      return RefusalReason::kUnauthenticated;
    case 403:
    case 421:
      return RefusalReason::kForbidden;
    case 400:
    case 405:
    case 413:
    case 415:
    case 431:
      return RefusalReason::kMalformed;
    case 408:
    case 429:
    case 503:
      return RefusalReason::kLimits;
    case 409:
      return asks_for_proof(route) ? std::optional(RefusalReason::kForbidden) : std::nullopt;
    case 422:
      return asks_for_proof(route) ? std::optional(RefusalReason::kMalformed) : std::nullopt;
    default:
      return std::nullopt;
  }
}

void note_refusal(Refusals& refusals, const Route* route, const Request& request,
                  const Response& response, const std::string& client) {
  if (!response.forbidden.empty()) {
    refusals.count(Port::kHttp, RefusalReason::kForbidden);
    return refusals.tell(kRefusedObject, client, response.forbidden, request.principal.name);
  }
  const auto reason = refusal_of(route, response.status);
  if (!reason) return;
  refusals.count(asks_for_proof(route) ? Port::kJoin : Port::kHttp, *reason);
  if (const char* word = word_of(route, request, response.status)) {
    refusals.tell(word, client, response.audited.after);
  }
}

}  // namespace shoal::coordinator::rest
