#include "coordinator/service/http/message.h"

namespace shoal::coordinator::rest {

const std::string& Request::part(std::string_view name) const {
  static const std::string kNone;
  for (const auto& [key, value] : parts)
    if (key == name) return value;
  return kNone;
}

const std::string* Request::query_value(std::string_view name) const {
  const std::string* found = nullptr;
  for (const auto& [key, value] : query)
    if (key == name) found = &value;
  return found;
}

std::string to_text(const Json& json, bool pretty) {
  return json.dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace);
}

Response json_response(const Json& json, int status) {
  Response response;
  response.status = status;
  response.body = to_text(json) + "\n";
  return response;
}

}  // namespace shoal::coordinator::rest
