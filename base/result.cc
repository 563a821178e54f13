#include "base/result.h"

namespace shoal {

const char* to_string(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kValidation:
      return "validation";
    case Code::kNotFound:
      return "not_found";
    case Code::kConflict:
      return "conflict";
    case Code::kUnauthenticated:
      return "unauthenticated";
    case Code::kPermissionDenied:
      return "permission_denied";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDeadlineExceeded:
      return "deadline_exceeded";
    case Code::kResourceExhausted:
      return "resource_exhausted";
    case Code::kIncompatible:
      return "incompatible";
    case Code::kDataLoss:
      return "data_loss";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string to_string(const Error& error) {
  std::string text = error.field.empty() ? error.message : error.field + ": " + error.message;
  if (!error.remedy.empty()) text += " (" + error.remedy + ")";
  return text;
}

}  // namespace shoal
