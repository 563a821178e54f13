// What happened, as lines. Every line goes into a digest, so two runs of one seed can be compared;
// the last ones are kept for a failure's report; all are printed when asked for.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "base/digest.h"
#include "base/time.h"

namespace shoal::sim {

inline constexpr Instant kStart = from_unix_ms(1'700'000'000'000);

class Trace {
 public:
  explicit Trace(bool print) : print_(print) {}
  void add(Instant at, const std::string& line);
  Digest digest() const { return digester_.finish(); }
  std::int64_t lines() const { return lines_; }
  const std::deque<std::string>& last() const { return last_; }

 private:
  static constexpr std::size_t kKept = 40;
  bool print_;
  Digester digester_;
  std::int64_t lines_ = 0;
  std::deque<std::string> last_;
};

}  // namespace shoal::sim
