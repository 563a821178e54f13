// Writing files so that they stay, and what to say when a disk refuses.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shoal {

// What could not be done with `path`, by errno. kResourceExhausted: the disk is full.
Error disk_error(const std::string& what, const std::string& path, int number);

Status sync_folder(const std::string& path);
Status write_all(int fd, std::span<const std::byte> bytes, const std::string& path);

// Written beside `path`, synced, renamed over it, and the folder synced.
Status write_file_durably(const std::string& path, std::string_view text);

}  // namespace shoal
