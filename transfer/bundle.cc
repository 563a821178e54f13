#include "transfer/bundle.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number_text.h"
#include "threads/file_content.h"
#include "transfer/disk.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;
constexpr std::size_t kNameMax = 100, kPrefixMax = 155;
constexpr int kPlain = 0644, kExecutable = 0755;
constexpr int kUnpackedPlain = 0444, kUnpackedExecutable = 0555;

// One header, as POSIX.1-1988 lays it out. Numbers are octal digits and a NUL.
struct Header {
  std::array<char, kNameMax> name;
  std::array<char, 8> mode, uid, gid;
  std::array<char, 12> size, mtime;
  std::array<char, 8> checksum;  // six digits, NUL, space
  char type;
  std::array<char, 100> link;
  std::array<char, 6> magic;
  std::array<char, 2> version;
  std::array<char, 32> user, group;
  std::array<char, 8> device_major, device_minor;
  std::array<char, kPrefixMax> prefix;
  std::array<char, 12> rest;
};
static_assert(sizeof(Header) == kBlock);

template <std::size_t N>
void put_octal(std::array<char, N>& field, std::uint64_t value) {
  for (std::size_t i = N - 1; i-- > 0; value /= 8) field[i] = static_cast<char>('0' + value % 8);
}

template <std::size_t N>
std::optional<std::uint64_t> read_octal(const std::array<char, N>& field) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i + 1 < N; ++i) {
    if (field[i] < '0' || field[i] > '7') return std::nullopt;
    value = 8 * value + static_cast<std::uint64_t>(field[i] - '0');
  }
  return field[N - 1] == '\0' ? std::optional(value) : std::nullopt;
}

// It is the sum over the header with spaces in its place.
void add_checksum(Header& header) {
  header.checksum.fill(' ');
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) sum += bytes[i];
  std::array<char, 7> digits{};
  put_octal(digits, sum);
  std::copy(digits.begin(), digits.end(), header.checksum.begin());
}

// Where ustar cuts a path that is longer than its name may be: at the first slash that leaves a
// short enough rest. npos: nowhere.
std::size_t cut_of(const std::string& path) {
  if (path.size() <= kNameMax) return 0;
  const auto slash = path.find('/', path.size() - kNameMax - 1);
  return slash != std::string::npos && slash <= kPrefixMax ? slash : std::string::npos;
}

std::optional<Header> header_of(const std::string& path, std::uint64_t size, int mode) {
  const auto cut = cut_of(path);
  if (cut == std::string::npos) return std::nullopt;
  Header header{};
  const std::string name = cut == 0 ? path : path.substr(cut + 1);
  std::copy(name.begin(), name.end(), header.name.begin());
  std::copy_n(path.begin(), cut, header.prefix.begin());
  put_octal(header.mode, static_cast<std::uint64_t>(mode));
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, size);
  put_octal(header.mtime, 0);
  header.type = '0';
  std::memcpy(header.magic.data(), "ustar", 6);
  header.version.fill('0');
  put_octal(header.device_major, 0);
  put_octal(header.device_minor, 0);
  add_checksum(header);
  return header;
}

std::size_t padding(std::size_t size) { return (kBlock - size % kBlock) % kBlock; }

Error unfit(const std::string& path, std::string message, std::string remedy) {
  return {Code::kInvalidArgument, std::move(message), path, std::move(remedy)};
}

Status add_file(const std::string& folder, const std::string& path, std::string& bundle) {
  const std::string there = folder + "/" + path;
  struct stat info {};
  if (::lstat(there.c_str(), &info) != 0) return disk_error("find the file", there, errno);
  if (!S_ISREG(info.st_mode)) {
    return unfit(path, "is no regular file", "leave it out, or put a copy in its place");
  }
  const auto content = file_content(there);
  if (!content) return disk_error("read the file", there, EIO);
  const bool runs = (info.st_mode & S_IXUSR) != 0;
  const auto header = header_of(path, content->size(), runs ? kExecutable : kPlain);
  if (!header) return unfit(path, "has too long a path", "shorten the names of its folders");
  bundle.append(reinterpret_cast<const char*>(&*header), kBlock);
  bundle += *content;
  bundle.append(padding(content->size()), '\0');
  if (bundle.size() + 2 * kBlock <= static_cast<std::size_t>(kBundleBytesMax.count())) return {};
  return unfit(path,
               "with it the code has more than the " +
                   size_text(static_cast<double>(kBundleBytesMax.count())) + " that it may have",
               "leave out what is no code");
}

// ---- reading

struct Entry {
  std::string path;
  std::string_view content;
  bool runs = false;
};

Error no_bundle(const std::string& what) {
  return {Code::kDataLoss, "this is not a bundle of code: " + what, "",
          "submit the job again with --code"};
}

