#include "proto/job_spec_fields.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <type_traits>

#include "job/field_checker.h"
#include "proto/near_word.h"

namespace shoal::proto {

using Json = nlohmann::ordered_json;

std::string given(const Json& value) {
  if (value.is_string()) return shoal::quoted(value.get<std::string>());
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_object()) return "a table";
  if (value.is_array()) return "an array";
  return value.is_null() ? "null" : "a date or time";
}

namespace {

// ---- values
// Each read_value() returns an empty string, or what was given and what is
// accepted.

// A hint for people who wrote a number as text.
std::string given_number(const Json& value) {
  if (!value.is_string()) return given(value);
  const Json inside = Json::parse(value.get<std::string>(), nullptr, false);
  return given(value) + (inside.is_number() ? "; write it without the quotes" : "");
}

std::string read_value(const Json& from, std::int64_t& to) {
  const bool fits =
      from.is_number_integer() &&
      !(from.is_number_unsigned() && from.get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  if (!fits) return "must be an integer of at most 64 bits, got " + given_number(from);
  to = from.get<std::int64_t>();
  return {};
}

std::string read_value(const Json& from, std::uint64_t& to) {
  std::int64_t value = 0;
  if (auto problem = read_value(from, value); !problem.empty()) return problem;
  if (value < 0) return "must be 0 or more, got " + given(from);
  to = static_cast<std::uint64_t>(value);
  return {};
}

std::string read_value(const Json& from, double& to) {
  if (!from.is_number()) return "must be a number, got " + given_number(from);
  to = from.get<double>();
  return {};
}

std::string read_value(const Json& from, std::string& to) {
  if (!from.is_string()) return "must be a string, got " + given(from);
  to = from.get<std::string>();
  return {};
}

std::string read_value(const Json& from, bool& to) {
  if (!from.is_boolean()) return "must be true or false, got " + given(from);
  to = from.get<bool>();
  return {};
}

std::string read_value(const Json& from, std::optional<bool>& to) {
  if (from.is_null()) return to.reset(), "";
  if (!from.is_boolean()) return "must be true or false, got " + given(from);
  to = from.get<bool>();
  return {};
}

std::string read_value(const Json& from, Steps& to) {
  std::int64_t count = 0;
  auto problem = read_value(from, count);
  if (problem.empty()) to = Steps(count);
  return problem;
}

template <typename E>
requires std::is_enum_v<E> std::string read_value(const Json& from, E& to) {
  std::string accepted, nearest;
  for (const auto& [word, text] : kEnumerators<E>) {
    if (from.is_string() && from.get<std::string>() == text) return to = word, std::string();
    accepted += (accepted.empty() ? "" : " or ") + shoal::quoted(text);
    if (from.is_string() && is_near(from.get<std::string>(), text)) nearest = text;
  }
  return "must be " + accepted + ", got " + given(from) +
         (nearest.empty() ? "" : "; did you mean " + shoal::quoted(nearest) + "?");
}

// A table of weights by the names of datasets.
std::string read_value(const Json& from, std::vector<MixturePart>& to) {
  if (!from.is_object()) {
    return "must be a table of datasets and weights, e.g. {books = 0.7, code = 0.3}, got " +
           given(from);
  }
  to.clear();
  for (const auto& [name, weight] : from.items()) {
    if (!weight.is_number()) {
      return "must give " + shoal::quoted(name) + " a number as its weight, got " +
             given_number(weight);
    }
    to.push_back({name, weight.get<double>()});
  }
  return {};
}

Json write_value(const std::vector<MixturePart>& mixture) {
  Json to = Json::object();
  for (const MixturePart& part : mixture) to[part.dataset] = part.weight;
  return to;
}

template <typename T>
Json write_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return to_string(value);
  } else if constexpr (std::is_same_v<T, Steps>) {
    return value.count();
  } else if constexpr (std::is_same_v<T, std::optional<bool>>) {
    return value ? Json(*value) : Json();
  } else {
    return value;
  }
}

