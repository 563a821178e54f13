// Files that travel back to back, in the order of their list: what both ends of a transfer need.
// A place in such a transfer is one number, the bytes before it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "messages/messages.h"

namespace shoal {

// Small enough that a slow line still shows movement: 26 s a piece at 10 kB/s.
inline constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

Bytes total_size(const std::vector<FileEntry>& files);

// SHA-256 of the list: two lists are of the same bytes when these are equal.
std::string list_digest(const std::vector<FileEntry>& files);

// Reads the files below `folder` from byte `from` of the whole on, in pieces of kPieceBytes at
// most; `take` returns false to stop. kCancelled: it did. kDataLoss: a file is gone or shorter than
// its entry says. Paths must have been checked before.
Status read_files(const std::string& folder, const std::vector<FileEntry>& files, Bytes from,
                  const std::function<bool(std::span<const std::byte>)>& take);

// What could not be done with `path`, by errno. kResourceExhausted: the disk is full.
Error disk_error(const std::string& what, const std::string& path, int number);

Status sync_folder(const std::string& path);
Status write_all(int fd, std::span<const std::byte> bytes, const std::string& path);

// Written beside `path`, synced, renamed over it, and the folder synced.
Status write_file_durably(const std::string& path, std::string_view text);

}  // namespace shoal
