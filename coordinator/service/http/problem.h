// Refusals as RFC 9457 problem documents. Each kind has a slug, a status and a help page at
// /problems/<slug>; the list is closed, and clients may rely on `code` (the slug).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/field_error.h"
#include "base/result.h"
#include "coordinator/service/http/message.h"

namespace shoal::coordinator::rest {

enum class Problem {
  kInvalidRequest,
  kMalformedSpec,
  kUnauthenticated,
  kPermissionDenied,
  kOriginNotAllowed,
  kNotFound,
  kMethodNotAllowed,
  kNameTaken,
  kConflict,
  kCursorExpired,
  kBodyTooLarge,
  kUnsupportedType,
  kRangeNotSatisfiable,
  kHostNotAllowed,
  kInvalidSpec,
  kTooManyRequests,
  kHeaderTooLarge,
  kInternal,
  kDataLoss,
  kUnavailable,
  kOverloaded,
  kTimedOut,
};
inline constexpr Problem kLastProblem = Problem::kTimedOut;

struct ProblemKind {
  int status;
  std::string_view slug, title, help;
};
const ProblemKind& kind_of(Problem problem);

// `hint` is what to do; may be empty. `instance` and `request_id` come from the request.
Response problem_response(Problem problem, const Request& request, std::string detail,
                          std::vector<FieldError> fields = {}, std::string hint = {});

// The general translation of an Error: its code picks the kind, its field becomes errors[0].
Response problem_response(const Error& error, const Request& request);
Problem problem_of(Code code);

// A short page for people, for GET /problems/{slug}; not found: false.
bool problem_page(std::string_view slug, std::string& html);

}  // namespace shoal::coordinator::rest
