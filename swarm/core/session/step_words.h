// When the own step word goes out, and to whom: at once to everybody when the own step or progress
// changed; what was heard of others waits a moment for more, since whoever has all of it moves on
// and says so; a new stream is told at once. Nobody is told what he is known to know.
//
//   quiet      -> pending      something was heard of others; it goes out by its deadline
//              -> urgent       the own step or progress changed
//   pending    -> urgent
//              -> quiet        told
//   urgent     -> quiet        told
#pragma once

#include <cstdint>
#include <optional>

#include "base/flat_map.h"
#include "base/words.h"
#include "swarm/core/session/session_types.h"

namespace shoal::swarm {

inline constexpr Duration kWordDelay = milliseconds(50);  // others' progress is collected

enum class WordState { kQuiet, kPending, kUrgent };
constexpr auto words_of(Of<WordState>) {
  using enum WordState;
  return words<WordState>({{kQuiet, "quiet"}, {kPending, "pending"}, {kUrgent, "urgent"}});
}
bool allowed(WordState from, WordState to);

class StepWords {
 public:
  void connected(ReplicaId peer);
  void ended(ReplicaId peer) { told_.erase(peer); }
  void heard_news(Instant now);  // of others
  void own_news();
  void knows(ReplicaId peer);  // it has said all that is known here

  // Somebody is to be told now.
  bool due(Instant now) const;
  void tell(Instant now, const StepWord& word, SessionActions& out);
  WordState state() const { return state_; }
  std::optional<Instant> next_deadline() const;
  void add_to(Digester& digester) const;

 private:
  void transition(WordState to);
  bool due_to_all(Instant now) const;

  WordState state_ = WordState::kQuiet;
  std::uint64_t version_ = 1;
  Instant by_;                              // when it is pending
  std::int32_t untold_ = 0;                 // new streams
  FlatMap<ReplicaId, std::uint64_t> told_;  // streams, and the version each has; 0: none
};

}  // namespace shoal::swarm
