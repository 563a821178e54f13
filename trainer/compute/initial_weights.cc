// See initial_weights.h.
#include "trainer/compute/initial_weights.h"

#include <algorithm>
#include <set>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "job/data_rules.h"
#include "job/model_match.h"
#include "trainer/compute/hugging_face_config.h"
#include "trainer/plain/parameter_layout.h"
#include "trainer/plain/safetensors.h"

namespace shoal::trainer {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1 << 20, kIndexBytesMax = 64 << 20;
constexpr std::size_t kNamedMax = 10;
constexpr const char* kField = "model.init";
constexpr const char* kHead = "lm_head.weight";

Error of_init(Error error) {
  error.field = kField;
  return error;
}

// Collects mistakes; the verdict names the first kNamedMax and counts the rest.
class Mistakes {
 public:
  void add(std::string mistake) {
    if (++count_ <= kNamedMax) told_ += (told_.empty() ? "" : "; ") + std::move(mistake);
  }
  Status verdict(const std::string& what, const std::string& remedy) const {
    if (count_ == 0) return {};
    const std::string rest =
        count_ > kNamedMax ? "; and " + std::to_string(count_ - kNamedMax) + " more" : "";
    return Error{Code::kIncompatible, what + ": " + told_ + rest, kField, remedy};
  }

 private:
  std::size_t count_ = 0;
  std::string told_;
};

std::string text_of(const SafetensorsFile::Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

Status check_same_model(const ModelSpec& job, const ModelSpec& folder, const std::string& path) {
  const auto found = differences(job, folder);
  if (found.empty()) return {};
  return Error{Code::kIncompatible, path + " holds another model: " + text_of(found), kField,
               "set these fields to the folder's values"};
}

// The files of a folder, and where each tensor is.
class Folder {
 public:
  Folder(std::string path, const OpenWeights& open) : path_(std::move(path)), open_(open) {}

  Result<std::string> text(const std::string& name, std::uint64_t most) const {
    const auto fd = open_(name);
    if (!fd) return of_init(fd.error());
    auto read = read_text(*fd, path_ + "/" + name, most);
    if (!read) return of_init(read.error());
    return read;
  }

  Status open_weights() {
    const auto names = file_names();
    if (!names) return names.error();
    for (const std::string& name : *names) {
      const auto fd = open_(name);
      if (!fd) return of_init(fd.error());
      auto file = SafetensorsFile::read_from(*fd, path_ + "/" + name);
      if (!file) return of_init(file.error());
      for (const auto& [tensor, shape] : file->shapes()) {
        tensors_[tensor] = {files_.size(), shape};
      }
      files_.push_back(std::move(*file));
    }
    return {};
  }

  // Null: the folder has no such tensor. Older files omit the prefix of the base model's names.
  const SafetensorsFile::Shape* shape_of(const std::string& name) const {
    const auto it = tensors_.find(stored_name(name));
    return it == tensors_.end() ? nullptr : &it->second.shape;
  }
  Status read(const TensorSlot& slot, const std::string& name, std::span<float> out) const {
    const std::string stored = stored_name(name);
    const Status status = files_.at(tensors_.at(stored).file).read(stored, slot.shape, out);
    return status ? status : Status(of_init(status.error()));
  }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& [name, place] : tensors_) names.insert(name);
    return names;
  }
  std::string stored_name(const std::string& name) const {
    if (tensors_.contains(name)) return name;
    for (const std::string_view prefix : {"model.", "transformer."}) {
      if (name.starts_with(prefix)) return name.substr(prefix.size());
    }
    return name;
  }
  const std::string& path() const { return path_; }

 private:
  struct Place {
    std::size_t file = 0;
    SafetensorsFile::Shape shape;
  };

  Result<std::set<std::string>> file_names() const {
    const std::string name = "model.safetensors.index.json";
    const auto index = text(name, kIndexBytesMax);
    if (!index && index.error().code != Code::kNotFound) return index.error();
    if (!index) return std::set<std::string>{"model.safetensors"};
    std::set<std::string> names;
    try {
      const auto json = nlohmann::json::parse(*index);
      for (const auto& [tensor, file] : json.at("weight_map").items()) {
        names.insert(file.get<std::string>());
      }
    } catch (const nlohmann::json::exception& e) {
      return Error{Code::kDataLoss, path_ + "/" + name + ": " + e.what(), kField,
                   "take another copy of the folder"};
    }
    return names;
  }

