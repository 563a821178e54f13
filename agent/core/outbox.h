// What replicas said to the coordinator and would have to say again: the newest message of each
// kind per replica. A stream may break with messages in it, so a message is kept after it was sent,
// and repeated after the next Welcome; receivers treat a repetition as a no-op. Messages of a live
// replica stay until a newer one of their kind; the last words of a dead one until they have surely
// arrived.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/digest.h"
#include "base/time.h"
#include "swarm/core/messages.h"

namespace shoal::agent {

class Outbox {
 public:
  // Last words of dead replicas: at most `last_words_max`, the oldest go first.
  explicit Outbox(std::size_t last_words_max) : last_words_max_(last_words_max) {}

  // Replaces what this replica said of this kind before.
  void keep(ReplicaId replica, FromAgent message, std::optional<Instant> said_at);

  // ReplicaFailed and CheckpointFailed: what is said of a replica that is no more.
  void keep_last_words(ReplicaId replica, FromAgent message, std::optional<Instant> said_at);

  void forget(ReplicaId replica);  // all but its last words
  void forget_last_words(ReplicaId replica);

  // The link broke: last words said before `settled` have arrived and are dropped.
  void link_lost(Instant settled);

  // Everything kept, oldest first; all of it counts as said now.
  std::vector<FromAgent> say_all(Instant now);

  std::size_t size() const { return entries_.size(); }
  void add_to(Digester& digester) const;

 private:
  struct Entry {
    ReplicaId replica;
    bool last_words = false;
    FromAgent message;
    std::optional<Instant> said_at;
  };
  void put(Entry entry);

  std::size_t last_words_max_;
  std::vector<Entry> entries_;  // in the order of being said
};

}  // namespace shoal::agent
