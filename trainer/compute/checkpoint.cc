// See checkpoint.h.
#include "trainer/compute/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "replica/checkpoint/part_file.h"
#include "replica/runtime/cut.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/compute/job_tokenizer.h"
#include "trainer/plain/parameter_layout.h"
#include "trainer/plain/safetensors.h"
#include "transfer/file_writer.h"

namespace shoal::trainer {
namespace {

using replica::PartHead;

constexpr const char* kOldState = "shoal_state";  // the stem of its file

std::span<const float> slot_values(std::span<const float> flat, const TensorSlot& slot) {
  return flat.subspan(static_cast<std::size_t>(slot.first), static_cast<std::size_t>(slot.count));
}

bool has_momentum(const JobSpec& spec) { return spec.sync.algorithm() != SyncAlgorithm::kDdp; }

// How a token becomes text, for people.
std::string about_text(const DataSpec& data, bool has_tokenizer) {
  if (data.tokenizer == Tokenizer::kBytes) return "token = byte of the UTF-8 text, 0 to 255";
  if (has_tokenizer) return "the text of a token is in tokenizer.json";
  return "token = little-endian " + std::string(to_string(data.tokenizer)) +
         " of the training file; text by its maker";
}

// What is written of a part, file by file.
class PartWriter {
 public:
  PartWriter(const std::filesystem::path& folder, const CheckpointContent& content)
      : folder_(folder),
        content_(content),
        stages_(content.cut.size()),
        digests_(replica::digests_of(content)) {}

  Status add_weights() {
    const UnitRange units = content_.cut.at(static_cast<std::size_t>(content_.stage));
    std::vector<TensorToWrite> tensors;
    for (const TensorSlot& slot : parameter_layout(content_.spec.model, units)) {
      tensors.push_back({slot.name, slot.shape, slot_values(content_.anchor, slot)});
    }
    return add_tensors("model", replica::kRoleWeights, tensors,
                       {{"format", "pt"}, {"anchor", to_hex(digests_.anchor)}});
  }
  Status add_momentum() {
    return add_tensors("outer", replica::kRoleOuterMomentum,
                       {{"outer_momentum", flat(content_.momentum), content_.momentum}},
                       {{"outer_momentum", to_hex(digests_.momentum)}});
  }
  Status add_moments() {
    return add_tensors("optimizer", replica::kRoleInner,
                       {{"adam_m", flat(content_.adam_m), content_.adam_m},
                        {"adam_v", flat(content_.adam_v), content_.adam_v}},
                       {{"adam_m", to_hex(digest_of(content_.adam_m))},
                        {"adam_v", to_hex(digest_of(content_.adam_v))},
                        {"adam_step", std::to_string(content_.adam_step)}});
  }
  // What stage 0 writes for all of them.
  Status add_descriptions(std::string_view tokenizer, const SpecialTokens& special) {
    const ModelSpec& model = content_.spec.model;
    if (!tokenizer.empty()) {
      if (Status s = add_text(kTokenizerFile, tokenizer); !s) return s;
    }
    const std::string config = model_config(model, Precision::kFp32, special);
    if (Status s = add_text("config.json", config); !s) return s;
    if (Status s = add_text("generation_config.json", generation_config(special)); !s) return s;
    if (stages_ == 1) return {};
    return add_text("model.safetensors.index.json", shard_index(model, content_.cut));
  }
  // After all others.
  Result<WrittenPart> finish(std::string_view about) {
    return replica::write_part(folder_, content_, digests_, std::move(files_), about);
  }

 private:
  static std::vector<std::int64_t> flat(std::span<const float> values) {
    return {std::ssize(values)};
  }
  // Every file of tensors names its round.
  Status add_tensors(const char* stem, const char* role, const std::vector<TensorToWrite>& tensors,
                     Metadata metadata) {
    metadata["round"] = replica::text_of(content_.key);
    const auto name = replica::tensor_file(stem, content_.stage, stages_);
    return add(write_safetensors(folder_ / name, tensors, metadata), role);
  }
  Status add_text(const char* name, std::string_view text) {
    return add(write_whole_file(folder_ / name, text), replica::kRoleDescription);
  }
  Status add(Result<FileEntry> file, const char* role) {
    if (!file) return file.error();
    file->role = role;
    files_.push_back(std::move(*file));
    return {};
  }

