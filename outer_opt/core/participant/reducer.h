// A reducer's side of the rounds, without tensors, sockets or a clock: to the process that only
// averages for others what participant.h is to one that trains. It holds no state, so nothing makes
// it stale and nobody tells it of commits: the newest plan counts, and a plan that was already
// obeyed is answered with the answer given before.
//
//   idle --ReducePlan--> reducing --done or failed--> answered
//   reducing, answered --ReducePlan of a later round or attempt--> reducing
//
// Not thread-safe; one thread drives it.
#pragma once

#include <optional>
#include <variant>

#include "outer_opt/core/participant/participant.h"

namespace shoal::outer_opt {

class Reducer {
 public:
  explicit Reducer(ReplicaId self) : self_(self) {}

  // A plan of which this is not a reducer, or an older one, is from the past: nothing happens.
  void reduce(const ReducePlan& plan, Actions& out);

  // What the work came to; of another attempt than the newest it is no news.
  void reduced(const RoundKey& key, std::int32_t attempt, const ReduceStats& stats,
               const PartSeen& seen, Actions& out);
  void reduce_failed(const ReduceFailed& failure, Actions& out);

  Digest digest() const;  // of all state

 private:
  bool is_running(const RoundKey& key, std::int32_t attempt) const;

  friend FieldAccess;
  friend constexpr auto fields_of(Of<Reducer>) {
    using T = Reducer;
    return fields<&T::self_, &T::plan_, &T::answer_>();
  }

  ReplicaId self_;
  std::optional<ReducePlan> plan_;                          // the newest
  std::optional<std::variant<Vote, ReduceFailed>> answer_;  // to it
};

}  // namespace shoal::outer_opt
