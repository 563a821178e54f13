// What a replica knows of the inner steps that are open: of each microbatch how often it was sent
// on, computed and whether its gradient was added; of each step the tokens that were added and, at
// a router, what it drew. At most two steps are open at a time, so step s has the book s % 2.
//
// Exactly once is defined by the ledger of stage 0: a microbatch counts when the router that drew
// it has its answer and adds its gradient, once per (step, router, index). Tokens of the round,
// leases and loss follow from that ledger alone. Below stage 0 a replica adds a microbatch at most
// once per step by the same key, but two replicas of a stage may both add it: one had added when
// the replica above it was lost, the other gets what is sent again. There are at most as many such
// gradients at a stage as passes sent again above it, which the retry budget bounds; each is
// counted where it may be the second one (SessionStats::added_again).
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "base/fields.h"
#include "base/flat_map.h"
#include "base/units.h"
#include "messages/pipeline.h"

namespace shoal::swarm {

// What this replica did for the microbatches of one step.
class StepLedger {
 public:
  struct Entry {
    std::int32_t sends = 0, forwards = 0;
    bool added = false;
    friend constexpr auto fields_of(Of<Entry>) {
      using T = Entry;
      return fields<&T::sends, &T::forwards, &T::added>();
    }
  };
  Entry& of(const Microbatch& microbatch) {
    return sources_[{microbatch.router, microbatch.kind}][microbatch.index];
  }
  void clear() { sources_.clear(); }
  void forget_added();

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<StepLedger>) {
    using T = StepLedger;
    return fields<&T::sources_>();
  }

  FlatMap<std::pair<ReplicaId, PassKind>, FlatMap<std::int32_t, Entry>> sources_;
};

struct StepBook {
  StepLedger ledger;
  std::int64_t drawn = 0;  // router: microbatches
  std::int32_t live = 0;   // router: tasks drawn and not answered, evaluation included
  Tokens tokens;           // whose gradients were added and not taken
};
constexpr auto fields_of(Of<StepBook>) {
  using T = StepBook;
  return fields<&T::ledger, &T::drawn, &T::live, &T::tokens>();
}

class StepBooks {
 public:
  StepBook& of(std::int64_t step) { return books_[static_cast<std::size_t>(step & 1)]; }
  const StepBook& of(std::int64_t step) const { return books_[static_cast<std::size_t>(step & 1)]; }
  std::int32_t live() const { return books_[0].live + books_[1].live; }

  // The inner step is taken with what was added for it.
  Tokens take(std::int64_t step);
  // The step is over: nothing of it is under way, and what was added was taken.
  void close(std::int64_t step);
  // The round ends inside this step: its gradients were taken, and it may be trained again.
  void begin_again(std::int64_t step);
  // After a commit: no step is open.
  void clear();

  // Tokens of all steps since the last boundary or commit.
  Tokens taken() const { return taken_; }
  void forget_taken() { taken_ = {}; }

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<StepBooks>) {
    using T = StepBooks;
    return fields<&T::books_, &T::taken_>();
  }

  std::array<StepBook, 2> books_;
  Tokens taken_;
};

}  // namespace shoal::swarm
