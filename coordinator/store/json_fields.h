// Fields as JSON: the lists and nested values of records that live in one column, and the manifest
// of a checkpoint. The shape follows from the list beside the struct (base/fields.h). Numbers keep
// their exact value; one that is not finite is null. Reading refuses what writing does not produce.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/result.h"
#include "coordinator/store/stored_fields.h"
#include "job/job_spec.h"

namespace shoal::coordinator {

using Json = nlohmann::ordered_json;
using Label = std::pair<std::string, std::string>;

// Text that is not UTF-8 must not stop the store: its bad bytes are replaced.
std::string dump(const Json& json);
Error bad_json(std::string_view text, const std::string& why);

Json digest_json(const Digest& digest);
// These throw a Json::exception.
[[noreturn]] void refuse_json(const std::string& why);
double read_number(const Json& json);
Digest read_digest(const Json& json);

template <typename T>
Json json_of(const std::vector<T>& list);

template <typename T>
Json json_of(const T& value) {
  if constexpr (std::is_same_v<T, Digest>) {
    return digest_json(value);
  } else if constexpr (std::is_same_v<T, Label>) {
    return {{"key", value.first}, {"value", value.second}};
  } else if constexpr (std::is_enum_v<T>) {
    return to_string(value);
  } else if constexpr (Time<T>) {
    return value.ns;
  } else if constexpr (Counted<T>) {
    return value.n;
  } else if constexpr (HasFields<T>) {
    Json json = kFields<T>.as_array ? Json::array() : Json::object();
    for_each_stored(value, [&](const StoredField& field, const auto& member) {
      if (kFields<T>.as_array) {
        json.push_back(json_of(member));
      } else {
        json[field.name] = json_of(member);
      }
    });
    return json;
  } else {
    return value;
  }
}

template <typename T>
Json json_of(const std::vector<T>& list) {
  Json json = Json::array();
  for (const T& item : list) json.push_back(json_of(item));
  return json;
}

// Throws a Json::exception for what is missing, has another type or is an unknown name.
template <typename T>
void read_json(const Json& json, std::vector<T>& list);

template <typename T>
void read_json(const Json& json, T& value) {
  if constexpr (std::is_same_v<T, Digest>) {
    value = read_digest(json);
  } else if constexpr (std::is_same_v<T, double>) {
    value = read_number(json);
  } else if constexpr (std::is_same_v<T, Label>) {
    value = {json.at("key").get<std::string>(), json.at("value").get<std::string>()};
  } else if constexpr (std::is_enum_v<T>) {
    const auto word = parse_enumerator<T>(json.get<std::string>());
    if (!word) refuse_json("unknown word " + json.dump());
    value = *word;
  } else if constexpr (Time<T>) {
    value.ns = json.get<std::int64_t>();
  } else if constexpr (Counted<T>) {
    value.n = json.get<decltype(value.n)>();
  } else if constexpr (HasFields<T>) {
    std::size_t index = 0;
    for_each_stored(value, [&](const StoredField& field, auto& member) {
      if (kFields<T>.as_array) return read_json(json.at(index++), member);
      if (!field.added_later || json.contains(field.name)) read_json(json.at(field.name), member);
    });
  } else {
    value = json.get<T>();
  }
}

template <typename T>
void read_json(const Json& json, std::vector<T>& list) {
  list.clear();
  for (const Json& item : json) read_json(item, list.emplace_back());
}

// ---- the text of a column

std::string to_json(const JobSpec& value);  // in the form of the API (proto/job_spec_text.h)
Status from_json(std::string_view text, JobSpec& value);

template <typename T>
std::string to_json(const T& value) {
  return dump(json_of(value));
}

template <typename T>
Status from_json(std::string_view text, T& value) {
  try {
    T read{};
    read_json(Json::parse(text), read);
    value = std::move(read);
    return {};
  } catch (const Json::exception& problem) {
    return bad_json(text, problem.what());
  }
}

}  // namespace shoal::coordinator