  const std::filesystem::path& folder_;
  const CheckpointContent& content_;
  const std::size_t stages_;
  const replica::PartDigests digests_;
  std::vector<FileEntry> files_;
};

// The part, and that it is of a model of this library.
Result<PartHead> read_head(const std::filesystem::path& folder, StageIndex stage) {
  auto head = replica::read_part(folder, stage);
  if (!head) return head;
  if (head->is_of_program()) {
    return Error{Code::kIncompatible, folder.string() + " is of a Python program's model", "",
                 "read its parameters with shoal.load_checkpoint() (docs/python.md), or make files "
                 "of them with `shoal checkpoint export`"};
  }
  const Checkpoint& checkpoint = head->checkpoint;
  if (is_cut(checkpoint.cut, whole_model(checkpoint.spec.model))) return head;
  return Error{Code::kDataLoss, folder.string() + ": its cut does not fit the model", "",
               "take another copy of the checkpoint"};
}

// One stage's files, appended to the vectors of a checkpoint.
class ShardReader {
 public:
  ShardReader(const std::filesystem::path& folder, StageIndex stage, const PartHead& head,
              Checkpoint& out)
      : folder_(folder), stage_(stage), head_(head), out_(out) {}

  Status read_model() {
    const auto file = open("model");
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
    const auto file = open("model");
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
    const UnitRange units = out_.cut.at(static_cast<std::size_t>(stage_));
    const auto layout = parameter_layout(out_.spec.model, units);
    if (has_momentum(out_.spec)) {
      const auto file = open(in_one_file() ? kOldState : "outer");
      if (!file) return file.error();
      const Status s = read_flat(*file, "outer_momentum", value_count(layout), out_.momentum);
      if (!s) return s;
    }
    return read_moments(layout);
  }

 private:
  // Versions before 0.2 wrote all state to one file.
  bool in_one_file() const { return head_.format != replica::PartFormat::kPartFile; }
  // 0.1.0 wrote no metadata into the files.
  bool says_nothing() const { return head_.format == replica::PartFormat::kWhole; }

  Status read_moments(const std::vector<TensorSlot>& layout) {
    const auto file = open(in_one_file() ? kOldState : "optimizer");
    if (!file) return file.error();
    if (!says_nothing()) {
      const auto step = metadata(*file, "adam_step");
      const auto [end, error] =
          std::from_chars(step.data(), step.data() + step.size(), out_.adam_step);
      if (error != std::errc() || end != step.data() + step.size()) {
        return damaged("adam_step is not a number");
      }
    }
    if (Status s = read_flat(*file, "adam_m", value_count(layout), out_.adam_m); !s) return s;
    const std::int64_t second = optimizer_layout(layout, out_.spec.train.optimizer).second_moments;
    return read_flat(*file, "adam_v", second, out_.adam_v);
  }
  static Error damaged(const std::string& what) {
    return {Code::kDataLoss, what, "", "take another copy of the checkpoint"};
  }
  static std::string metadata(const SafetensorsFile& file, const std::string& name) {
    const auto it = file.metadata().find(name);
    return it == file.metadata().end() ? "" : it->second;
  }
  static std::span<float> extend(std::vector<float>& values, std::int64_t count) {
    const std::size_t before = values.size();
    values.resize(before + static_cast<std::size_t>(count));
    return std::span(values).subspan(before);
  }

