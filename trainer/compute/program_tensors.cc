// See program_tensors.h.
#include "trainer/compute/program_tensors.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/digest.h"
#include "replica/checkpoint/part_file.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/plain/safetensors.h"

namespace shoal::trainer {
namespace {

namespace fs = std::filesystem;

Error damaged(const fs::path& file, const std::string& why) {
  return {Code::kDataLoss, file.string() + ": " + why, "", "take another copy of the checkpoint"};
}

// None: more than `most`.
std::optional<std::size_t> count_of(const std::vector<std::int64_t>& shape, std::size_t most) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    const auto factor = static_cast<std::size_t>(size);
    if (factor > 0 && count > most / factor) return std::nullopt;
    count *= factor;
  }
  return count;
}

Status add_tensors(const SafetensorsFile& file, ProgramParameters& out) {
  const auto shapes = file.shapes();
  for (const std::string& name : file.names()) {
    const auto& shape = shapes.at(name);
    const auto count = count_of(shape, fs::file_size(file.path()));
    if (!count) return damaged(file.path(), name + " is larger than the file");
    if (std::ranges::count(out.tensors, name, &ProgramTensor::name) > 0) {
      return damaged(file.path(), name + " is also in the file of another stage");
    }
    const std::size_t first = out.values.size();
    out.values.resize(first + *count);
    out.tensors.push_back({name, shape, first, *count});
    if (Status s = file.read(name, shape, std::span(out.values).subspan(first)); !s) return s;
  }
  return {};
}

Status add_stage(const fs::path& folder, StageIndex stage, std::size_t stages,
                 ProgramParameters& out) {
  const auto head = replica::read_part(folder, stage);
  if (!head) return head.error();
  const auto digest = head->digests.find("anchor");
  if (digest == head->digests.end()) return damaged(folder, "it names no digest of its parameters");
  const auto file = SafetensorsFile::open(folder / model_file(stage, stages));
  if (!file) return file.error();
  const std::size_t first = out.values.size();
  if (Status s = add_tensors(*file, out); !s) return s;
  if (digest_of(std::span<const float>(out.values).subspan(first)) == digest->second) return {};
  return damaged(file->path(), "its parameters are not those that were written");
}

}  // namespace

bool is_of_program(const fs::path& checkpoint) {
  const auto head = replica::read_part(checkpoint, 0);
  return head.ok() && head->is_of_program();
}

Result<ProgramParameters> read_program(const fs::path& checkpoint) {
  const auto head = replica::read_part(checkpoint, 0);
  if (!head) return head.error();
  const std::size_t stages = head->checkpoint.cut.size();
  if (stages == 0) return damaged(checkpoint, "it has no stages");
  ProgramParameters out;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const Status added = add_stage(checkpoint, static_cast<StageIndex>(stage), stages, out);
    if (!added) return added.error();
  }
  return out;
}

}  // namespace shoal::trainer
