// For tests: the JSON Schema of an answer (answer_json.h), by its list of fields.
#pragma once

#include <string>

#include "coordinator/service/http/answers/agent_answers.h"
#include "coordinator/service/http/answers/answer_json.h"
#include "coordinator/service/http/answers/file_answers.h"
#include "coordinator/service/http/answers/job_answers.h"
#include "coordinator/service/http/answers/machine_answers.h"
#include "coordinator/service/http/answers/people_answers.h"
#include "coordinator/service/http/answers/replica_answers.h"
#include "coordinator/service/http/answers/round_answers.h"
#include "coordinator/service/http/answers/space_answers.h"

namespace shoal::coordinator::rest::testing {

template <typename T>
struct Answered {
  using Type = T;
  static constexpr bool kIsList = false, kMayBeNone = false;
};
template <typename T>
struct Answered<std::vector<T>> {
  using Type = T;
  static constexpr bool kIsList = true, kMayBeNone = false;
};
template <typename T>
struct Answered<std::optional<T>> {
  using Type = T;
  static constexpr bool kIsList = false, kMayBeNone = true;
};

template <typename T>
concept HasSchema = requires {
  schema_name(Of<T>{});
};

inline Json reference(const std::string& name) {
  return {{"$ref", "#/components/schemas/" + name}};
}

template <typename T>
Json object_schema();

template <typename Tag>
std::string pattern_of(Id<Tag>) {
  return "^" + std::string(Tag::kPrefix) + "[0-9]+$";
}

template <typename T>
Json known_schema() {
  if constexpr (std::is_same_v<T, JobSpec>) {
    return reference("JobSpec");
  } else if constexpr (HasSchema<T>) {
    return reference(schema_name(Of<T>{}));
  } else if constexpr (HasFields<T>) {
    return object_schema<T>();
  } else if constexpr (std::is_enum_v<T>) {
    Json words = Json::array();
    for (const auto& word : kEnumerators<T>) words.push_back(word.text);
    return {{"type", "string"}, {"enum", words}};
  } else if constexpr (std::is_same_v<T, Instant>) {
    return {{"type", "string"}, {"format", "date-time"}};
  } else if constexpr (std::is_same_v<T, Digest>) {
    return {{"type", "string"}, {"pattern", "^[0-9a-f]{32}$"}};
  } else if constexpr (IsId<T>) {
    return {{"type", "string"}, {"pattern", pattern_of(T{})}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_same_v<T, double>) {
    return {{"type", "number"}};
  } else {
    static_assert(Counted<T> || std::is_integral_v<T>);
    return {{"type", "integer"}};
  }
}

template <typename T>
Json value_schema(const FieldRule& rule) {
  using Type = typename Answered<T>::Type;
  if constexpr (std::is_same_v<T, Labels>) {
    return {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  } else if constexpr (Answered<T>::kIsList) {
    return {{"type", "array"}, {"items", value_schema<Type>(rule)}};
  } else {
    Json schema = known_schema<Type>();
    const bool may_be_none = Answered<T>::kMayBeNone || rule.or_none || rule.any_number;
    if (may_be_none) schema.at("type") = Json::array({schema.at("type"), "null"});
    if (may_be_none && schema.contains("enum")) schema["enum"].push_back(nullptr);
    return schema;
  }
}

template <typename T>
Json object_schema() {
  Json properties = Json::object(), required = Json::array();
  const T answer{};
  for_each_field(answer, [&](const FieldInfo& field, const auto& member) {
    Json& schema = properties[field.name] =
        value_schema<std::remove_cvref_t<decltype(member)>>(field.rule);
    if (field.rule.added_later) schema["x-added-later"] = true;
    required.push_back(field.name);
  });
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
}

template <typename... Answers>
Json schemas_of() {
  Json schemas = Json::object();
  ((schemas[schema_name(Of<Answers>{})] = object_schema<Answers>()), ...);
  return schemas;
}

// The schemas of the answers that have a list of fields.
inline Json answer_schemas() {
  return schemas_of<JobProgressAnswer, JobStatusAnswer, JobAnswer, ContributionPhasesAnswer,
                    ContributionAnswer, ReduceAnswer, RoundSecondsAnswer, RoundAnswer,
                    ReplicaAnswer, FileEntry, CheckpointAnswer, SeriesLineAnswer, SeriesAnswer,
                    Device, DeviceHistoryAnswer, AgentAnswer, EventAnswer, JoinTokenAnswer,
                    NewJoinTokenAnswer, AuthorityAnswer, CertificateAnswer, PrincipalAnswer,
                    ApiTokenAnswer, NewApiTokenAnswer, TicketAnswer, AuditAnswer, StoredFileAnswer,
                    DatasetAnswer, ShardAnswer, SpaceAnswer>();
}

}  // namespace shoal::coordinator::rest::testing
