// See part_reader.h.
#include "replica/checkpoint/part_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <string_view>

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOldState = "shoal_state";  // the stem of its file
constexpr std::size_t kNamedMax = 10;

Error damaged(const std::string& what) {
  return {Code::kDataLoss, what, "", "take another copy of the checkpoint"};
}

std::string metadata(const SafetensorsFile& file, const std::string& name) {
  const auto it = file.metadata().find(name);
  return it == file.metadata().end() ? "" : it->second;
}

std::span<float> extend(std::vector<float>& values, std::size_t count) {
  const std::size_t before = values.size();
  values.resize(before + count);
  return std::span(values).subspan(before);
}

// None: more than `most`, or a negative size.
std::optional<std::size_t> count_of(const std::vector<std::int64_t>& shape, std::size_t most) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    const auto factor = static_cast<std::size_t>(size);
    if (factor > 0 && count > most / factor) return std::nullopt;
    count *= factor;
  }
  return count;
}

// A name of PyTorch without its wrappers: versions before 0.2 stored them.
std::string without_wrappers(const std::string& name, bool data_parallel) {
  constexpr std::array<std::string_view, 3> kWrappers = {"_orig_mod", "_checkpoint_wrapped_module",
                                                         "_fsdp_wrapped_module"};
  std::string plain;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, end - at);
    const bool wraps =
        std::ranges::count(kWrappers, part) > 0 || (data_parallel && part == "module");
    if (!wraps) plain += (plain.empty() ? "" : ".") + part;
    at = end + 1;
  }
  return plain;
}

// By the name in the model, the name in the file.
std::map<std::string, std::string> stored_names(const SafetensorsFile& file,
                                                const std::vector<TensorShape>& tensors) {
  std::set<std::string> wanted;
  for (const TensorShape& tensor : tensors) wanted.insert(tensor.name);
  std::map<std::string, std::string> names;
  for (const std::string& stored : file.names()) {
    std::string name = stored;
    for (const bool data_parallel : {false, true}) {
      const std::string plain = without_wrappers(stored, data_parallel);
      if (!wanted.contains(name) && wanted.contains(plain)) name = plain;
    }
    names.emplace(name, stored);
  }
  return names;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// What of a program's file does not fit its model, the first of it by name; empty: all fits.
std::string difference(const SafetensorsFile& file, const std::vector<TensorShape>& tensors,
                       const std::map<std::string, std::string>& names) {
  std::vector<std::string> found;
  const auto shapes = file.shapes();
  std::set<std::string> wanted;
  for (const TensorShape& tensor : tensors) {
    wanted.insert(tensor.name);
    const auto stored = names.find(tensor.name);
    if (stored == names.end()) {
      found.push_back(tensor.name + " is missing");
    } else if (const auto& shape = shapes.at(stored->second); shape != tensor.shape) {
      found.push_back(tensor.name + " has shape " + text_of(shape) + ", the model's has " +
                      text_of(tensor.shape));
    }
  }
  for (const auto& [name, stored] : names) {
    if (!wanted.contains(name)) found.push_back(name + " is not in the model");
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kNamedMax); ++i) {
    text += (i == 0 ? "" : "; ") + found[i];
  }
  if (found.size() > kNamedMax) {
    text += "; and " + std::to_string(found.size() - kNamedMax) + " more";
  }
  return text;
}

}  // namespace

// Versions before 0.2 wrote the whole state of a built-in model to one file. Of 0.1.0 and of
// programs before 0.2, files do not name their round.
Result<SafetensorsFile> PartReader::open(const std::string& stem) const {
  const auto name = tensor_file(stem, stage_, head_.checkpoint.cut.size());
  auto file = SafetensorsFile::open(folder_ / name);
  if (!file) return file.error();
  const std::string round = metadata(*file, "round");
  const bool may_lack_it = head_.format == PartFormat::kWhole || head_.is_of_program();
  if (round == replica::text_of(key_) || (round.empty() && may_lack_it)) return file;
  return damaged(name + " is not of round " + replica::text_of(key_));
}

Status PartReader::check_digest(const SafetensorsFile& file, const std::string& name,
                                std::span<const float> values) const {
  const auto known = head_.digests.find(name);
  const std::string wanted =
      known == head_.digests.end() ? metadata(file, name) : to_hex(known->second);
  if (wanted == to_hex(digest_of(values))) return {};
  return damaged(file.path().string() + ": the values of " + name +
                 " are not those that were written: their digest does not match the checkpoint's");
}

