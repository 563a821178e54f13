#include "replica/checkpoint/part_file.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "proto/job_spec_text.h"
#include "replica/runtime/cut.h"
#include "transfer/disk.h"

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 3;
constexpr const char* kFormatOfPrograms = "python-1";
constexpr const char* kOldHead = "shoal.json";
constexpr const char* kOldState = "shoal_state";  // the stem of a file of tensors
constexpr const char* kTensorEnding = ".safetensors";
constexpr std::size_t kObjectNameBytesMax = 96;

Error damaged(const fs::path& file, const std::string& why) {
  return {Code::kDataLoss, file.string() + ": " + why, "", "take another copy of the checkpoint"};
}

Error missing(const fs::path& file) {
  return {Code::kNotFound, file.string() + " cannot be read", "",
          "name the folder of a Shoal checkpoint"};
}

Json vectors_of(const CheckpointContent& content, const PartDigests& digests) {
  Json vectors;
  const auto add = [&](const std::string& name, std::span<const float> values) {
    vectors[name] = {{"values", values.size()}, {"digest", to_hex(digests.at(name))}};
  };
  add("anchor", content.anchor);
  for (const NamedValues& vector : content.outer) {
    add(outer_file(vector.name).tensor, vector.values);
  }
  return vectors;
}

Json list_of(const std::vector<FileEntry>& files) {
  Json list = Json::array();
  for (const FileEntry& file : files) {
    list.push_back({{"path", file.path},
                    {"role", file.role},
                    {"size", file.size.count()},
                    {"sha256", file.sha256}});
  }
  return list;
}

// Without the keys that readers before protocol 8 refuse: the description, which is empty, and what
// a Nesterov step does not read.
Json spec_of_part(const JobSpec& spec) {
  Json json = Json::parse(proto::spec_to_json(spec).dump());
  json.erase("description");
  if (spec.sync.outer.method != OuterMethod::kNesterov) return json;
  for (const char* key : {"method", "beta1", "beta2", "eps"}) json["sync"]["outer"].erase(key);
  return json;
}

std::string text_of_part(const CheckpointContent& content, const PartDigests& digests,
                         const std::vector<FileEntry>& files, std::string_view about_text) {
  Json cut = Json::array();
  for (const UnitRange& range : content.cut) cut.push_back({range.first, range.last});
  Json json = {
      {"format", kFormat},
      {"trainer", to_string(content.spec.trainer.kind)},
      {"round",
       {{"job", content.key.job.n}, {"epoch", content.key.epoch}, {"round", content.key.round}}},
      {"step", content.step.count()},
      {"stage", content.stage},
      {"cut", cut},
      {"vectors", vectors_of(content, digests)},
      {"files", list_of(files)},
      {"spec", spec_of_part(content.spec)}};
  if (!about_text.empty()) json["tokens"] = about_text;
  return json.dump(2) + "\n";
}

Digest digest_at(const nlohmann::json& json) {
  return parse_digest(json.get<std::string>()).value_or(Digest());
}

// Formats kWhole and kProgram say them in one table.
void read_digests(const nlohmann::json& json, PartHead& head) {
  for (const auto& [name, digest] : json.at("digests").items()) {
    head.digests[name == "momentum" ? "outer_momentum" : name] = digest_at(digest);
  }
}

void read_vectors(const nlohmann::json& json, PartHead& head) {
  const auto& vectors = json.at("vectors").get_ref<const nlohmann::json::object_t&>();
  for (const auto& [name, vector] : vectors) {
    head.digests[name] = digest_at(vector.at("digest"));
    head.value_counts[name] = vector.at("values").get<std::int64_t>();
  }
  for (const auto& file : json.at("files").get_ref<const nlohmann::json::array_t&>()) {
    head.files.push_back(
        {file.at("path").get<std::string>(), Bytes(file.at("size").get<std::int64_t>()),
         file.at("sha256").get<std::string>(), file.at("role").get<std::string>()});
  }
}

// None: of a newer version.
std::optional<PartFormat> format_of(const nlohmann::json& json) {
  const auto& format = json.at("format");
  if (format == kFormatOfPrograms) return PartFormat::kProgram;
  if (format == 1) return PartFormat::kWhole;
  if (format == 2) return PartFormat::kStages;
  return format == kFormat ? std::optional(PartFormat::kPartFile) : std::nullopt;
}

