// What a job was submitted as, byte for byte, with its comments; the rules use its spec. Goes to
// the store only: the core never reads it.
#pragma once

#include <string>

#include "base/fields.h"
#include "base/ids.h"

namespace shoal::coordinator {

struct SubmittedText {
  JobId job;
  std::string media_type;  // application/toml or application/json
  std::string text;
  bool operator==(const SubmittedText&) const = default;
};
constexpr auto fields_of(Of<SubmittedText>) {
  using T = SubmittedText;
  return fields<&T::job, &T::media_type, &T::text>();
}

}  // namespace shoal::coordinator
