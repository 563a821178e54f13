// See initial_weights.h.
#include "trainer/compute/initial_weights.h"

#include <algorithm>
#include <set>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/check.h"
#include "job/data_rules.h"
#include "job/model_match.h"
#include "replica/checkpoint/safetensors.h"
#include "tokenizer/python_json.h"
#include "trainer/compute/hugging_face_config.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1 << 20, kIndexBytesMax = 64 << 20;
constexpr std::size_t kNamedMax = 10;
constexpr const char* kField = "model.init";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

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

std::string text_of(const replica::SafetensorsFile::Shape& shape) {
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

// A job that leaves model.tie_embeddings out has `false` here, so nothing else tells such a job
// from one that wants a head of its own. A single replica can tie them; then it must.
Status check_tied(const JobSpec& job, const ModelSpec& folder, const std::string& path) {
  if (job.swarm.stages != 1 || *job.model.tie_embeddings || !*folder.tie_embeddings) return {};
  return Error{Code::kIncompatible,
               path +
                   " holds another model: model.tie_embeddings is false in the job and true there "
                   "(tie_word_embeddings)",
               kField, "set model.tie_embeddings = true"};
}

// The files of a folder, and where each tensor is.
class Folder {
 public:
  Folder(std::string path, const OpenWeights& open) : path_(std::move(path)), open_(open) {}

  Result<std::string> text(const std::string& name, std::uint64_t most) const {
    const auto fd = open_(name);
    if (!fd) return hinted(fd.error());
    auto read = replica::read_text(*fd, path_ + "/" + name, most);
    if (!read) return of_init(read.error());
    return read;
  }

  Status open_weights() {
    const auto names = file_names();
    if (!names) return names.error();
    for (const std::string& name : *names) {
      const auto fd = open_(name);
      if (!fd) return of_init(fd.error());
      auto file = replica::SafetensorsFile::read_from(*fd, path_ + "/" + name);
      if (!file) return of_init(file.error());
      for (const auto& [tensor, shape] : file->shapes()) {
        tensors_[tensor] = {files_.size(), shape};
      }
      files_.push_back(std::move(*file));
    }
    return {};
  }

  // Null: the folder has no such tensor. Older files omit the prefix of the base model's names.
  const replica::SafetensorsFile::Shape* shape_of(const std::string& name) const {
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
    replica::SafetensorsFile::Shape shape;
  };

  bool has(const char* name) const {
    const auto fd = open_(name);
    if (fd) ::close(*fd);
    return fd.ok();
  }
  // What people give in place of a model in safetensors.
  Error hinted(Error error) const {
    if (error.code == Code::kNotFound && has("adapter_config.json")) {
      error.remedy =
          "the folder holds an adapter (LoRA), no model: merge it into its model "
          "(merge_and_unload() of peft), and save that";
    } else if (error.code == Code::kNotFound &&
               (has("pytorch_model.bin") || has("pytorch_model.bin.index.json"))) {
      error.remedy =
          "the folder holds pytorch_model.bin: load it with transformers, and save it "
          "with save_pretrained(), which writes safetensors";
    }
    return of_init(std::move(error));
  }

  Result<std::set<std::string>> file_names() const {
    if (has(kSingleFile)) return std::set<std::string>{kSingleFile};
    if (!has(kIndexFile)) {
      const auto missing = open_(kSingleFile);
      if (!missing) return hinted(missing.error());
      ::close(*missing);  // it came meanwhile
      return std::set<std::string>{kSingleFile};
    }
    const auto index = text(kIndexFile, kIndexBytesMax);
    if (!index) return index.error();
    const auto damaged = [&](const std::string& what) {
      return Error{Code::kDataLoss, path_ + "/" + kIndexFile + " " + what, kField,
                   "take another copy of the folder"};
    };
    const auto json = tokenizer::parse_python_json(*index);
    if (!json) return damaged(json.error().message);
    const nlohmann::json::json_pointer map("/weight_map");
    if (!json->contains(map) || !json->at(map).is_object()) return damaged("has no weight_map");
    std::set<std::string> names;
    for (const auto& [tensor, file] : json->at(map).items()) {
      if (!file.is_string()) return damaged("names no file for a tensor");
      names.insert(file.get<std::string>());
    }
    return names;
  }

  std::string path_;
  const OpenWeights& open_;
  std::vector<replica::SafetensorsFile> files_;
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
  const auto model = read_model_config(*config, path + "/config.json", spec.model.context);
  if (!model) return model.error();
  if (Status s = check_same_model(spec.model, *model, path); !s) return s;
  if (Status s = check_tied(spec, *model, path); !s) return s;
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
