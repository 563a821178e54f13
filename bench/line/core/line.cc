// See line.h.
#include "bench/line/core/line.h"

#include <algorithm>
#include <cmath>

namespace shoal::bench {

int Line::segments_at_once(const Train& train) const {
  if (options_.bytes_per_s == 0 || train.count == 1) return train.count;
  const double segment = static_cast<double>(train.part(0, 1).bytes());
  const double fit = options_.bytes_per_s * kTrainTime.seconds() / segment;
  return static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(train.count)));
}

void Line::pass(Instant now, const Train& train, std::vector<Passage>& out) {
  counts_.entered += train.count;
  if (options_.cut) {
    counts_.refused += train.count;
    return;
  }
  const int step = segments_at_once(train);
  for (int at = 0; at < train.count; at += step) {
    pass_part(now, train.part(at, std::min(step, train.count - at)), out);
  }
}

void Line::pass_part(Instant now, const Train& part, std::vector<Passage>& out) {
  Instant leaves = now;
  if (options_.bytes_per_s > 0) {
    if (free_ - now > options_.queue) {
      counts_.overflowed += part.count;
      return;
    }
    const double ns = 1e9 * static_cast<double>(part.bytes()) / options_.bytes_per_s;
    free_ = std::max(free_, now - options_.burst) + nanoseconds(std::llround(ns));
    leaves = std::max(now, free_);
  }
  if (options_.loss == 0) return deliver(leaves, part, out);
  int begin = 0;
  for (int i = 0; i < part.count; ++i) {
    if (!prng_.chance(options_.loss)) continue;
    ++counts_.lost;
    if (i > begin) deliver(leaves, part.part(begin, i - begin), out);
    begin = i + 1;
  }
  if (begin < part.count) deliver(leaves, part.part(begin, part.count - begin), out);
}

void Line::deliver(Instant leaves, const Train& part, std::vector<Passage>& out) {
  counts_.passed += part.count;
  counts_.bytes_passed += part.bytes();
  out.push_back({arrival(leaves, part.count), part});
}

Instant Line::arrival(Instant leaves, int segments) {
  Instant at = leaves + options_.delay;
  if (options_.jitter.ns > 0) {
    at = std::max(leaves, at + seconds_f(prng_.normal() * options_.jitter.seconds()));
  }
  at = std::max(at, last_arrival_);
  if (options_.reorder > 0 && prng_.chance(options_.reorder)) {
    counts_.detoured += segments;
    return at + options_.detour;
  }
  return last_arrival_ = at;
}

}  // namespace shoal::bench
