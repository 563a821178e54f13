// One refused field of what somebody asked for: a job, the options of a process.
#pragma once

#include <string>

namespace shoal {

// The pointer is a JSON pointer into what was asked for ("/train/lr").
struct FieldError {
  std::string pointer;
  std::string detail;  // what was given, what is accepted
  bool operator==(const FieldError&) const = default;
};

}  // namespace shoal