Status PartReader::read_flat(const SafetensorsFile& file, const std::string& name,
                             std::int64_t count, std::vector<float>& out) const {
  const auto values = extend(out, static_cast<std::size_t>(count));
  if (Status s = file.read(name, {count}, values); !s) return s;
  return check_digest(file, name, values);
}

Result<std::vector<TensorShape>> PartReader::weights() const {
  const auto file = open("model");
  if (!file) return file.error();
  const auto shapes = file->shapes();
  std::vector<TensorShape> tensors;
  for (const std::string& name : file->names()) {
    const auto& shape = shapes.at(name);
    if (!count_of(shape, fs::file_size(file->path()))) {
      return damaged(file->path().string() + ": " + name + " is larger than the file");
    }
    tensors.push_back({name, shape, file->type_of(name)});
  }
  return tensors;
}

Status PartReader::read_weights(const std::vector<TensorShape>& tensors,
                                std::vector<float>& out) const {
  const auto file = open("model");
  if (!file) return file.error();
  const auto names = stored_names(*file, tensors);
  const std::string wrong = head_.is_of_program() ? difference(*file, tensors, names) : "";
  if (!wrong.empty()) {
    return Error{Code::kIncompatible, "the checkpoint is of another model: " + wrong, "",
                 "train with the model that wrote it"};
  }
  const std::size_t before = out.size();
  for (const TensorShape& tensor : tensors) {
    const auto count = count_of(tensor.shape, std::numeric_limits<std::size_t>::max() / 8);
    const auto stored = names.find(tensor.name);
    const std::string& name = stored == names.end() ? tensor.name : stored->second;
    if (Status s = file->read(name, tensor.shape, extend(out, count.value_or(0))); !s) return s;
  }
  return check_digest(*file, "anchor", std::span<const float>(out).subspan(before));
}

Status PartReader::map_weights(const std::vector<TensorShape>& tensors,
                               std::optional<MappedValues>& out) const {
  const auto file = open("model");
  if (!file) return file.error();
  std::vector<ExpectedTensor> expected;
  for (const TensorShape& tensor : tensors) expected.push_back({tensor.name, tensor.shape});
  out = file->map(expected);
  return out ? check_digest(*file, "anchor", out->values()) : Status();
}

Status PartReader::read_outer(std::int64_t count, NamedVectors& out) const {
  const bool in_one_file =
      head_.format == PartFormat::kWhole || head_.format == PartFormat::kStages;
  if (out.empty()) out = zero_vectors(outer_vectors(head_.checkpoint.spec.sync), 0);
  for (NamedVector& vector : out) {
    const OuterFile place = outer_file(vector.name);
    const auto file = open(in_one_file ? kOldState : place.stem);
    if (!file) return file.error();
    if (Status s = read_flat(*file, place.tensor, count, vector.values); !s) return s;
  }
  return {};
}

Status PartReader::read_moments(std::int64_t first, std::int64_t second, Checkpoint& out) const {
  const bool in_one_file =
      head_.format == PartFormat::kWhole || head_.format == PartFormat::kStages;
  const auto file = open(in_one_file ? kOldState : "optimizer");
  if (!file) return file.error();
  if (head_.format != PartFormat::kWhole) {
    const auto step = metadata(*file, "adam_step");
    const char* last = step.data() + step.size();
    const auto [end, error] = std::from_chars(step.data(), last, out.adam_step);
    if (error != std::errc() || end != last) return damaged("adam_step is not a number");
  }
  if (Status s = read_flat(*file, "adam_m", first, out.adam_m); !s) return s;
  return read_flat(*file, "adam_v", second, out.adam_v);
}

Result<std::optional<SafetensorsFile>> PartReader::buffers() const {
  const auto files = files_of(folder_, stage_, head_);
  if (std::ranges::count(files, kRoleBuffers, &FileEntry::role) == 0) {
    return std::optional<SafetensorsFile>();
  }
  auto file = open("buffers");
  if (!file) return file.error();
  return std::optional(std::move(*file));
}

}  // namespace shoal::replica
