// See safetensors.h. Everything a foreign file says is checked before memory is touched: the
// header's length is bounded, offsets must lie in the file, shapes must match the byte counts.
#include "replica/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "outer_opt/core/codec/formats.h"
#include "transfer/file_writer.h"

namespace shoal::replica {
namespace {

// Whether fp32 values of this shape take so many bytes.
bool takes(const std::vector<std::int64_t>& shape, std::uint64_t bytes) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (size < 0 || (factor > 0 && count > bytes / factor)) return false;
    count *= factor;
  }
  return count * sizeof(float) == bytes;
}

static_assert(std::endian::native == std::endian::little, "fp32 is written as it lies in memory");

constexpr std::size_t kBlockValues = 1 << 20;           // converted at a time
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the limit of the reference implementation

Error bad_file(const std::filesystem::path& path, const std::string& what) {
  return {Code::kDataLoss, path.string() + " is not a usable safetensors file: " + what, "",
          "take another copy of the checkpoint"};
}

std::shared_ptr<const int> owner_of(int fd) {
  return {new int(fd), [](const int* owned) {
            ::close(*owned);
            delete owned;
          }};
}

std::optional<std::uint64_t> size_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return static_cast<std::uint64_t>(info.st_size);
}

// False: the file ends before, or cannot be read.
bool read_at(int fd, std::uint64_t from, void* out, std::uint64_t size) {
  auto* next = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t n = ::pread(fd, next, size, static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    next += n;
    from += static_cast<std::uint64_t>(n);
    size -= static_cast<std::uint64_t>(n);
  }
  return true;
}

std::string header_of(const std::vector<TensorToWrite>& tensors, const TensorMetadata& metadata,
                      Precision precision) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t end = offset + size_in_file(tensor, precision);
    const char* floats = precision == Precision::kBf16 ? "BF16" : "F32";
    header[tensor.name] = {{"dtype", tensor.type.empty() ? floats : tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

Status write_values(FileWriter& file, std::span<const float> values, Precision precision) {
  if (precision == Precision::kFp32) return file.write(std::as_bytes(values));
  std::vector<std::uint16_t> halves;
  while (!values.empty()) {
    const auto block = values.first(std::min(values.size(), kBlockValues));
    halves.resize(block.size());
    std::transform(block.begin(), block.end(), halves.begin(), outer_opt::formats::Bf16::pack);
    const Status written = file.write(std::as_bytes(std::span(halves)));
    if (!written) return written;
    values = values.subspan(block.size());
  }
  return {};
}

}  // namespace

std::uint64_t size_in_file(const TensorToWrite& tensor, Precision precision) {
  if (!tensor.type.empty()) return tensor.bytes.size();
  return tensor.values.size() * static_cast<std::uint64_t>(bytes_per_value(precision));
}

Result<FileEntry> write_safetensors(const std::filesystem::path& path,
                                    const std::vector<TensorToWrite>& tensors,
                                    const TensorMetadata& metadata, Precision precision) {
  const std::string header = header_of(tensors, metadata, precision);
  const std::uint64_t length = header.size();
  FileWriter file(path);
  if (Status s = file.write(std::as_bytes(std::span(&length, 1))); !s) return s.error();
  if (Status s = file.write(header); !s) return s.error();
  for (const TensorToWrite& tensor : tensors) {
    const Status written = tensor.type.empty() ? write_values(file, tensor.values, precision)
                                               : file.write(tensor.bytes);
    if (!written) return written.error();
  }
  return file.finish();
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return read_from(fd, path);
  return Error{Code::kNotFound, path.string() + " cannot be opened", "",
               "name the folder of a checkpoint"};
}

Result<SafetensorsFile> SafetensorsFile::read_from(int fd, std::filesystem::path path) {
  SafetensorsFile file;
  file.path_ = std::move(path);
  file.fd_ = owner_of(fd);
  const auto size = size_of(fd);
  std::uint64_t length = 0;
  if (!size || !read_at(fd, 0, &length, sizeof length)) {
    return bad_file(file.path_, "shorter than its header");
  }
  if (length > kHeaderBytesMax || length + sizeof length > *size) {
    return bad_file(file.path_, "the header's length is " + std::to_string(length));
  }
  std::string header(length, '\0');
  if (!read_at(fd, sizeof length, header.data(), length)) {
    return bad_file(file.path_, "the header is cut off");
  }
  file.data_start_ = sizeof length + length;
  if (Status s = file.parse_header(header, *size - file.data_start_); !s) return s.error();
  return file;
}

std::optional<MappedValues> SafetensorsFile::map(const std::vector<ExpectedTensor>& tensors) const {
  if (tensors.empty()) return std::nullopt;
  std::optional<std::uint64_t> begin;
  std::uint64_t end = 0;
  for (const ExpectedTensor& tensor : tensors) {
    const auto it = tensors_.find(tensor.name);
    if (it == tensors_.end()) return std::nullopt;
    const Entry& entry = it->second;
    const bool follows = !begin || entry.begin == end;
    if (!follows || entry.type != "F32" || entry.shape != tensor.shape) return std::nullopt;
    if (!takes(entry.shape, entry.end - entry.begin)) return std::nullopt;
    if (!begin) begin = entry.begin;
    end = entry.end;
  }
  const std::uint64_t first = data_start_ + *begin, length = data_start_ + end;
  if (first % sizeof(float) != 0) return std::nullopt;
  void* start = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, *fd_, 0);
  if (start == MAP_FAILED) return std::nullopt;
  MappedValues mapped;
  mapped.mapping_ = {start, [length](void* all) { ::munmap(all, length); }};
  mapped.values_ = {reinterpret_cast<const float*>(static_cast<const std::byte*>(start) + first),
                    (end - *begin) / sizeof(float)};
  return mapped;
}

