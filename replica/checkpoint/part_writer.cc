// See part_writer.h.
#include "replica/checkpoint/part_writer.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "threads/descriptor.h"
#include "transfer/file_writer.h"

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;

std::size_t count_of(const TensorShape& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  return static_cast<std::size_t>(count);
}

std::vector<std::int64_t> flat(std::span<const float> values) { return {std::ssize(values)}; }

Result<FileEntry> with_role(Result<FileEntry> file, const std::string& role) {
  if (file) file->role = role;
  return file;
}

// The files of one part, in the order in which they are written.
class PartWriter {
 public:
  PartWriter(const fs::path& folder, const CheckpointContent& content, const TrainerPart& trainer)
      : folder_(folder), content_(content), trainer_(trainer), files_(trainer.objects) {}

  Result<WrittenPart> write() {
    if (Status s = add_weights(); !s) return s.error();
    for (const NamedValues& vector : content_.outer) {
      if (Status s = add_outer(vector); !s) return s.error();
    }
    if (Status s = add_moments(); !s) return s.error();
    for (const DescriptionFile& text : trainer_.descriptions) {
      if (Status s = add(write_whole_file(folder_ / text.name, text.text), kRoleDescription); !s)
        return s.error();
    }
    return write_part_file(folder_, content_, digests_, std::move(files_), trainer_.about_text);
  }

 private:
  Status add_weights() {
    std::vector<TensorToWrite> tensors;
    std::span<const float> rest = content_.anchor;
    for (const TensorShape& tensor : trainer_.weights) {
      const std::size_t count = count_of(tensor);
      SHOAL_CHECK(count <= rest.size());
      tensors.push_back({tensor.name, tensor.shape, rest.first(count)});
      rest = rest.subspan(count);
    }
    SHOAL_CHECK(rest.empty());
    return add_tensors("model", kRoleWeights, tensors,
                       {{"format", "pt"}, {"anchor", to_hex(digests_.at("anchor"))}});
  }

  Status add_outer(const NamedValues& vector) {
    const OuterFile file = outer_file(vector.name);
    return add_tensors(file.stem, file.role, {{file.tensor, flat(vector.values), vector.values}},
                       {{file.tensor, to_hex(digests_.at(file.tensor))}});
  }

  Status add_moments() {
    if (content_.adam_m.empty()) return {};
    return add_tensors("optimizer", kRoleInner,
                       {{"adam_m", flat(content_.adam_m), content_.adam_m},
                        {"adam_v", flat(content_.adam_v), content_.adam_v}},
                       {{"adam_m", to_hex(digest_of(content_.adam_m))},
                        {"adam_v", to_hex(digest_of(content_.adam_v))},
                        {"adam_step", std::to_string(content_.adam_step)}});
  }

  // Every file of tensors names its round.
  Status add_tensors(const std::string& stem, const std::string& role,
                     const std::vector<TensorToWrite>& tensors, TensorMetadata metadata) {
    metadata["round"] = text_of(content_.key);
    const auto name = tensor_file(stem, content_.stage, content_.cut.size());
    return add(write_safetensors(folder_ / name, tensors, metadata), role);
  }

  Status add(Result<FileEntry> file, const std::string& role) {
    if (!file) return file.error();
    files_.push_back(*with_role(std::move(file), role));
    return {};
  }

  const fs::path& folder_;
  const CheckpointContent& content_;
  const TrainerPart& trainer_;
  const PartDigests digests_ = digests_of(content_);
  std::vector<FileEntry> files_;
};

// The stem of an object's file; none: the role is of no object.
std::optional<std::string> object_stem(const std::string& role) {
  if (role == kRoleBuffers) return role;
  for (const auto& [prefix, start] : {std::pair{kInnerRole, ""}, {kObjectRole, "object-"}}) {
    if (!role.starts_with(prefix)) continue;
    const std::string name = role.substr(prefix.size());
    if (is_object_name(name)) return start + name;
  }
  return std::nullopt;
}

Error refused(const std::string& role) {
  return {Code::kValidation, "a checkpoint has no object with the role \"" + role + "\"", "role",
          "name it with 1 to 96 letters, digits and . _ -"};
}

// A file that grows while it is read is too large at the byte that exceeds `most`.
Status copy_all(int from, const fs::path& path, Bytes most, FileWriter& to) {
  std::vector<std::byte> piece(1 << 20);
  std::int64_t copied = 0;
  while (true) {
    const ssize_t count = ::read(from, piece.data(), piece.size());
    if (count == 0) return {};
    if (count < 0) return Error{Code::kUnavailable, path.string() + " cannot be read", "", ""};
    copied += count;
    if (copied > most.count()) {
      return Error{Code::kResourceExhausted,
                   path.string() + " has more than " + std::to_string(most.count()) + " bytes", "",
                   "keep a smaller file"};
    }
    const std::span all(piece.data(), static_cast<std::size_t>(count));
    if (Status s = to.write(all); !s) return s;
  }
}

}  // namespace

Status make_checkpoint_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return Error{Code::kUnavailable, "cannot create " + folder.string() + ": " + error.message(), "",
               "let this user write there, on a disk with room"};
}

Result<WrittenPart> write_part(const fs::path& folder, const CheckpointContent& content,
                               const TrainerPart& trainer) {
  if (Status s = make_checkpoint_folder(folder); !s) return s.error();
  return PartWriter(folder, content, trainer).write();
}

Result<FileEntry> write_object(const ObjectToWrite& object) {
  const auto stem = object_stem(object.role);
  if (!stem) return refused(object.role);
  if (object.tensors.empty()) {
    const auto name = stage_file(*stem, object.stage, object.stages, ".json");
    return with_role(write_whole_file(object.folder / name, object.document), object.role);
  }
  TensorMetadata metadata{{"format", "pt"}};
  if (!object.document.empty()) metadata[kDocumentKey] = object.document;
  const auto name = tensor_file(*stem, object.stage, object.stages);
  return with_role(write_safetensors(object.folder / name, object.tensors, metadata), object.role);
}

Result<FileEntry> write_program_file(const fs::path& folder, StageIndex stage, std::size_t stages,
                                     const std::string& name, const fs::path& source, Bytes most) {
  const std::string role = std::string(kFileRole) + name;
  if (!is_object_name(name)) return refused(role);
  const Descriptor from(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::error_code failure;
  if (from.get() < 0 || !fs::is_regular_file(source, failure)) {
    return Error{Code::kNotFound, source.string() + " is not a file that can be read", "", ""};
  }
  const fs::path path = folder / stage_file("file", stage, stages, "-" + name);
  FileWriter to(path);
  if (Status s = copy_all(from.get(), source, most, to); !s) {
    fs::remove(path, failure);  // a file that no part lists makes the part invalid
    return s.error();
  }
  return with_role(to.finish(), role);
}

}  // namespace shoal::replica
