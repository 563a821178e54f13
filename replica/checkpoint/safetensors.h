// The safetensors file format (Hugging Face): 8 bytes little-endian header length, a JSON header
// padded with spaces to a multiple of 8, then the tensors' bytes back to back, row-major. fp32,
// fp16 and bf16 are read as fp32; tensors of any type are written and read as bytes. No torch here.
// Not for concurrent use of one object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "job/job_spec_enums.h"
#include "messages/message_parts.h"

namespace shoal::replica {

// A tensor to be written; its memory must live until write_safetensors() returns.
struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;  // as many as the shape says; empty where `type` is set
  // A tensor of any type, as the format calls it ("I64"), whose bytes are written as they are.
  std::string type = {};
  std::span<const std::byte> bytes = {};
};

// Bytes that the values of a tensor take in a file.
std::uint64_t size_in_file(const TensorToWrite& tensor, Precision precision);

using TensorMetadata = std::map<std::string, std::string>;

constexpr std::int64_t bytes_per_value(Precision precision) {
  return precision == Precision::kBf16 ? 2 : 4;
}

// A tensor that a file is expected to have.
struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

// Values of a file where the page cache has them: read when they are used, and no memory of the
// process that another one could not have.
class MappedValues {
 public:
  std::span<const float> values() const { return values_; }

 private:
  friend class SafetensorsFile;
  std::shared_ptr<const void> mapping_;  // unmaps it
  std::span<const float> values_;
};

// Writes and fsyncs `path`, replacing what was there; the entry is its file's, without a role. bf16
// rounds to the nearest, ties to even.
Result<FileEntry> write_safetensors(const std::filesystem::path& path,
                                    const std::vector<TensorToWrite>& tensors,
                                    const TensorMetadata& metadata,
                                    Precision precision = Precision::kFp32);

// A file opened for reading: the header was read and checked against the file's size.
class SafetensorsFile {
 public:
  using Shape = std::vector<std::int64_t>;

  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  // Reads a descriptor and closes it, also on failure. Messages call it `path`.
  static Result<SafetensorsFile> read_from(int fd, std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  std::map<std::string, Shape> shapes() const;  // of all tensors
  std::vector<std::string> names() const;       // in the order of their values
  const std::string& type_of(const std::string& name) const { return tensors_.at(name).type; }
  // Reads one tensor; kNotFound without it, kIncompatible when shape or type is another one.
  Status read(const std::string& name, const std::vector<std::int64_t>& shape,
              std::span<float> out) const;
  // The bytes of one tensor, of whatever type; kNotFound without it.
  Result<std::vector<std::byte>> read_bytes(const std::string& name) const;
  // All of these as one vector, where they lie in the file in this order without gaps, in fp32.
  // None: they do not, or the file cannot be mapped; read() them then. The file stays as it is
  // while it is mapped.
  std::optional<MappedValues> map(const std::vector<ExpectedTensor>& tensors) const;
  const TensorMetadata& metadata() const { return metadata_; }

 private:
  struct Entry {
    std::string type;  // "F32"
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  // bytes after the header
  };
  Status parse_header(const std::string& header, std::uint64_t data_size);
  Status copy_bytes(const std::string& name, const Entry& entry, void* out) const;

  std::filesystem::path path_;
  std::shared_ptr<const int> fd_;  // closes it
  std::uint64_t data_start_ = 0;
  std::map<std::string, Entry> tensors_;
  TensorMetadata metadata_;
};

// All of a file of at most `most` bytes; closes the descriptor. `path` is what messages call it.
Result<std::string> read_text(int fd, const std::filesystem::path& path, std::uint64_t most);

}  // namespace shoal::replica