std::map<std::string, SafetensorsFile::Shape> SafetensorsFile::shapes() const {
  std::map<std::string, Shape> shapes;
  for (const auto& [name, entry] : tensors_) shapes.emplace(name, entry.shape);
  return shapes;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  std::ranges::stable_sort(names, {}, [&](const auto& name) { return tensors_.at(name).begin; });
  return names;
}

namespace {

// A number with a fraction or a sign is refused by an exception: get<>() would make another one of
// it.
std::uint64_t whole(const nlohmann::json& value) {
  return value.get_ref<const nlohmann::json::number_unsigned_t&>();
}

using ToFloat = float (*)(std::uint16_t);

// The conversion of a 16-bit type; null: no such type.
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
        metadata_ = value.get<TensorMetadata>();
        continue;
      }
      Entry entry;
      entry.shape = shape_of(value.at("shape"));
      entry.begin = whole(value.at("data_offsets").at(0));
      entry.end = whole(value.at("data_offsets").at(1));
      entry.type = value.at("dtype").get<std::string>();
      if (entry.begin > entry.end) return bad_file(path_, name + " ends before it begins");
      if (entry.end > data_size) {
        return bad_file(path_, "it was cut: it has " + std::to_string(data_size) +
                                   " bytes of values, and " + name + " ends at " +
                                   std::to_string(entry.end));
      }
      tensors_.emplace(name, std::move(entry));
    }
  } catch (const nlohmann::json::exception& e) {
    return bad_file(path_, std::string("header: ") + e.what());
  }
  return {};
}

Status SafetensorsFile::copy_bytes(const std::string& name, const Entry& entry, void* out) const {
  if (!read_at(*fd_, data_start_ + entry.begin, out, entry.end - entry.begin)) {
    return bad_file(path_, name + " cannot be read");
  }
  return {};
}

Result<std::vector<std::byte>> SafetensorsFile::read_bytes(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return Error{Code::kNotFound, path_.string() + " has no tensor " + name, "", ""};
  }
  std::vector<std::byte> bytes(it->second.end - it->second.begin);
  if (Status s = copy_bytes(name, it->second, bytes.data()); !s) return s.error();
  return bytes;
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
  if (fp32) return copy_bytes(name, entry, out.data());
  std::vector<std::uint16_t> halves(out.size());
  if (Status s = copy_bytes(name, entry, halves.data()); !s) return s;
  std::transform(halves.begin(), halves.end(), out.begin(), to_float);
  return {};
}

Result<std::string> read_text(int fd, const std::filesystem::path& path, std::uint64_t most) {
  const auto owner = owner_of(fd);
  const auto size = size_of(fd);
  if (size && *size > most) {
    return Error{Code::kResourceExhausted,
                 path.string() + " has " + std::to_string(*size) + " bytes, more than " +
                     std::to_string(most),
                 "", "name another file"};
  }
  std::string text(size.value_or(0), '\0');
  if (size && read_at(fd, 0, text.data(), text.size())) return text;
  return Error{Code::kNotFound, path.string() + " cannot be read", "", ""};
}

}  // namespace shoal::replica
