#include "cli/event_reader.h"

namespace shoal::cli {

bool EventReader::feed(std::string_view bytes) {
  buffer_.append(bytes);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = buffer_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    std::string_view line = std::string_view(buffer_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!take(line)) return false;
  }
  buffer_.erase(0, begin);
  too_long_ = too_long_ || buffer_.size() > kEventMax;
  return !too_long_;
}

bool EventReader::take(std::string_view line) {
  if (line.empty()) {
    const bool more = data_.empty() || sink_(id_, data_);
    data_.clear();
    return more;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "id") id_ = value;
  if (field != "data") return true;
  if (!data_.empty()) data_ += '\n';
  data_ += value;
  too_long_ = data_.size() > kEventMax;
  return !too_long_;
}

}  // namespace shoal::cli