  std::string path_;
  const OpenWeights& open_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> tensors_;
};

// Buffers that some versions of the libraries stored beside the parameters.
bool is_buffer(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

// In a folder with tied embeddings, the head is the embedding.
std::string source_of(const TensorSlot& slot, bool folder_ties, const std::string& embedding) {
  return folder_ties && slot.name == kHead ? embedding : slot.name;
}

Status check_tensors(const ModelSpec& job, bool folder_ties, const Folder& folder) {
  const auto layout = parameter_layout(job, whole_model(job));
  const std::string embedding = layout.front().name;
  std::set<std::string> unknown = folder.names();
  if (folder_ties) unknown.erase(kHead);
  Mistakes mistakes;
  for (const TensorSlot& slot : layout) {
    const std::string name = source_of(slot, folder_ties, embedding);
    unknown.erase(folder.stored_name(name));
    const auto* shape = folder.shape_of(name);
    if (shape == nullptr) {
      mistakes.add(name + " is missing");
    } else if (*shape != slot.shape) {
      mistakes.add(name + " has the shape " + text_of(*shape) + " instead of " +
                   text_of(slot.shape));
    }
  }
  for (const std::string& name : unknown) {
    if (!is_buffer(name)) mistakes.add(name + " is not of this model");
  }
  return mistakes.verdict(folder.path() + " does not hold the tensors of the job's model",
                          "choose a folder of this architecture");
}

}  // namespace

Status read_weights(const JobSpec& spec, UnitRange units, const std::string& path,
                    const OpenWeights& open, std::span<float> flat) {
  Folder folder(path, open);
  const auto config = folder.text("config.json", kConfigBytesMax);
  if (!config) return config.error();
  const auto model = read_model_config(*config, path + "/config.json");
  if (!model) return model.error();
  if (Status s = check_same_model(spec.model, *model, path); !s) return s;
  if (Status s = folder.open_weights(); !s) return s;
  const bool ties = *model->tie_embeddings;
  if (Status s = check_tensors(spec.model, ties, folder); !s) return s;
  const std::string embedding = parameter_layout(spec.model, whole_model(spec.model)).front().name;
  for (const TensorSlot& slot : parameter_layout(spec.model, units)) {
    const auto values =
        flat.subspan(static_cast<std::size_t>(slot.first), static_cast<std::size_t>(slot.count));
    const Status read = folder.read(slot, source_of(slot, ties, embedding), values);
    if (!read) return read;
  }
  return {};
}

Status read_initial_weights(const JobSpec& spec, UnitRange units, const data::DataRoots& roots,
                            const std::filesystem::path& checkpoint, std::span<float> flat) {
  if (const auto folder = folder_of_weights(spec.model.init)) {
    const auto open = [&](const std::string& name) { return roots.open(*folder + "/" + name); };
    return read_weights(spec, units, *folder, open, flat);
  }
  const auto open = [&](const std::string& name) -> Result<int> {
    const int fd = ::open((checkpoint / name).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) return fd;
    return Error{Code::kNotFound, name + " cannot be opened", "", ""};
  };
  return read_weights(spec, units, spec.model.init, open, flat);
}

Failure weights_failure(const JobSpec& spec, const Error& error) {
  const std::string detail = to_string(error);
  const bool folder = folder_of_weights(spec.model.init).has_value();
  if (error.code == Code::kNotFound) {
    return {folder ? ReplicaFailure::kDataMissing : ReplicaFailure::kSourceLost, detail};
  }
  if (error.code == Code::kDataLoss) {
    return {folder ? ReplicaFailure::kDataInvalid : ReplicaFailure::kDigestMismatch, detail};
  }
  return {ReplicaFailure::kModelDoesNotFit, detail};
}

}  // namespace shoal::trainer
