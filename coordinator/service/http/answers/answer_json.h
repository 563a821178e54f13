// An answer as JSON, by its list of fields: times as RFC 3339, ids and digests as text, amounts as
// integers, enums as their words. What is not known is null: an empty optional, a number that is
// not finite, and 0 where the list says or_none().
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "coordinator/service/http/message.h"
#include "coordinator/service/http/views.h"
#include "proto/job_spec_text.h"

namespace shoal::coordinator::rest {

using Labels = std::vector<std::pair<std::string, std::string>>;

template <typename T>
concept IsId = Counted<T> && requires(const T& value) {
  to_string(value);
};

template <typename T>
Json answer_json(const T& value, const FieldRule& rule = {});

inline Json labels_json(const Labels& labels) {
  Json json = Json::object();
  for (const auto& [key, value] : labels) json[key] = value;
  return json;
}

template <typename T>
Json list_json(const std::vector<T>& list, const FieldRule& rule) {
  Json json = Json::array();
  for (const T& entry : list) json.push_back(answer_json(entry, rule));
  return json;
}

template <typename T>
Json fields_json(const T& answer) {
  Json json = Json::object();
  for_each_field(answer, [&](const FieldInfo& field, const auto& member) {
    json[field.name] = answer_json(member, field.rule);
  });
  return json;
}

// One value that is known.
template <typename T>
Json known_json(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return to_string(value);
  } else if constexpr (std::is_same_v<T, Instant>) {
    return rfc3339(value);
  } else if constexpr (std::is_same_v<T, Digest>) {
    return to_hex(value);
  } else if constexpr (IsId<T>) {
    return to_string(value);
  } else if constexpr (Counted<T>) {
    return value.n;
  } else if constexpr (std::is_same_v<T, JobSpec>) {
    return proto::spec_to_json(value);
  } else if constexpr (HasFields<T>) {
    return fields_json(value);
  } else {
    return value;
  }
}

template <typename T>
bool is_known(const T& value, const FieldRule& rule) {
  if constexpr (std::is_same_v<T, double>) {
    if (!std::isfinite(value)) return false;
  }
  if constexpr (requires { value == T{}; }) return !rule.or_none || value != T{};
  return true;
}

template <typename T>
Json answer_json(const T& value, const FieldRule& rule) {
  if constexpr (std::is_same_v<T, Labels>) {
    return labels_json(value);
  } else if constexpr (requires { list_json(value, rule); }) {
    return list_json(value, rule);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? answer_json(*value, rule) : Json(nullptr);
  } else {
    return is_known(value, rule) ? known_json(value) : Json(nullptr);
  }
}

}  // namespace shoal::coordinator::rest
