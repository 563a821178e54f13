// The contract, api/openapi.json, as it was when this binary was built.
#pragma once

#include <string_view>

namespace shoal::coordinator::rest {

std::string_view openapi_document();

}  // namespace shoal::coordinator::rest
