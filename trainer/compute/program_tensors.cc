// See program_tensors.h.
#include "trainer/compute/program_tensors.h"

#include <algorithm>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/plain/safetensors.h"

namespace shoal::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "python-1";

Error damaged(const fs::path& file, const std::string& why) {
  return {Code::kDataLoss, file.string() + ": " + why, "", "take another copy of the checkpoint"};
}

fs::path head_file(const fs::path& folder, std::size_t stage, std::size_t stages) {
  if (stage == 0) return folder / "shoal.json";
  const fs::path model = model_file(static_cast<StageIndex>(stage), stages);
  return folder / ("shoal" + model.stem().string().substr(std::string("model").size()) + ".json");
}

Result<nlohmann::json> read_head(const fs::path& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  auto json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_object()) return json;
  return damaged(path, "it is not a JSON object");
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

Status add_stage(const fs::path& folder, std::size_t stage, std::size_t stages,
                 ProgramParameters& out) {
  const fs::path path = head_file(folder, stage, stages);
  const auto head = read_head(path);
  if (!head) return head.error();
  const auto place = nlohmann::json::json_pointer("/digests/anchor");
  const auto digest = parse_digest(head->value(place, std::string()));
  if (!digest) return damaged(path, "it names no digest of its parameters");
  const auto file =
      SafetensorsFile::open(folder / model_file(static_cast<StageIndex>(stage), stages));
  if (!file) return file.error();
  const std::size_t first = out.values.size();
  if (Status s = add_tensors(*file, out); !s) return s;
  if (digest_of(std::span<const float>(out.values).subspan(first)) == *digest) return {};
  return damaged(file->path(), "its parameters are not those that were written");
}

}  // namespace

bool is_of_program(const fs::path& checkpoint) {
  const auto head = read_head(checkpoint / "shoal.json");
  return head.ok() && head->value("format", nlohmann::json()) == kFormat;
}

Result<ProgramParameters> read_program(const fs::path& checkpoint) {
  const auto head = read_head(checkpoint / "shoal.json");
  if (!head) return head.error();
  const auto cut = head->value("cut", nlohmann::json::array());
  if (cut.empty()) return damaged(checkpoint / "shoal.json", "it has no stages");
  ProgramParameters out;
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    if (Status s = add_stage(checkpoint, stage, cut.size(), out); !s) return s.error();
  }
  return out;
}

}  // namespace shoal::trainer
