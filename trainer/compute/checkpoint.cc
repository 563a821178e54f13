// See checkpoint.h.
#include "trainer/compute/checkpoint.h"

#include <algorithm>

#include "replica/checkpoint/part_reader.h"
#include "replica/checkpoint/part_writer.h"
#include "replica/runtime/cut.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/compute/job_tokenizer.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

using replica::DescriptionFile;
using replica::PartHead;
using replica::PartReader;
using replica::TrainerPart;

// How a token becomes text, for people.
std::string about_text(const DataSpec& data, bool has_tokenizer) {
  if (data.tokenizer == Tokenizer::kBytes) return "token = byte of the UTF-8 text, 0 to 255";
  if (has_tokenizer) return "the text of a token is in tokenizer.json";
  return "token = little-endian " + std::string(to_string(data.tokenizer)) +
         " of the training file; text by its maker";
}

std::vector<TensorShape> tensors_of(const std::vector<TensorSlot>& layout) {
  std::vector<TensorShape> tensors;
  for (const TensorSlot& slot : layout) tensors.push_back({slot.name, slot.shape, ""});
  return tensors;
}

std::vector<TensorShape> tensors_of(const Checkpoint& checkpoint, StageIndex stage) {
  const UnitRange units = checkpoint.cut.at(static_cast<std::size_t>(stage));
  return tensors_of(parameter_layout(checkpoint.spec.model, units));
}

// What stage 0 writes for all of them.
std::vector<DescriptionFile> descriptions_of(const CheckpointContent& content,
                                             std::string_view tokenizer,
                                             const SpecialTokens& special) {
  const ModelSpec& model = content.spec.model;
  std::vector<DescriptionFile> files;
  if (!tokenizer.empty()) files.push_back({kTokenizerFile, std::string(tokenizer)});
  files.push_back({"config.json", model_config(model, Precision::kFp32, special)});
  files.push_back({"generation_config.json", generation_config(special)});
  if (content.cut.size() > 1) {
    files.push_back({"model.safetensors.index.json", shard_index(model, content.cut)});
  }
  return files;
}

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
  if (out.outer.empty()) out.outer = zero_vectors(outer_vectors(out.spec.sync), 0);
  for (std::size_t i = 0; i < part.outer.size(); ++i) {
    append(part.outer[i].values, value_count_of, out.outer.at(i).values);
  }
  append(part.adam_m, value_count_of, out.adam_m);
  append(part.adam_v, second_moments, out.adam_v);
}

// The state of one stage, appended to the vectors of `out`, whose round it must have.
Status read_stage(const std::filesystem::path& folder, StageIndex stage, Checkpoint& out) {
  const auto head = read_head(folder, stage);
  if (!head) return head.error();
  const PartReader reader(folder, stage, *head, out.key);
  if (Status s = reader.read_weights(tensors_of(out, stage), out.anchor); !s) return s;
  const UnitRange units = out.cut.at(static_cast<std::size_t>(stage));
  const std::int64_t values = value_count_of(out.spec, units);
  if (Status s = reader.read_outer(values, out.outer); !s) return s;
  return reader.read_moments(values, second_moments(out.spec, units), out);
}

}  // namespace

Result<WrittenPart> write_checkpoint(const std::filesystem::path& folder,
                                     const CheckpointContent& content, std::string_view tokenizer,
                                     const SpecialTokens& special) {
  const UnitRange units = content.cut.at(static_cast<std::size_t>(content.stage));
  TrainerPart part{tensors_of(parameter_layout(content.spec.model, units))};
  if (content.stage == 0) part.descriptions = descriptions_of(content, tokenizer, special);
  part.about_text = about_text(content.spec.data, !tokenizer.empty());
  return replica::write_part(folder, content, part);
}

Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                   std::optional<StageIndex> stage) {
  auto head = read_head(folder, stage.value_or(0));
  if (!head) return head.error();
  const auto stages = static_cast<StageIndex>(head->checkpoint.cut.size());
  Checkpoint out = std::move(head->checkpoint);
  for (StageIndex s = stage.value_or(0); s < (stage ? *stage + 1 : stages); ++s) {
    if (Status read = read_stage(folder, s, out); !read) return read.error();
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
    Checkpoint part = head->checkpoint;  // whose round all parts must have
    if (Status read = read_stage(folder, stage, part); !read) return read.error();
    append_units(part, of_part, common, out);
    out.adam_step = std::max(out.adam_step, part.adam_step);
  }
  return out;
}

Result<StoredModel> StoredModel::open(const std::filesystem::path& folder) {
  auto head = read_head(folder, 0);
  if (!head) return head.error();
  Checkpoint& whole = head->checkpoint;
  std::optional<replica::MappedValues> mapped;
  const auto stages = static_cast<StageIndex>(whole.cut.size());
  if (stages == 1) {
    const PartReader reader(folder, 0, *head, whole.key);
    if (Status s = reader.map_weights(tensors_of(whole, 0), mapped); !s) return s.error();
  }
  for (StageIndex stage = 0; !mapped && stage < stages; ++stage) {
    const auto part = read_head(folder, stage);
    if (!part) return part.error();
    const PartReader reader(folder, stage, *part, whole.key);
    if (Status s = reader.read_weights(tensors_of(whole, stage), whole.anchor); !s)
      return s.error();
  }
  StoredModel model(std::move(whole));
  model.mapped_ = std::move(mapped);
  return model;
}

}  // namespace shoal::trainer
