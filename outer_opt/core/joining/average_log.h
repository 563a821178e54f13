// The averages of the newest rounds at a source, encoded as they traveled, so that the runs of a
// joiner follow the rounds at the price of the averages alone. The oldest go first when they are
// more bytes than the limit: a joiner fetches again what it has from before them.
//
// Pure. Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "outer_opt/core/joining/state_messages.h"

namespace shoal::outer_opt {

// Values of a packed fragment that one member owned: the blocks of a codec count from its first.
using OwnedRuns = std::vector<ValueRange>;

// Fills `out` with the values of a packed average from `first` on.
using ReadAverage = std::function<void(std::int64_t first, std::span<float> out)>;

class AverageLog {
 public:
  explicit AverageLog(std::size_t limit_bytes) : limit_(limit_bytes) {}

  // The average of a committed round, packed, read by segments. `owned` cover it in order, or are
  // empty: then the owners are unknown, and it is one run. A round that does not follow the newest
  // one starts a new log.
  void add(const StepTerms& terms, const Fragment& fragment, CodecKind codec,
           const OwnedRuns& owned, const ReadAverage& average);
  // A round that changed nothing.
  void add_empty(RoundNumber round);
  void clear();

  bool empty() const { return rounds_.empty(); }
  // Whether the rounds after `round` are all here; of one that nothing followed yet, too.
  bool follows(RoundNumber round) const;
  std::size_t bytes() const { return bytes_; }

  // What the rounds after `round` change of the run: at least one round, and no further one once
  // the slices have `enough` bytes. Requires follows(round) and a newer round.
  std::vector<AverageSlice> after(RoundNumber round, const ValueRange& run,
                                  std::size_t enough) const;

 private:
  struct Round {
    StepTerms terms;
    Fragment fragment;  // empty: nothing changed
    CodecKind codec = CodecKind::kFp32;
    std::vector<AverageSegment> segments;
    std::size_t bytes = 0;
  };

  void push(Round round);
  AverageSlice slice_of(const Round& round, const ValueRange& run) const;

  const std::size_t limit_;
  std::deque<Round> rounds_;
  std::size_t bytes_ = 0;
};

// Where the run lies in a packed fragment; a count of 0: it has nothing of it.
ValueRange packed_range(const Fragment& fragment, const ValueRange& run);

}  // namespace shoal::outer_opt
