// See object_bundle.h. A bundle: the bytes that follow, the bytes of the list, the list as JSON,
// then the files, one after the other; numbers are 64-bit little-endian. Zeros fill the last value.
#include "replica/checkpoint/object_bundle.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include "replica/checkpoint/part_file.h"
#include "replica/checkpoint/safetensors.h"
#include "transfer/file_writer.h"

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;

constexpr const char* kList = "objects.json";
constexpr std::uint64_t kListBytesMax = 1 << 20;

Error no_bundle() {
  return {Code::kDataLoss, "what a source gave of its program's state is no bundle of objects", "",
          "the program begins anew with it"};
}

// Takes `size` bytes from the front; false: there are fewer.
bool take(std::span<const std::byte>& from, std::uint64_t size, std::span<const std::byte>& out) {
  if (size > from.size()) return false;
  out = from.first(size);
  from = from.subspan(size);
  return true;
}

bool take_number(std::span<const std::byte>& from, std::uint64_t& out) {
  std::span<const std::byte> bytes;
  if (!take(from, sizeof out, bytes)) return false;
  std::memcpy(&out, bytes.data(), sizeof out);
  return true;
}

// Fills the values with bytes from their front.
class Filler {
 public:
  explicit Filler(std::vector<float>& values) : rest_(std::as_writable_bytes(std::span(values))) {}

  void put(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(rest_.data(), bytes.data(), bytes.size());
    rest_ = rest_.subspan(bytes.size());
  }
  void put(std::uint64_t number) { put({reinterpret_cast<const char*>(&number), sizeof number}); }

 private:
  std::span<std::byte> rest_;
};

bool is_file_name(const std::string& name) {
  constexpr std::size_t kNameBytesMax = 200;
  return !name.empty() && name.size() <= kNameBytesMax && name[0] != '.' && name != kList &&
         name.find('/') == std::string::npos;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Throws what the library throws.
std::vector<FileEntry> entries_of(const nlohmann::json& list) {
  std::vector<FileEntry> files;
  for (const auto& file : list.get_ref<const nlohmann::json::array_t&>()) {
    files.push_back({file.at("path").get<std::string>(), Bytes(file.at("size").get<std::int64_t>()),
                     "", file.at("role").get<std::string>()});
  }
  return files;
}

Result<std::vector<FileEntry>> parse_list(std::string_view text) {
  try {
    return entries_of(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception&) {
    return no_bundle();
  }
}

Result<std::string> content_of(const fs::path& path, std::uint64_t most) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return read_text(fd, path, most);
  return Error{Code::kNotFound, path.string() + " cannot be opened", "", ""};
}

}  // namespace

Result<std::vector<float>> bundle_objects(const fs::path& folder,
                                          const std::vector<FileEntry>& files) {
  nlohmann::json list = nlohmann::json::array();
  std::int64_t size = 0;
  for (const FileEntry& file : files) {
    list.push_back({{"path", file.path}, {"role", file.role}, {"size", file.size.count()}});
    size += file.size.count();
  }
  if (Bytes(size) > kObjectBundleBytesMax) {
    return Error{Code::kResourceExhausted,
                 "the program's state has " + std::to_string(size) + " bytes", "", ""};
  }
  const std::string text = list.dump();
  const auto follows = sizeof(std::uint64_t) + text.size() + static_cast<std::uint64_t>(size);
  const auto all = sizeof(std::uint64_t) + follows;
  std::vector<float> values((all + sizeof(float) - 1) / sizeof(float));
  Filler filler(values);
  filler.put(follows);
  filler.put(text.size());
  filler.put(text);
  for (const FileEntry& file : files) {
    const auto wanted = static_cast<std::uint64_t>(file.size.count());
    const auto content = content_of(folder / file.path, wanted);
    if (!content) return content.error();
    if (content->size() != wanted) {
      return Error{Code::kDataLoss, file.path + " is not as long as it was written", "", ""};
    }
    filler.put(*content);
  }
  return values;
}

Status unbundle_objects(std::span<const float> bundle, const fs::path& folder) {
  auto rest = std::as_bytes(bundle);
  std::uint64_t size = 0, length = 0;
  std::span<const std::byte> all, text;
  if (!take_number(rest, size) || !take(rest, size, all)) return no_bundle();
  if (!take_number(all, length) || length > kListBytesMax || !take(all, length, text)) {
    return no_bundle();
  }
  const auto files = parse_list(text_of(text));
  if (!files) return files.error();
  for (const FileEntry& file : *files) {
    std::span<const std::byte> content;
    if (!is_file_name(file.path) || file.size.count() < 0) return no_bundle();
    if (!take(all, static_cast<std::uint64_t>(file.size.count()), content)) return no_bundle();
    const auto written = write_whole_file(folder / file.path, text_of(content));
    if (!written) return written.error();
  }
  const auto listed = write_whole_file(folder / kList, text_of(text));
  return listed ? Status() : listed.error();
}

// Only a bundle has a list, which unbundle_objects() has checked: in a checkpoint a file of that
// name says nothing.
Result<std::vector<FileEntry>> list_objects(const fs::path& folder, StageIndex stage) {
  const auto head = read_part(folder, stage);
  if (head) return files_of(folder, stage, *head);
  if (head.error().code != Code::kNotFound) return head.error();
  if (const auto list = content_of(folder / kList, kListBytesMax)) return parse_list(*list);
  return head.error();
}

TemporaryFolder::TemporaryFolder() {
  std::error_code failure;
  std::string pattern = (fs::temp_directory_path(failure) / "shoal-objects-XXXXXX").string();
  if (!failure && ::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code failure;
  if (!path_.empty()) fs::remove_all(path_, failure);
}

}  // namespace shoal::replica