// What differs between the formats. Throws what the library throws.
void read_facts(const nlohmann::json& json, PartHead& head) {
  Checkpoint& checkpoint = head.checkpoint;
  switch (head.format) {
    case PartFormat::kWhole:
      checkpoint.cut = {whole_model(checkpoint.spec.model)};
      checkpoint.adam_step = json.at("adam_step").get<std::int64_t>();
      return read_digests(json, head);
    case PartFormat::kStages:
      return;
    case PartFormat::kProgram:
      head.value_counts = {{"anchor", json.at("value_count").get<std::int64_t>()},
                           {"outer_momentum", json.at("momentum_count").get<std::int64_t>()}};
      return read_digests(json, head);
    case PartFormat::kPartFile:
      return read_vectors(json, head);
  }
}

void read_cut(const nlohmann::json& json, Checkpoint& checkpoint) {
  if (!checkpoint.cut.empty()) return;
  for (const auto& range : json.at("cut")) {
    checkpoint.cut.push_back({range.at(0).get<std::int32_t>(), range.at(1).get<std::int32_t>()});
  }
}

// The anchor is known where the format says it, and no vector is longer.
bool is_plausible(const PartHead& head) {
  if (head.format == PartFormat::kWhole || head.format == PartFormat::kStages) return true;
  const auto anchor = head.value_counts.find("anchor");
  const auto digest = head.digests.find("anchor");
  if (anchor == head.value_counts.end() || digest == head.digests.end() || !digest->second)
    return false;
  return std::ranges::all_of(head.value_counts, [&](const auto& entry) {
    return entry.second >= 0 && entry.second <= anchor->second;
  });
}

// spec_to_json() nests less deep. A deeper text would exhaust the stack when it is printed.
nlohmann::json parse_text(const std::string& text) {
  constexpr int kDepthMax = 64;
  bool too_deep = false;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kDepthMax;
    return !too_deep;
  };
  auto json = nlohmann::json::parse(text, watch);
  return too_deep ? nlohmann::json() : json;
}

// Nothing: it cannot be read, or is larger than a part file of the largest job.
std::optional<std::string> read_text(const fs::path& path) {
  constexpr std::streamsize kBytesMax = std::streamsize{64} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::vector<char> piece(1 << 16);
  while (file && std::ssize(text) <= kBytesMax) {
    file.read(piece.data(), std::ssize(piece));
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  return file.eof() && !file.bad() ? std::optional(text) : std::nullopt;
}

Result<PartHead> parse(const nlohmann::json& json, const fs::path& path) {
  const auto format = format_of(json);
  if (!format) {
    return Error{Code::kIncompatible, path.string() + " has an unknown format", "",
                 "use the version of Shoal that wrote it"};
  }
  PartHead head;
  head.format = *format;
  auto spec = proto::read_kept_spec(json.at("spec").dump());
  if (spec.problems) return damaged(path, "its spec is not accepted: " + spec.problems->summary);
  Checkpoint& checkpoint = head.checkpoint;
  checkpoint.spec = with_derived_fields(std::move(spec.spec));
  const auto& round = json.at("round");
  // Version 0.1.0 called the epoch otherwise.
  const auto& epoch = round.contains("epoch") ? round.at("epoch") : round.at("lineage");
  checkpoint.key = {JobId(round.at("job").get<std::uint64_t>()), epoch.get<std::int64_t>(),
                    round.at("round").get<RoundNumber>()};
  checkpoint.step = Steps(json.at("step").get<std::int64_t>());
  read_facts(json, head);
  read_cut(json, checkpoint);
  if (!is_plausible(head)) return damaged(path, "its counts are impossible");
  return head;
}

// What a Python program of a version before 0.2 wrote of this stage; empty: nothing. Its name has
// the number of stages, which is not known yet.
fs::path old_head_of_program(const fs::path& folder, StageIndex stage) {
  const std::string start = tensor_file("shoal", stage, 2).substr(0, sizeof "shoal-00000" - 1);
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end;
       it.increment(failure)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(start + "-of-") && name.ends_with(".json")) return it->path();
  }
  return {};
}

// The file that describes the stage.
fs::path head_of(const fs::path& folder, StageIndex stage) {
  std::error_code failure;
  const auto exists = [&](const fs::path& path) { return fs::exists(path, failure); };
  if (exists(folder / part_file(stage))) return folder / part_file(stage);
  if (const auto old = old_head_of_program(folder, stage); stage > 0 && !old.empty()) return old;
  for (const std::string& of_all : {part_file(0), std::string(kOldHead)}) {
    if (exists(folder / of_all)) return folder / of_all;
  }
  return folder / part_file(stage);
}

// During an upgrade a trainer of a version before 0.2 may write the part of one stage, without a
// file that describes it, and a newer one that of stage 0.
bool has_old_files(const fs::path& folder, StageIndex stage, const Checkpoint& checkpoint) {
  std::error_code failure;
  return fs::exists(folder / tensor_file(kOldState, stage, checkpoint.cut.size()), failure);
}

