// A small JSON body with a closed list of fields, as several routes read one.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "coordinator/service/http/message.h"
#include "coordinator/service/http/url.h"

namespace shoal::coordinator::rest {

// The fields of a body that has no others than these, each read by its type. Whether all were as
// they must be is asked at the end.
class Body {
 public:
  static Result<Body> read(const Request& request, std::vector<std::string_view> names) {
    Json json = Json::parse(request.body, nullptr, false);
    if (!json.is_object())
      return Error{Code::kInvalidArgument, "the body must be a JSON object", "", ""};
    for (const auto& [key, value] : json.items()) {
      if (std::ranges::find(names, key) == names.end())
        return Error{Code::kInvalidArgument, "unknown field \"" + key + "\"", "/" + key,
                     "it has " + joined(names)};
    }
    return Body(std::move(json));
  }

  bool has(const char* name) const { return json_.contains(name); }
  std::string text(const char* name) {
    const auto found = json_.find(name);
    const bool good = found != json_.end() && found->is_string();
    if (!good) note(name, "must be a text");
    return good ? found->get<std::string>() : std::string();
  }
  std::int64_t integer(const char* name) {
    const auto found = json_.find(name);
    const bool good = found != json_.end() && found->is_number_integer();
    if (!good) note(name, "must be a whole number");
    return good ? found->get<std::int64_t>() : 0;
  }
  const Status& status() const { return status_; }  // the first that was not as it must be

 private:
  explicit Body(Json json) : json_(std::move(json)) {}
  void note(const char* name, const char* what) {
    if (status_.ok()) status_ = Error{Code::kInvalidArgument, what, std::string("/") + name, ""};
  }
  Json json_;
  Status status_;
};

}  // namespace shoal::coordinator::rest
