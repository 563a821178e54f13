#include "coordinator/store/manifest.h"

#include <algorithm>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "coordinator/store/rows.h"

namespace shoal::coordinator {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// The fields are those of the table, by the same names.
struct WriteVisitor {
  Json& json;
  template <typename T>
  void operator()(const std::string& name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json[name] = to_string(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      json[name] = value;
    } else if constexpr (std::is_same_v<T, Instant>) {
      json[name] = value.ns;
    } else if constexpr (Counted<T>) {
      json[name] = value.n;
    } else {
      json[name] = Json::parse(to_json(value));
    }
  }
};

struct ReadManifestVisitor {
  const Json& json;
  Status status;
  template <typename T>
  void operator()(const std::string& name, T& value) {
    if (status.ok()) status = read(json.at(name), value);
  }
  template <typename T>
  static Status read(const Json& from, T& value) {
    if constexpr (std::is_enum_v<T>) {
      if (parse_word(from.get<std::string>(), value)) return {};
      return Error{Code::kDataLoss, "unknown word " + from.dump()};
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      value = from.get<T>();
    } else if constexpr (std::is_same_v<T, Instant>) {
      value.ns = from.get<std::int64_t>();
    } else if constexpr (Counted<T>) {
      value.n = from.get<decltype(value.n)>();
    } else {
      return from_json(from.dump(), value);
    }
    return {};
  }
};

bool is_stored(const CheckpointRecord& checkpoint) {
  const bool parts = std::ranges::all_of(checkpoint.parts, [](const CheckpointPart& part) {
    return part.state == CheckpointState::kStored && !part.files.empty();
  });
  return checkpoint.state == CheckpointState::kStored && !checkpoint.parts.empty() && parts;
}

}  // namespace

std::string to_manifest(const CheckpointRecord& checkpoint) {
  Json json{{"version", kVersion}};
  WriteVisitor visitor{json};
  Table<CheckpointRecord>::columns(visitor, checkpoint);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<CheckpointRecord> read_manifest(std::string_view text) {
  const auto none = [](const std::string& why) {
    return Error{Code::kDataLoss, "no manifest of a checkpoint: " + why};
  };
  try {
    const Json json = Json::parse(text);
    if (json.at("version").get<int>() > kVersion) {
      return Error{Code::kIncompatible, "the manifest is of a newer version", kManifestFile,
                   "use the newer Shoal"};
    }
    CheckpointRecord checkpoint;
    ReadManifestVisitor visitor{json, {}};
    Table<CheckpointRecord>::columns(visitor, checkpoint);
    if (!visitor.status.ok()) return none(to_string(visitor.status.error()));
    if (!is_stored(checkpoint)) return none("it was not stored");
    return checkpoint;
  } catch (const Json::exception& problem) {
    return none(problem.what());
  }
}

}  // namespace shoal::coordinator