template <typename T>
Json schema_of() {
  if constexpr (std::is_enum_v<T>) {
    Json words = Json::array();
    for (const auto& word : kEnumerators<T>) words.push_back(word.text);
    return {{"type", "string"}, {"enum", words}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (std::is_same_v<T, double>) {
    return {{"type", "number"}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_same_v<T, std::optional<bool>>) {
    return {{"type", Json::array({"boolean", "null"})}};
  } else if constexpr (std::is_same_v<T, std::vector<MixturePart>>) {
    return {{"type", "object"}, {"additionalProperties", {{"type", "number"}}}};
  } else {
    return {{"type", "integer"}};
  }
}

// ---- fields whose text is not that of their member

std::string read_betas(const Json& from, JobSpec& to) {
  const bool two =
      from.is_array() && from.size() == 2 && from[0].is_number() && from[1].is_number();
  if (!two) return "must be an array of two numbers, e.g. [0.9, 0.99], got " + given(from);
  to.train.beta1 = from[0].get<double>();
  to.train.beta2 = from[1].get<double>();
  return {};
}
Json write_betas(const JobSpec& from) { return Json::array({from.train.beta1, from.train.beta2}); }

Json betas_schema() {
  return {{"type", "array"}, {"items", {{"type", "number"}}}, {"minItems", 2}, {"maxItems", 2}};
}

constexpr std::string_view kAuto = "auto";
std::string read_stages(const Json& from, JobSpec& to) {
  if (from.is_string() && from.get<std::string>() == kAuto) return to.swarm.stages = 0, "";
  if (!from.is_number_integer() || from.get<std::int64_t>() < 1) {
    return "must be 'auto' or a whole number from 1, got " + given(from);
  }
  return read_value(from, to.swarm.stages);
}
Json write_stages(const JobSpec& from) {
  return from.swarm.stages == 0 ? Json(kAuto) : Json(from.swarm.stages);
}

// An integer, or a word or a time in its place.
Json integer_or_text_schema() { return {{"type", Json::array({"integer", "string"})}}; }

struct TimeUnit {
  char letter;
  std::int64_t seconds;
};
constexpr TimeUnit kTimeUnits[] = {{'h', 3600}, {'m', 60}, {'s', 1}};  // the largest first

// "10m" -> 600; 0: not such a time.
std::int64_t seconds_of(const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop + 1 != end || number < 1 || number > 1'000'000) return 0;
  for (const TimeUnit& unit : kTimeUnits) {
    if (*stop == unit.letter) return number * unit.seconds;
  }
  return 0;
}

std::string read_every(const Json& from, JobSpec& to) {
  if (!from.is_string()) {
    to.sync.every_s = 0;
    const std::string problem = read_value(from, to.sync.every);
    return problem.empty() ? "" : "must be inner steps, or a time like '10m', got " + given(from);
  }
  to.sync.every_s = seconds_of(from.get<std::string>());
  if (to.sync.every_s > 0) return {};
  return "must be inner steps, or a time in whole seconds, minutes or hours "
         "('30s', '10m', '2h'), "
         "got " +
         given(from);
}
Json write_every(const JobSpec& from) {
  if (from.sync.every_s == 0) return from.sync.every.count();
  for (const TimeUnit& unit : kTimeUnits) {
    if (from.sync.every_s % unit.seconds != 0) continue;
    return std::to_string(from.sync.every_s / unit.seconds) + unit.letter;
  }
  return from.sync.every_s;  // unreachable: every time is in seconds
}

// Takes the place of its first member; the second has no key.
struct OwnForm {
  std::string_view table, first, second;  // of the members; empty: there is one
  std::string_view key;
  std::string (*read)(const Json& from, JobSpec& to);
  Json (*write)(const JobSpec& from);
  Json (*schema)();
};
constexpr OwnForm kOwnForms[] = {
    {"train", "beta1", "beta2", "betas", read_betas, write_betas, betas_schema},
    {"sync", "every", "every_s", "every", read_every, write_every, integer_or_text_schema},
    {"swarm", "stages", "", "stages", read_stages, write_stages, integer_or_text_schema},
};

// ---- the fields, out of the lists beside the structs of a spec

template <auto... kPath>
auto& reach(auto& spec) {
  return (spec.*....*kPath);
}

template <auto... kPath>
std::string read_member(const Json& from, JobSpec& to) {
  return read_value(from, reach<kPath...>(to));
}
template <auto... kPath>
Json write_member(const JobSpec& from) {
  return write_value(reach<kPath...>(from));
}

struct Form {
  std::vector<SpecField> fields;
  std::vector<SpecTable> tables;
};

bool add_own_form(const std::string& table, std::string_view member, Form& form) {
  for (const OwnForm& own : kOwnForms) {
    if (own.table != table) continue;
    if (own.first == member) {
      form.fields.push_back({table, std::string(own.key), own.read, own.write, own.schema});
      return true;
    }
    if (own.second == member) return true;
  }
  return false;
}

template <auto... kPath, auto... kMembers>
void add_fields(const FieldList<kMembers...>& list, const std::string& table, Form& form);

template <auto... kPath>
void add_field(const std::string& name, const std::string& table, Form& form) {
  using Member = std::remove_cvref_t<decltype(reach<kPath...>(std::declval<JobSpec&>()))>;
  if constexpr (HasFields<Member>) {
    const std::string path = table.empty() ? name : table + "/" + name;
    form.tables.push_back({table, name, path});
    add_fields<kPath...>(kFields<Member>, path, form);
  } else if (!add_own_form(table, name, form)) {
    form.fields.push_back(
        {table, name, read_member<kPath...>, write_member<kPath...>, schema_of<Member>});
  }
}

template <auto... kPath, auto... kMembers>
void add_fields(const FieldList<kMembers...>& list, const std::string& table, Form& form) {
  const FieldInfo* info = list.info;
  (add_field<kPath..., kMembers>((info++)->name, table, form), ...);
}

const Form& form() {
  static const Form kForm = [] {
    Form form;
    add_fields<>(kFields<JobSpec>, "", form);
    return form;
  }();
  return kForm;
}

}  // namespace

const std::vector<SpecField>& spec_fields() { return form().fields; }
const std::vector<SpecTable>& spec_tables() { return form().tables; }

Json spec_schema() {
  Json properties = Json::object();
  const auto at = [&](const std::string& table) -> Json& {
    Json* place = &properties;
    for (std::size_t from = 0; from < table.size();) {
      const std::size_t end = std::min(table.find('/', from), table.size());
      Json& entry = (*place)[table.substr(from, end - from)];
      entry["type"] = "object";
      place = &entry["properties"];
      from = end + 1;
    }
    return *place;
  };
  for (const SpecField& field : spec_fields()) {
    Json& entry = at(field.table)[field.key] = field.schema();
    const Json usual = field.write(JobSpec{});
    if (!usual.is_null() && usual != "" && usual != Json::object()) entry["default"] = usual;
  }
  return properties;
}

}  // namespace shoal::proto
