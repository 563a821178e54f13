// See checkpoint.h.
#include "trainer/compute/checkpoint.h"

#include <charconv>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "proto/job_spec_text.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/compute/job_tokenizer.h"
#include "trainer/plain/parameter_layout.h"
#include "trainer/plain/safetensors.h"

namespace shoal::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 2;
// For models that are not cut: digests and Adam's step are in shoal.json. Read, never written.
constexpr int kFormatWhole = 1;
constexpr const char* kFormatOfPrograms = "python-1";  // python/abi/checkpoint_head.h

std::span<const float> slot_values(std::span<const float> flat, const TensorSlot& slot) {
  return flat.subspan(static_cast<std::size_t>(slot.first), static_cast<std::size_t>(slot.count));
}

bool has_momentum(const JobSpec& spec) { return spec.sync.algorithm() != SyncAlgorithm::kDdp; }

Json tokenizer_description(const DataSpec& data, bool has_text) {
  if (data.tokenizer == Tokenizer::kBytes) {
    return {{"kind", "bytes"}, {"description", "token = byte of the UTF-8 text, 0 to 255"}};
  }
  const std::string kind = to_string(data.tokenizer);
  if (has_text) {
    return {{"kind", kind}, {"description", "the text of a token is in tokenizer.json"}};
  }
  return {{"kind", kind},
          {"description",
           "token = little-endian " + kind + " of the training file; text by its maker"}};
}

std::string text_of(const RoundKey& key) {
  return to_string(key.job) + "/" + std::to_string(key.epoch) + "/" + std::to_string(key.round);
}

// Version 0.1.0 called it otherwise.
std::int64_t epoch_of(const nlohmann::json& round) {
  return (round.contains("epoch") ? round.at("epoch") : round.at("lineage")).get<std::int64_t>();
}

std::string shoal_json(const CheckpointContent& content, bool has_text) {
  Json cut = Json::array();
  for (const UnitRange& range : content.cut) cut.push_back({range.first, range.last});
  const Json json = {
      {"format", kFormat},
      {"spec", Json::parse(proto::spec_to_json(content.spec).dump())},
      {"round",
       {{"job", content.key.job.n}, {"epoch", content.key.epoch}, {"round", content.key.round}}},
      {"step", content.step.count()},
      {"value_count", parameter_count(content.spec.model)},
      {"cut", cut},
      {"tokenizer", tokenizer_description(content.spec.data, has_text)}};
  return json.dump(2) + "\n";
}

Status sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  if (fd >= 0) ::close(fd);
  if (synced) return {};
  return Error{Code::kUnavailable, "cannot sync " + folder.string(), "", ""};
}

// Every file of tensors names its round and the digests of what it holds.
Status write_tensors(const std::filesystem::path& folder, const CheckpointContent& content) {
  const std::size_t stages = content.cut.size();
  const UnitRange units = content.cut.at(static_cast<std::size_t>(content.stage));
  std::vector<TensorToWrite> model;
  for (const TensorSlot& slot : parameter_layout(content.spec.model, units)) {
    model.push_back({slot.name, slot.shape, slot_values(content.anchor, slot)});
  }
  const std::string round = text_of(content.key);
  const auto path = folder / model_file(content.stage, stages);
  const Metadata about_model = {
      {"format", "pt"}, {"round", round}, {"anchor", to_hex(digest_of(content.anchor))}};
  if (Status s = write_safetensors(path, model, about_model); !s) return s;
  const std::vector<std::int64_t> flat = {static_cast<std::int64_t>(content.anchor.size())};
  const auto second = static_cast<std::int64_t>(content.adam_v.size());
  std::vector<TensorToWrite> state = {{"adam_m", flat, content.adam_m},
                                      {"adam_v", {second}, content.adam_v}};
  if (has_momentum(content.spec))
    state.insert(state.begin(), {"outer_momentum", flat, content.momentum});
  return write_safetensors(folder / state_file(content.stage, stages), state,
                           {{"round", round},
                            {"outer_momentum", to_hex(digest_of(content.momentum))},
                            {"adam_m", to_hex(digest_of(content.adam_m))},
                            {"adam_v", to_hex(digest_of(content.adam_v))},
                            {"adam_step", std::to_string(content.adam_step)}});
}

