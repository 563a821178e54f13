// See safetensors.h. Everything a foreign file says is checked before memory is touched: the
// header's length is bounded, offsets must lie in the file, shapes must match the byte counts.
#include "trainer/plain/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "outer_opt/core/codec/formats.h"

namespace shoal::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "fp32 is written as it lies in memory");

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the limit of the reference implementation

Error io_error(const std::filesystem::path& path, const std::string& what) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return {full ? Code::kResourceExhausted : Code::kUnavailable,
          "cannot " + what + " " + path.string() + ": " + std::strerror(errno), "",
          full ? "free some disk space" : ""};
}

Error bad_file(const std::filesystem::path& path, const std::string& what) {
  return {Code::kDataLoss, path.string() + " is not a usable safetensors file: " + what, "",
          "take another copy of the checkpoint"};
}

// A file that is written to the end, synced, or reported.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path)
      : path_(std::move(path)),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status write(const void* data, std::size_t size) {
    if (fd_ < 0) return io_error(path_, "create");
    const char* next = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = ::write(fd_, next, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return io_error(path_, "write");
      next += n;
      size -= static_cast<std::size_t>(n);
    }
    return {};
  }
  Status finish() {
    if (::fsync(fd_) != 0) return io_error(path_, "sync");
    return {};
  }

 private:
  std::filesystem::path path_;
  int fd_;
};

std::string header_of(const std::vector<TensorToWrite>& tensors, const Metadata& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t end = offset + tensor.values.size_bytes();
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path,
                         const std::vector<TensorToWrite>& tensors, const Metadata& metadata) {
  const std::string header = header_of(tensors, metadata);
  const std::uint64_t length = header.size();
  OutputFile file(path);
  if (Status s = file.write(&length, sizeof length); !s) return s;
  if (Status s = file.write(header.data(), header.size()); !s) return s;
  for (const TensorToWrite& tensor : tensors) {
    if (Status s = file.write(tensor.values.data(), tensor.values.size_bytes()); !s) return s;
  }
  return file.finish();
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return Error{Code::kNotFound, path.string() + " cannot be opened", "",
                 "name the folder of a checkpoint"};
  }
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  std::uint64_t length = 0;
  if (error || !in.read(reinterpret_cast<char*>(&length), sizeof length)) {
    return bad_file(path, "shorter than its header");
  }
  if (length > kHeaderBytesMax || length + sizeof length > size) {
    return bad_file(path, "the header's length is " + std::to_string(length));
  }
  std::string header(length, '\0');
  if (!in.read(header.data(), static_cast<std::streamsize>(length))) {
    return bad_file(path, "the header is cut off");
  }
  SafetensorsFile file;
  file.path_ = path;
  file.data_start_ = sizeof length + length;
  if (Status s = file.parse_header(header, size - file.data_start_); !s) return s.error();
  return file;
}

namespace {

// A number with a fraction or a sign is refused by an exception: get<>() would make another one of
// it.
std::uint64_t whole(const nlohmann::json& value) {
  return value.get_ref<const nlohmann::json::number_unsigned_t&>();
}

using ToFloat = float (*)(std::uint16_t);

// Of a type with 16 bits; null: no such type.
ToFloat to_float_of(const std::string& type) {
  if (type == "F16") return outer_opt::formats::Fp16::unpack;
  if (type == "BF16") return outer_opt::formats::Bf16::unpack;
  return nullptr;
}

std::vector<std::int64_t> shape_of(const nlohmann::json& value) {
  std::vector<std::int64_t> shape;
  for (const auto& size : value) shape.push_back(static_cast<std::int64_t>(whole(size)));
  return shape;
}

}  // namespace

Status SafetensorsFile::parse_header(const std::string& header, std::uint64_t data_size) {
  try {
    const auto json = nlohmann::json::parse(header);
    for (const auto& [name, value] : json.items()) {
      if (name == "__metadata__") {
        metadata_ = value.get<Metadata>();
        continue;
      }
      Entry entry;
      entry.shape = shape_of(value.at("shape"));
      entry.begin = whole(value.at("data_offsets").at(0));
      entry.end = whole(value.at("data_offsets").at(1));
      entry.type = value.at("dtype").get<std::string>();
      if (entry.begin > entry.end || entry.end > data_size) {
        return bad_file(path_, name + " lies outside of the file");
      }
      tensors_.emplace(name, std::move(entry));
    }
  } catch (const nlohmann::json::exception& e) {
    return bad_file(path_, std::string("header: ") + e.what());
  }
  return {};
}

Status SafetensorsFile::read_bytes(const std::string& name, const Entry& entry, void* out) const {
  std::ifstream in(path_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(data_start_ + entry.begin));
  if (!in.read(static_cast<char*>(out), static_cast<std::streamsize>(entry.end - entry.begin))) {
    return bad_file(path_, name + " cannot be read");
  }
  return {};
}

Status SafetensorsFile::read(const std::string& name, const std::vector<std::int64_t>& shape,
                             std::span<float> out) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return Error{Code::kNotFound, path_.string() + " has no tensor " + name, "", ""};
  }
  const Entry& entry = it->second;
  if (entry.shape != shape) {
    return Error{Code::kIncompatible, name + " in " + path_.string() + " has another shape", "",
                 "the checkpoint belongs to another model"};
  }
  const bool fp32 = entry.type == "F32";
  const ToFloat to_float = to_float_of(entry.type);
  if (!fp32 && to_float == nullptr) {
    return Error{Code::kIncompatible,
                 name + " in " + path_.string() + " has values of type " + entry.type, "",
                 "store it as F32, F16 or BF16"};
  }
  const std::uint64_t size = out.size() * (fp32 ? sizeof(float) : sizeof(std::uint16_t));
  if (entry.end - entry.begin != size) return bad_file(path_, name + " has a wrong size");
  if (fp32) return read_bytes(name, entry, out.data());
  std::vector<std::uint16_t> halves(out.size());
  if (Status s = read_bytes(name, entry, halves.data()); !s) return s;
  std::transform(halves.begin(), halves.end(), out.begin(), to_float);
  return {};
}

Status write_file(const std::filesystem::path& path, const std::string& text) {
  OutputFile file(path);
  if (Status s = file.write(text.data(), text.size()); !s) return s;
  return file.finish();
}

Result<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    return Error{Code::kNotFound, path.string() + " cannot be read", "", ""};
  }
  return std::move(text).str();
}

}  // namespace shoal::trainer
