#include "base/result.h"

namespace shoal {

std::string to_string(const Error& error) {
  std::string text = error.field.empty() ? error.message : error.field + ": " + error.message;
  if (!error.remedy.empty()) text += " (" + error.remedy + ")";
  return text;
}

}  // namespace shoal
