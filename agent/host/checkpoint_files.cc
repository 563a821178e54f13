#include "agent/host/checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/sha256.h"
#include "transfer/files.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

Result<FileEntry> hash_file(const fs::path& file, const fs::path& folder,
                            const std::atomic<bool>& cancelled) {
  std::ifstream in(file, std::ios::binary);
  Sha256 hash;
  std::vector<char> piece(kPieceBytes);
  std::int64_t size = 0;
  while (in) {
    if (cancelled) return Error{Code::kCancelled, "the checkpoint is no longer wanted", "", ""};
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.add(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(in.gcount()))));
    size += in.gcount();
  }
  if (!in.eof()) return disk_error("read the file", file.string(), EIO);
  return FileEntry{fs::relative(file, folder).generic_string(), Bytes(size), hash.finish()};
}

}  // namespace

Result<std::vector<FileEntry>> hash_folder(const std::string& folder,
                                           const std::atomic<bool>& cancelled) {
  std::vector<FileEntry> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_symlink()) {  // a program of a job may have made it, to another file of the host
      return Error{Code::kDataLoss, it->path().string() + " is a link", "", "write files only"};
    }
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

}  // namespace shoal::agent
