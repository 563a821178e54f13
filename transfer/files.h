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
#include "transfer/disk.h"

namespace shoal {

// Small enough that a slow line still shows movement: 26 s a piece at 10 kB/s.
inline constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

Bytes total_size(const std::vector<FileEntry>& files);

// SHA-256 of the list: two lists are of the same bytes when these are equal.
std::string list_digest(const std::vector<FileEntry>& files);

// Reads the files below `folder` from byte `from` of the whole on, in pieces of kPieceBytes at
// most; `take` returns false to stop. kCancelled: it did. kDataLoss: a file is gone, is no regular
// file (regular_file.h), or is shorter than its entry says.
Status read_files(const std::string& folder, const std::vector<FileEntry>& files, Bytes from,
                  const std::function<bool(std::span<const std::byte>)>& take);

}  // namespace shoal