bool is_inside(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos) return false;
  return std::ranges::none_of(
             fs::path(path),
             [](const fs::path& part) { return part.empty() || part == "." || part == ".."; }) &&
         path.find("//") == std::string::npos;
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& field) {
  return {field.begin(), std::find(field.begin(), field.end(), '\0')};
}

// The header at the front of `rest`, and what follows it. It must be what header_of() makes.
Result<Entry> take_entry(std::string_view& rest) {
  Header header;
  std::memcpy(&header, rest.data(), kBlock);
  const auto size = read_octal(header.size);
  const auto mode = read_octal(header.mode);
  const std::string prefix = text_of(header.prefix);
  Entry entry{(prefix.empty() ? "" : prefix + "/") + text_of(header.name), {}, false};
  if (!size || !mode || !is_inside(entry.path)) return no_bundle("a header is damaged");
  const auto made = header_of(entry.path, *size, static_cast<int>(*mode));
  const bool usual = *mode == kPlain || *mode == kExecutable;
  if (!usual || !made || std::memcmp(&*made, &header, kBlock) != 0) {
    return no_bundle("the header of " + entry.path + " is not one that Shoal writes");
  }
  rest.remove_prefix(kBlock);
  if (*size > rest.size() || *size + padding(*size) > rest.size()) {
    return no_bundle("it ends within " + entry.path);
  }
  if (rest.substr(*size, padding(*size)).find_first_not_of('\0') != std::string_view::npos) {
    return no_bundle("bytes follow the end of " + entry.path);
  }
  entry.content = rest.substr(0, *size);
  entry.runs = *mode == kExecutable;
  rest.remove_prefix(*size + padding(*size));
  return entry;
}

bool is_end(std::string_view rest) {
  return rest.size() == 2 * kBlock && rest.find_first_not_of('\0') == std::string_view::npos;
}

Result<std::vector<Entry>> entries_of(std::string_view bundle) {
  if (bundle.size() > static_cast<std::size_t>(kBundleBytesMax.count())) {
    return no_bundle("it is too large");
  }
  std::vector<Entry> entries;
  while (!is_end(bundle)) {
    if (bundle.size() < 3 * kBlock) return no_bundle("its end is missing");
    if (entries.size() == kBundleFilesMax) return no_bundle("it has too many files");
    auto entry = take_entry(bundle);
    if (!entry.ok()) return entry.error();
    if (!entries.empty() && entries.back().path >= entry->path) {
      return no_bundle("its files are not in order at " + entry->path);
    }
    entries.push_back(std::move(entry).value());
  }
  return entries;
}

Status write_file(const fs::path& path, const Entry& entry) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return disk_error("make the folder", path.parent_path().string(), error.value());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return disk_error("create the file", path.string(), errno);
  Status written = write_all(fd, std::as_bytes(std::span(entry.content)), path.string());
  const int mode = entry.runs ? kUnpackedExecutable : kUnpackedPlain;
  if (written.ok() && ::fchmod(fd, static_cast<mode_t>(mode)) != 0) {
    written = disk_error("set the mode of the file", path.string(), errno);
  }
  ::close(fd);
  return written;
}

// All of it on the disk, with one call for all files.
Status sync_all(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return disk_error("open the folder", folder, errno);
  const int failed = ::syncfs(fd) != 0 ? errno : 0;
  ::close(fd);
  return failed != 0 ? Status(disk_error("sync the folder", folder, failed)) : Status();
}

Status write_entries(const std::vector<Entry>& entries, const std::string& folder) {
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    return disk_error("make the folder", folder, error ? error.value() : EEXIST);
  }
  for (const Entry& entry : entries) {
    if (Status s = write_file(fs::path(folder) / entry.path, entry); !s.ok()) return s;
  }
  return sync_all(folder);
}

}  // namespace

Result<std::string> pack_bundle(const std::string& folder, std::vector<std::string> paths) {
  if (paths.size() > kBundleFilesMax) {
    return unfit(folder,
                 "has " + std::to_string(paths.size()) + " files; code has at most " +
                     std::to_string(kBundleFilesMax),
                 "leave out what is no code");
  }
  std::sort(paths.begin(), paths.end());
  std::string bundle;
  for (const std::string& path : paths) {
    if (!is_inside(path)) return unfit(path, "is not within the folder", "leave it out");
    if (Status added = add_file(folder, path, bundle); !added.ok()) return added.error();
  }
  bundle.append(2 * kBlock, '\0');
  return bundle;
}

Status unpack_bundle(std::string_view bundle, const std::string& folder) {
  const auto entries = entries_of(bundle);
  if (!entries.ok()) return entries.error();
  const bool was_there = fs::exists(fs::symlink_status(folder));
  Status written = write_entries(*entries, folder);
  std::error_code ignored;
  if (!written.ok() && !was_there) fs::remove_all(folder, ignored);
  return written;
}

}  // namespace shoal