// The role of a file of a version that listed none, by its stem; empty: it has no role.
std::string old_role(const std::string& stem) {
  if (stem == "model") return kRoleWeights;
  if (stem == "outer") return outer_file(kMomentum[0]).role;
  if (stem == "buffers") return kRoleBuffers;
  const bool inner = stem.starts_with("optimizer") || stem.starts_with("kept");
  return inner ? std::string(kInnerRole) + stem : "";
}

std::vector<FileEntry> old_files_of_program(const fs::path& folder, StageIndex stage,
                                            std::size_t stages) {
  const std::string ending = tensor_file("", stage, stages);
  std::vector<FileEntry> files;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end;
       it.increment(failure)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(ending)) continue;
    const std::string role = old_role(name.substr(0, name.size() - ending.size()));
    if (!role.empty()) files.push_back({name, Bytes(), "", role});
  }
  std::ranges::sort(files, {}, &FileEntry::path);
  return files;
}

}  // namespace

bool is_object_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kObjectNameBytesMax && name[0] != '.' &&
         std::ranges::all_of(name, fits);
}

std::string stage_file(std::string_view stem, StageIndex stage, std::size_t stages,
                       std::string_view ending) {
  char numbers[64] = "";
  if (stages > 1) std::snprintf(numbers, sizeof numbers, "-%05d-of-%05zu", stage + 1, stages);
  return std::string(stem) + numbers + std::string(ending);
}

std::string tensor_file(std::string_view stem, StageIndex stage, std::size_t stages) {
  return stage_file(stem, stage, stages, kTensorEnding);
}

OuterFile outer_file(std::string_view vector) {
  const std::string name(vector);
  return {vector == kMomentum[0] ? "outer" : "outer_" + name, "outer_" + name,
          std::string(kOuterRole) + name};
}

std::string part_file(StageIndex stage) {
  char name[32];
  std::snprintf(name, sizeof name, "part-%02d.json", stage);
  return name;
}

std::string text_of(const RoundKey& key) {
  return to_string(key.job) + "/" + std::to_string(key.epoch) + "/" + std::to_string(key.round);
}

PartDigests digests_of(const CheckpointContent& content) {
  PartDigests digests{{"anchor", digest_of(content.anchor)}};
  for (const NamedValues& vector : content.outer) {
    digests[outer_file(vector.name).tensor] = digest_of(vector.values);
  }
  return digests;
}

Result<WrittenPart> write_part_file(const fs::path& folder, const CheckpointContent& content,
                                    const PartDigests& digests, std::vector<FileEntry> files,
                                    std::string_view about_text) {
  const std::string text = text_of_part(content, digests, files, about_text);
  const std::string name = part_file(content.stage);
  if (Status s = write_file_durably((folder / name).string(), text); !s.ok()) return s.error();
  files.push_back(
      {name, Bytes(static_cast<std::int64_t>(text.size())), sha256_of(text), kRolePart});
  return WrittenPart{std::move(files), digests.at("anchor")};
}

std::vector<FileEntry> files_of(const fs::path& folder, StageIndex stage, const PartHead& head) {
  if (head.format == PartFormat::kProgram) {
    return old_files_of_program(folder, stage, head.checkpoint.cut.size());
  }
  std::vector<FileEntry> files = head.files;
  std::erase_if(files, [](const FileEntry& file) { return fs::path(file.path).has_parent_path(); });
  return files;
}

Result<PartHead> read_part(const fs::path& folder, StageIndex stage) {
  const fs::path path = head_of(folder, stage);
  const auto text = read_text(path);
  if (!text) return missing(path);
  try {
    const auto json = parse_text(*text);
    auto head = parse(json, path);
    if (!head) return head;
    if (stage >= std::ssize(head->checkpoint.cut)) {
      return Error{Code::kIncompatible, "the checkpoint has no stage " + std::to_string(stage), "",
                   "the checkpoint belongs to another cut of the model"};
    }
    if (head->format != PartFormat::kPartFile || json.at("stage") == stage) return head;
    if (path == folder / part_file(stage)) return damaged(path, "it is of another stage");
    if (!has_old_files(folder, stage, head->checkpoint)) return missing(folder / part_file(stage));
    return PartHead{PartFormat::kStages, std::move(head->checkpoint), {}, {}, {}};
  } catch (const nlohmann::json::exception& problem) {
    return damaged(path, problem.what());
  }
}

}  // namespace shoal::replica
