#include "agent/host/log_file.h"

#include <filesystem>

namespace shoal::agent {

LogFile::LogFile(std::string path, std::int64_t bytes_max, int kept)
    : path_(std::move(path)), bytes_max_(bytes_max), kept_(kept) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path_, error);
  bytes_ = error ? 0 : static_cast<std::int64_t>(size);
  out_.open(path_, std::ios::app | std::ios::binary);
}

void LogFile::append(std::string_view text) {
  if (bytes_ + static_cast<std::int64_t>(text.size()) > bytes_max_ && bytes_ > 0) rotate();
  out_.write(text.data(), static_cast<std::streamsize>(text.size()));
  out_.flush();
  bytes_ += static_cast<std::int64_t>(text.size());
}

void LogFile::rotate() {
  out_.close();
  std::error_code ignored;  // a full disk must not stop the training
  for (int i = kept_; i > 1; --i) {
    std::filesystem::rename(path_ + "." + std::to_string(i - 1), path_ + "." + std::to_string(i),
                            ignored);
  }
  std::filesystem::rename(path_, path_ + ".1", ignored);
  out_.open(path_, std::ios::trunc | std::ios::binary);
  bytes_ = 0;
}

}  // namespace shoal::agent
