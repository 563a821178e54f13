// What a member answers to a plan that it cannot follow.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace shoal::outer_opt {

// kValidation; `field` of the plan is the one that does not fit.
inline Error refused_plan(std::string field, std::string message) {
  return Error{Code::kValidation, std::move(message), std::move(field),
               "the coordinator and this replica disagree; the attempt is planned again"};
}

}  // namespace shoal::outer_opt
