#include "swarm/core/session/step_words.h"

#include <string>

#include "base/check.h"

namespace shoal::swarm {

using enum WordState;

bool allowed(WordState from, WordState to) {
  if (to == kPending) return from == kQuiet;
  return from != to;
}

void StepWords::transition(WordState to) {
  SHOAL_CHECK(allowed(state_, to),
              std::string("word: ") + to_string(state_) + " -> " + to_string(to));
  state_ = to;
}

void StepWords::connected(ReplicaId peer) {
  told_.put(peer, 0);
  ++untold_;
}

void StepWords::heard_news(Instant now) {
  ++version_;
  if (state_ != kQuiet) return;
  transition(kPending);
  by_ = now + kWordDelay;
}

void StepWords::own_news() {
  ++version_;
  if (state_ != kUrgent) transition(kUrgent);
}

void StepWords::knows(ReplicaId peer) { told_.put(peer, version_); }

bool StepWords::due_to_all(Instant now) const {
  return state_ == kUrgent || (state_ == kPending && by_ <= now);
}

bool StepWords::due(Instant now) const { return due_to_all(now) || untold_ > 0; }

void StepWords::tell(Instant now, const StepWord& word, SessionActions& out) {
  const bool all = due_to_all(now);
  for (auto& [peer, version] : told_) {
    if (all ? version == version_ : version > 0) continue;
    version = version_;
    out.push_back(SendWord{peer, word});
  }
  untold_ = 0;
  if (all) transition(kQuiet);
}

std::optional<Instant> StepWords::next_deadline() const {
  if (state_ != kPending) return std::nullopt;
  return by_;
}

void StepWords::add_to(Digester& d) const {
  d.add(static_cast<std::int32_t>(state_)).add(version_).add(by_.ns).add(untold_);
  d.add(told_.size());
  for (const auto& [peer, version] : told_) d.add(peer.n).add(version);
}

}  // namespace shoal::swarm