// What stage 0 writes for all of them.
Status write_descriptions(const std::filesystem::path& folder, const CheckpointContent& content,
                          std::string_view tokenizer) {
  const ModelSpec& model = content.spec.model;
  if (!tokenizer.empty()) {
    if (Status s = write_file(folder / kTokenizerFile, std::string(tokenizer)); !s) return s;
  }
  if (Status s = write_file(folder / "config.json", model_config(model)); !s) return s;
  if (Status s = write_file(folder / "generation_config.json", generation_config()); !s) return s;
  if (content.cut.size() > 1) {
    const auto index = folder / "model.safetensors.index.json";
    if (Status s = write_file(index, shard_index(model, content.cut)); !s) return s;
  }
  return write_file(folder / "shoal.json", shoal_json(content, !tokenizer.empty()));
}

struct Head {  // what shoal.json says
  Checkpoint checkpoint;
  Metadata facts;  // kFormatWhole: what newer files say of themselves
};

Metadata facts_of(const nlohmann::json& json, const RoundKey& key) {
  const auto& digests = json.at("digests");
  return {{"round", text_of(key)},
          {"anchor", digests.at("anchor").get<std::string>()},
          {"outer_momentum", digests.at("momentum").get<std::string>()},
          {"adam_m", digests.at("adam_m").get<std::string>()},
          {"adam_v", digests.at("adam_v").get<std::string>()},
          {"adam_step", std::to_string(json.at("adam_step").get<std::int64_t>())}};
}

Result<Head> read_head(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) {
    return Error{Code::kNotFound, path.string() + " cannot be read", "",
                 "name the folder of a Shoal checkpoint"};
  }
  const auto bad = [&](const std::string& why) {
    return Error{Code::kDataLoss, path.string() + ": " + why, "",
                 "take another copy of the checkpoint"};
  };
  Head out;
  Checkpoint& head = out.checkpoint;
  try {
    const auto json = nlohmann::json::parse(*text);
    if (json.at("format") == kFormatOfPrograms) {
      return Error{
          Code::kIncompatible, path.string() + " is of a Python program's model", "",
          "read its parameters with shoal.load_checkpoint() (docs/python.md), or make files of "
          "them with `shoal checkpoint export`"};
    }
    const bool whole = json.at("format") == kFormatWhole;
    if (!whole && json.at("format") != kFormat) {
      return Error{Code::kIncompatible, path.string() + " has an unknown format", "",
                   "use the version of Shoal that wrote it"};
    }
    auto spec = proto::read_kept_spec(json.at("spec").dump());
    if (spec.problems) return bad("its spec is not accepted: " + spec.problems->summary);
    head.spec = with_derived_fields(std::move(spec.spec));
    const auto& round = json.at("round");
    head.key = {JobId(round.at("job").get<std::uint64_t>()), epoch_of(round),
                round.at("round").get<RoundNumber>()};
    head.step = Steps(json.at("step").get<std::int64_t>());
    if (whole) {
      head.cut = {whole_model(head.spec.model)};
      out.facts = facts_of(json, head.key);
      return out;
    }
    for (const auto& range : json.at("cut")) {
      head.cut.push_back({range.at(0).get<std::int32_t>(), range.at(1).get<std::int32_t>()});
    }
  } catch (const nlohmann::json::exception& e) {
    return bad(e.what());
  }
  if (!is_cut(head.cut, whole_model(head.spec.model))) return bad("its cut does not fit the model");
  return out;
}

// One stage's files, appended to the vectors of a checkpoint.
class ShardReader {
 public:
  ShardReader(const std::filesystem::path& folder, StageIndex stage, Head& head)
      : folder_(folder), stage_(stage), facts_(head.facts), out_(head.checkpoint) {}

  Status read_model() {
    const auto file = open(model_file(stage_, out_.cut.size()));
    if (!file) return file.error();
    const UnitRange units = out_.cut.at(static_cast<std::size_t>(stage_));
    const auto layout = parameter_layout(out_.spec.model, units);
    const auto all = extend(out_.anchor, value_count(layout));
    for (const TensorSlot& slot : layout) {
      const auto values =
          all.subspan(static_cast<std::size_t>(slot.first), static_cast<std::size_t>(slot.count));
      if (Status s = file->read(slot.name, slot.shape, values); !s) return s;
    }
    return check_digest(*file, "anchor", all);
  }

  // Nothing in `out`: it has to be read.
  Status map_model(std::optional<MappedValues>& out) {
    const auto file = open(model_file(stage_, out_.cut.size()));
    if (!file) return file.error();
    std::vector<ExpectedTensor> tensors;
    for (const TensorSlot& slot :
         parameter_layout(out_.spec.model, out_.cut.at(static_cast<std::size_t>(stage_)))) {
      tensors.push_back({slot.name, slot.shape});
    }
    out = file->map(tensors);
    return out ? check_digest(*file, "anchor", out->values()) : Status();
  }

