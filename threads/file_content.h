// The whole content of a file. Without a limit: for files that this system has written.
#pragma once

#include <array>
#include <fstream>
#include <optional>
#include <string>

namespace shoal {

// None: it cannot be opened, or not read to its end (a folder, a broken disk).
inline std::optional<std::string> file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string content;
  std::array<char, 1 << 14> piece;
  do {
    file.read(piece.data(), piece.size());
    content.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  return file.bad() ? std::nullopt : std::optional(std::move(content));
}

}  // namespace shoal
