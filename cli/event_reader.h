// Splits a text/event-stream into events (WHATWG HTML, section 9.2.6), as its bytes come. A server
// whose line or event has no end is not waited for.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace shoal::cli {

class EventReader {
 public:
  using Sink = std::function<bool(const std::string& id, const std::string& data)>;
  static constexpr std::size_t kEventMax = std::size_t{1}
                                           << 20;  // bytes of a line, and of an event

  // `sink` must outlive the reader; false from it ends the reading.
  explicit EventReader(const Sink& sink) : sink_(sink) {}

  bool feed(std::string_view bytes);  // false: no more is wanted
  bool too_long() const { return too_long_; }

 private:
  bool take(std::string_view line);

  const Sink& sink_;
  std::string buffer_, id_, data_;
  bool too_long_ = false;
};

}  // namespace shoal::cli