  Status read_state() {
    const auto file = open(state_file(stage_, out_.cut.size()));
    if (!file) return file.error();
    const UnitRange units = out_.cut.at(static_cast<std::size_t>(stage_));
    const auto layout = parameter_layout(out_.spec.model, units);
    const std::int64_t count = value_count(layout);
    const auto step = metadata(*file, "adam_step");
    const auto [end, error] =
        std::from_chars(step.data(), step.data() + step.size(), out_.adam_step);
    if (error != std::errc() || end != step.data() + step.size()) {
      return damaged("adam_step is not a number");
    }
    if (has_momentum(out_.spec)) {
      if (Status s = read_flat(*file, "outer_momentum", count, out_.momentum); !s) return s;
    }
    if (Status s = read_flat(*file, "adam_m", count, out_.adam_m); !s) return s;
    const std::int64_t second = optimizer_layout(layout, out_.spec.train.optimizer).second_moments;
    return read_flat(*file, "adam_v", second, out_.adam_v);
  }

 private:
  static Error damaged(const std::string& what) {
    return {Code::kDataLoss, what, "", "take another copy of the checkpoint"};
  }
  std::string metadata(const SafetensorsFile& file, const std::string& name) const {
    const Metadata& said = facts_.empty() ? file.metadata() : facts_;
    const auto it = said.find(name);
    return it == said.end() ? "" : it->second;
  }
  static std::span<float> extend(std::vector<float>& values, std::int64_t count) {
    const std::size_t before = values.size();
    values.resize(before + static_cast<std::size_t>(count));
    return std::span(values).subspan(before);
  }

  // Shards of different rounds together are no checkpoint.
  Result<SafetensorsFile> open(const std::string& name) const {
    auto file = SafetensorsFile::open(folder_ / name);
    if (!file) return file.error();
    if (metadata(*file, "round") != text_of(out_.key)) {
      return damaged(name + " is not of round " + text_of(out_.key));
    }
    return file;
  }
  Status check_digest(const SafetensorsFile& file, const std::string& name,
                      std::span<const float> values) const {
    if (metadata(file, name) == to_hex(digest_of(values))) return {};
    return damaged("the digest of " + name + " of stage " + std::to_string(stage_) +
                   " does not match the checkpoint's");
  }
  Status read_flat(const SafetensorsFile& file, const char* name, std::int64_t count,
                   std::vector<float>& out) const {
    const auto values = extend(out, count);
    if (Status s = file.read(name, {count}, values); !s) return s;
    return check_digest(file, name, values);
  }

  const std::filesystem::path& folder_;
  StageIndex stage_;
  const Metadata& facts_;
  Checkpoint& out_;
};

}  // namespace

Status write_checkpoint(const std::filesystem::path& folder, const CheckpointContent& content,
                        std::string_view tokenizer) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{Code::kUnavailable, "cannot create " + folder.string() + ": " + error.message(),
                 "", "let this user write there, on a disk with room"};
  }
  if (Status s = write_tensors(folder, content); !s) return s;
  if (content.stage == 0) {
    if (Status s = write_descriptions(folder, content, tokenizer); !s) return s;
  }
  return sync_folder(folder);
}

Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                   std::optional<StageIndex> stage) {
  auto head = read_head(folder / "shoal.json");
  if (!head) return head.error();
  const auto stages = static_cast<StageIndex>(head->checkpoint.cut.size());
  if (stage && (*stage < 0 || *stage >= stages)) {
    return Error{Code::kIncompatible, "the checkpoint has no stage " + std::to_string(*stage), "",
                 "the checkpoint belongs to another cut of the model"};
  }
  for (StageIndex s = stage.value_or(0); s < (stage ? *stage + 1 : stages); ++s) {
    ShardReader reader(folder, s, *head);
    if (Status read = reader.read_model(); !read) return read.error();
    if (Status read = reader.read_state(); !read) return read.error();
  }
  return std::move(head->checkpoint);
}

Result<StoredModel> StoredModel::open(const std::filesystem::path& folder) {
  auto head = read_head(folder / "shoal.json");
  if (!head) return head.error();
  std::optional<MappedValues> mapped;
  const auto stages = static_cast<StageIndex>(head->checkpoint.cut.size());
  if (stages == 1) {
    if (Status s = ShardReader(folder, 0, *head).map_model(mapped); !s) return s.error();
  }
  for (StageIndex stage = 0; !mapped && stage < stages; ++stage) {
    if (Status s = ShardReader(folder, stage, *head).read_model(); !s) return s.error();
  }
  StoredModel model(std::move(head->checkpoint));
  model.mapped_ = std::move(mapped);
  return model;
}

}  // namespace shoal::trainer
