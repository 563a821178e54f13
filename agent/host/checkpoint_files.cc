#include "agent/host/checkpoint_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kPieceBytes = 1 << 20;

Error io_error(const std::string& what, const std::string& path, int error) {
  const Code code =
      error == ENOSPC || error == EDQUOT ? Code::kResourceExhausted : Code::kUnavailable;
  return {code, "cannot " + what + " " + path + ": " + std::strerror(error), "",
          code == Code::kResourceExhausted ? "free some space on the disk" : ""};
}

Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const auto size = write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return io_error("write", path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return {};
}

Status sync_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return io_error("open", path, errno);
  const int failed = fsync(fd) != 0 ? errno : 0;
  close(fd);
  return failed != 0 ? Status(io_error("sync", path, failed)) : Status();
}

Result<FileEntry> hash_file(const fs::path& file, const fs::path& folder,
                            const std::atomic<bool>& cancelled) {
  std::ifstream in(file, std::ios::binary);
  Sha256 hash;
  std::vector<char> piece(kPieceBytes);
  std::int64_t size = 0;
  while (in) {
    if (cancelled) return Error{Code::kCancelled, "the checkpoint is no longer wanted", "", ""};
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.add({piece.data(), static_cast<std::size_t>(in.gcount())});
    size += in.gcount();
  }
  if (!in.eof()) return io_error("read", file.string(), EIO);
  return FileEntry{fs::relative(file, folder).generic_string(), Bytes(size), hash.finish()};
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  SHOAL_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() { EVP_MD_CTX_free(state_->context); }
void Sha256::add(std::string_view bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->context, raw.data(), &size);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kDigits[raw[i] >> 4];
    hex += kDigits[raw[i] & 15];
  }
  return hex;
}

Status write_file_durably(const std::string& path, std::string_view text) {
  const std::string part = path + ".part";
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return io_error("create", part, errno);
  Status written = write_all(fd, text, part);
  if (written.ok() && fsync(fd) != 0) written = io_error("sync", part, errno);
  close(fd);
  if (!written.ok()) return written;
  if (rename(part.c_str(), path.c_str()) != 0) return io_error("rename", part, errno);
  return sync_folder(fs::path(path).parent_path().string());
}

Result<std::vector<FileEntry>> hash_folder(const std::string& folder,
                                           const std::atomic<bool>& cancelled) {
  std::vector<FileEntry> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file()) continue;
    auto entry = hash_file(it->path(), folder, cancelled);
    if (!entry.ok()) return entry.error();
    files.push_back(std::move(entry).value());
  }
  if (error)
    return Error{Code::kUnavailable, "cannot read " + folder + ": " + error.message(), "", ""};
  if (files.empty()) return Error{Code::kDataLoss, folder + " holds no files", "", ""};
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

Status read_files(const std::string& folder, const std::vector<FileEntry>& files,
                  const std::function<bool(std::string_view)>& take) {
  std::vector<char> piece(kPieceBytes);
  for (const FileEntry& file : files) {
    const std::string path = folder + "/" + file.path;
    std::ifstream in(path, std::ios::binary);
    for (std::int64_t left = file.size.count(); left > 0;) {
      const auto wanted = std::min<std::int64_t>(left, kPieceBytes);
      if (!in.read(piece.data(), wanted))
        return Error{Code::kDataLoss, path + " became shorter or unreadable", "", ""};
      if (!take({piece.data(), static_cast<std::size_t>(wanted)})) {
        return Error{Code::kCancelled, "the transfer was broken off", "", ""};
      }
      left -= wanted;
    }
  }
  return {};
}

FolderReceiver::FolderReceiver(std::string folder, std::vector<FileEntry> files)
    : folder_(std::move(folder)), part_(folder_ + ".part"), files_(std::move(files)) {}

FolderReceiver::~FolderReceiver() {
  if (fd_ >= 0) close(fd_);
  std::error_code ignored;
  if (started_ && !done_) fs::remove_all(part_, ignored);
}

Status FolderReceiver::open_next() {
  std::error_code error;
  if (!started_) fs::remove_all(part_, error);
  started_ = true;
  while (fd_ < 0 && next_ < files_.size()) {
    const FileEntry& file = files_[next_++];
    const std::string path = part_ + "/" + file.path;
    fs::create_directories(fs::path(path).parent_path(), error);
    fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) return io_error("create", path, errno);
    left_ = file.size.count();
    hash_ = std::make_unique<Sha256>();
    if (left_ > 0) return {};
    if (Status closed = close_file(); !closed.ok()) return closed;
  }
  return {};
}

Status FolderReceiver::close_file() {
  const FileEntry& file = files_[next_ - 1];
  const int failed = fsync(fd_) != 0 ? errno : 0;
  close(fd_);
  fd_ = -1;
  if (failed != 0) return io_error("sync", part_ + "/" + file.path, failed);
  if (hash_->finish() != file.sha256) {
    return Error{Code::kDataLoss, "the hash of " + file.path + " does not match", "",
                 "it will be fetched again"};
  }
  return {};
}

Status FolderReceiver::write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (fd_ < 0) {
      if (Status opened = open_next(); !opened.ok()) return opened;
      if (fd_ < 0) return Error{Code::kDataLoss, "more bytes came than the files have", "", ""};
    }
    const auto size = std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(left_));
    if (Status written = write_all(fd_, bytes.substr(0, size), part_); !written.ok())
      return written;
    hash_->add(bytes.substr(0, size));
    left_ -= static_cast<std::int64_t>(size);
    bytes.remove_prefix(size);
    if (left_ > 0) continue;
    if (Status closed = close_file(); !closed.ok()) return closed;
  }
  return {};
}

Status FolderReceiver::finish() {
  if (fd_ < 0) {
    if (Status opened = open_next(); !opened.ok()) return opened;  // trailing empty files
  }
  if (fd_ >= 0)
    return Error{Code::kDataLoss, "the files ended early", "", "it will be fetched again"};
  std::error_code error;
  for (fs::recursive_directory_iterator it(part_, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_directory()) continue;
    if (Status synced = sync_folder(it->path().string()); !synced.ok()) return synced;
  }
  if (Status synced = sync_folder(part_); !synced.ok()) return synced;
  fs::remove_all(folder_, error);
  fs::rename(part_, folder_, error);
  if (error)
    return Error{Code::kUnavailable, "cannot rename " + part_ + ": " + error.message(), "", ""};
  done_ = true;
  return sync_folder(fs::path(folder_).parent_path().string());
}

}  // namespace shoal::agent
