#include "python/abi/checkpoint_head.h"

#include <cstdio>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "proto/job_spec_text.h"
#include "transfer/files.h"

namespace shoal::python {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "python-1";

std::string file_of(StageIndex stage, std::size_t stages) {
  if (stage == 0) return "shoal.json";
  char name[48];
  std::snprintf(name, sizeof name, "shoal-%05d-of-%05zu.json", stage + 1, stages);
  return name;
}

Error damaged(const std::filesystem::path& file, const std::string& why) {
  return {Code::kDataLoss, file.string() + ": " + why, "", "take another copy of the checkpoint"};
}

Digest digest_at(const nlohmann::json& json, const char* name) {
  return parse_digest(json.at(name).get<std::string>()).value_or(Digest());
}

// Throws what the library throws.
CheckpointHead parse(const nlohmann::json& json) {
  CheckpointHead head;
  const auto& round = json.at("round");
  head.checkpoint.key = {JobId(round.at("job").get<std::uint64_t>()),
                         round.at("epoch").get<std::int64_t>(),
                         round.at("round").get<RoundNumber>()};
  head.checkpoint.step = Steps(json.at("step").get<std::int64_t>());
  for (const auto& range : json.at("cut")) {
    head.checkpoint.cut.push_back(
        {range.at(0).get<std::int32_t>(), range.at(1).get<std::int32_t>()});
  }
  head.value_count = json.at("value_count").get<std::int64_t>();
  head.momentum_count = json.at("momentum_count").get<std::int64_t>();
  head.anchor = digest_at(json.at("digests"), "anchor");
  head.momentum = digest_at(json.at("digests"), "outer_momentum");
  return head;
}

}  // namespace

Status write_checkpoint_head(const std::filesystem::path& folder,
                             const replica::CheckpointContent& content) {
  Json cut = Json::array();
  for (const UnitRange& range : content.cut) cut.push_back({range.first, range.last});
  const Json json = {
      {"format", kFormat},
      {"spec", Json::parse(proto::spec_to_json(content.spec).dump())},
      {"round",
       {{"job", content.key.job.n}, {"epoch", content.key.epoch}, {"round", content.key.round}}},
      {"step", content.step.count()},
      {"cut", cut},
      {"value_count", content.anchor.size()},
      {"momentum_count", content.momentum.size()},
      {"digests",
       {{"anchor", to_hex(digest_of(content.anchor))},
        {"outer_momentum", to_hex(digest_of(content.momentum))}}}};
  const auto path = folder / file_of(content.stage, content.cut.size());
  return write_file_durably(path.string(), json.dump(2) + "\n");
}

Result<CheckpointHead> read_checkpoint_head(const std::filesystem::path& folder, StageIndex stage,
                                            std::size_t stages) {
  const auto path = folder / file_of(stage, stages);
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    return Error{Code::kNotFound, path.string() + " cannot be read", "",
                 "name the folder of a Shoal checkpoint of this job's stages"};
  }
  try {
    const auto json = nlohmann::json::parse(text.str());
    if (json.at("format") != kFormat) {
      return Error{Code::kIncompatible, "the checkpoint was not written by a Python program", "",
                   "continue it with the trainer that wrote it"};
    }
    CheckpointHead head = parse(json);
    auto spec = proto::read_kept_spec(json.at("spec").dump());
    if (spec.problems) return damaged(path, "its spec is not accepted: " + spec.problems->summary);
    head.checkpoint.spec = with_derived_fields(std::move(spec.spec));
    if (head.value_count < 0 || head.momentum_count < 0 || head.momentum_count > head.value_count) {
      return damaged(path, "its counts are impossible");
    }
    return head;
  } catch (const nlohmann::json::exception& problem) {
    return damaged(path, problem.what());
  }
}

Status check_digests(const CheckpointHead& head) {
  const bool anchor = digest_of(head.checkpoint.anchor) == head.anchor;
  if (anchor && digest_of(head.checkpoint.momentum) == head.momentum) return {};
  return Error{Code::kDataLoss,
               std::string("the ") + (anchor ? "outer momentum" : "parameters") +
                   " of the checkpoint are not those that were written",
               "", "take another copy of the checkpoint"};
}

}  // namespace shoal::python