  // Shards of different rounds together are no checkpoint.
  Result<SafetensorsFile> open(const char* stem) const {
    const auto name = replica::tensor_file(stem, stage_, out_.cut.size());
    auto file = SafetensorsFile::open(folder_ / name);
    if (!file) return file.error();
    const std::string round = replica::text_of(out_.key);
    if (says_nothing() || metadata(*file, "round") == round) return file;
    return damaged(name + " is not of round " + round);
  }
  Status check_digest(const SafetensorsFile& file, const std::string& name,
                      std::span<const float> values) const {
    const auto known = head_.digests.find(name);
    const std::string wanted = says_nothing() && known != head_.digests.end()
                                   ? to_hex(known->second)
                                   : metadata(file, name);
    if (wanted == to_hex(digest_of(values))) return {};
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
  const PartHead& head_;
  Checkpoint& out_;
};

std::int64_t second_moments(const JobSpec& spec, UnitRange units) {
  const auto layout = parameter_layout(spec.model, units);
  return optimizer_layout(layout, spec.train.optimizer).second_moments;
}

std::int64_t value_count_of(const JobSpec& spec, UnitRange units) {
  return value_count(parameter_layout(spec.model, units));
}

// What the vectors of a part have of `units`. A vector holds its units one after the other, so that
// is one run of each; none for vectors that the checkpoint does not have.
void append_units(const Checkpoint& part, UnitRange of_part, UnitRange units, Checkpoint& out) {
  const auto append = [&](const std::vector<float>& from, const auto& count,
                          std::vector<float>& to) {
    if (from.empty()) return;
    const bool at_start = units.first == of_part.first;
    const auto first = at_start ? 0 : count(part.spec, {of_part.first, units.first});
    const auto begin = from.begin() + first;
    to.insert(to.end(), begin, begin + count(part.spec, units));
  };
  append(part.anchor, value_count_of, out.anchor);
  append(part.momentum, value_count_of, out.momentum);
  append(part.adam_m, value_count_of, out.adam_m);
  append(part.adam_v, second_moments, out.adam_v);
}

}  // namespace

Result<WrittenPart> write_checkpoint(const std::filesystem::path& folder,
                                     const CheckpointContent& content, std::string_view tokenizer,
                                     const SpecialTokens& special) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{Code::kUnavailable, "cannot create " + folder.string() + ": " + error.message(),
                 "", "let this user write there, on a disk with room"};
  }
  PartWriter part(folder, content);
  if (Status s = part.add_weights(); !s) return s.error();
  if (has_momentum(content.spec)) {
    if (Status s = part.add_momentum(); !s) return s.error();
  }
  if (Status s = part.add_moments(); !s) return s.error();
  if (content.stage == 0) {
    if (Status s = part.add_descriptions(tokenizer, special); !s) return s.error();
  }
  return part.finish(about_text(content.spec.data, !tokenizer.empty()));
}

Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                   std::optional<StageIndex> stage) {
  auto head = read_head(folder, stage.value_or(0));
  if (!head) return head.error();
  const auto stages = static_cast<StageIndex>(head->checkpoint.cut.size());
  Checkpoint out = head->checkpoint;
  for (StageIndex s = stage.value_or(0); s < (stage ? *stage + 1 : stages); ++s) {
    const auto part = read_head(folder, s);
    if (!part) return part.error();
    ShardReader reader(folder, s, *part, out);
    if (Status read = reader.read_model(); !read) return read.error();
    if (Status read = reader.read_state(); !read) return read.error();
  }
  return out;
}

Result<Checkpoint> read_units(const std::filesystem::path& folder, UnitRange units) {
  const auto head = read_head(folder, 0);
  if (!head) return head.error();
  Checkpoint out = head->checkpoint;
  const UnitRange whole = whole_model(out.spec.model);
  const bool within =
      whole.first <= units.first && units.first < units.last && units.last <= whole.last;
  if (!within || (*out.spec.model.tie_embeddings && units != whole)) {
    return Error{Code::kIncompatible, "the model of " + folder.string() + " has no such stage", "",
                 ""};
  }
  for (StageIndex stage = 0; stage < std::ssize(out.cut); ++stage) {
    const UnitRange of_part = out.cut[static_cast<std::size_t>(stage)];
    const UnitRange common{std::max(of_part.first, units.first),
                           std::min(of_part.last, units.last)};
    if (common.first >= common.last) continue;
    const auto part_head = read_head(folder, stage);
    if (!part_head) return part_head.error();
    Checkpoint part = head->checkpoint;  // whose round all parts must have
    ShardReader reader(folder, stage, *part_head, part);
    if (Status read = reader.read_model(); !read) return read.error();
    if (Status read = reader.read_state(); !read) return read.error();
    append_units(part, of_part, common, out);
    out.adam_step = std::max(out.adam_step, part.adam_step);
  }
  return out;
}

Result<StoredModel> StoredModel::open(const std::filesystem::path& folder) {
  auto head = read_head(folder, 0);
  if (!head) return head.error();
  std::optional<MappedValues> mapped;
  const auto stages = static_cast<StageIndex>(head->checkpoint.cut.size());
  if (stages == 1) {
    if (Status s = ShardReader(folder, 0, *head, head->checkpoint).map_model(mapped); !s)
      return s.error();
  }
  for (StageIndex stage = 0; !mapped && stage < stages; ++stage) {
    if (Status s = ShardReader(folder, stage, *head, head->checkpoint).read_model(); !s)
      return s.error();
  }
  StoredModel model(std::move(head->checkpoint));
  model.mapped_ = std::move(mapped);
  return model;
}

}  // namespace shoal::trainer
