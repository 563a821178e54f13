// What was said of replicas and would have to be said again: the newest message of each kind per
// replica. A stream may break with messages in it, so a message is kept after it was sent, and
// repeated when the next stream is open; receivers treat a repetition as a no-op. Messages of a
// live replica stay until a newer one of their kind; the last words of a dead one until they have
// surely arrived.
//
// An agent keeps so what it says to the coordinator, a trainer what it says to its agent. Message
// is the variant that travels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"

namespace shoal {

template <typename Message>
class Outbox {
 public:
  // Last words of dead replicas: at most `last_words_max`, the oldest go first.
  explicit Outbox(std::size_t last_words_max) : last_words_max_(last_words_max) {}

  // Replaces what this replica said of this kind before.
  void keep(ReplicaId replica, Message message, std::optional<Instant> said_at) {
    put({replica, false, std::move(message), said_at});
  }

  // ReplicaFailed and CheckpointFailed: what is said of a replica that has ended.
  void keep_last_words(ReplicaId replica, Message message, std::optional<Instant> said_at) {
    put({replica, true, std::move(message), said_at});
    const auto is_last = [](const Entry& entry) { return entry.last_words; };
    if (static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), is_last)) >
        last_words_max_) {
      entries_.erase(std::find_if(entries_.begin(), entries_.end(), is_last));
    }
  }

  void forget(ReplicaId replica) {  // all but its last words
    std::erase_if(entries_, [&](const Entry& e) { return e.replica == replica && !e.last_words; });
  }
  void forget_last_words(ReplicaId replica) {
    std::erase_if(entries_, [&](const Entry& e) { return e.replica == replica && e.last_words; });
  }

  // The stream broke: last words said before `settled` have arrived and are dropped.
  void link_lost(Instant settled) {
    std::erase_if(entries_, [&](const Entry& e) {
      return e.last_words && e.said_at && *e.said_at <= settled;
    });
  }

  // Everything kept, oldest first; all of it counts as said now.
  std::vector<Message> say_all(Instant now) {
    std::vector<Message> all;
    all.reserve(entries_.size());
    for (Entry& entry : entries_) {
      all.push_back(entry.message);
      entry.said_at = now;
    }
    return all;
  }

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    ReplicaId replica;
    bool last_words = false;
    Message message;
    std::optional<Instant> said_at;
    friend constexpr auto fields_of(Of<Entry>) {
      using T = Entry;
      return fields<&T::replica, &T::last_words, &T::message, &T::said_at>();
    }
  };
  friend FieldAccess;
  friend constexpr auto fields_of(Of<Outbox>) {
    using T = Outbox;
    return fields<&T::last_words_max_, &T::entries_>();
  }

  void put(Entry entry) {
    std::erase_if(entries_, [&](const Entry& other) {
      return other.replica == entry.replica && other.message.index() == entry.message.index();
    });
    entries_.push_back(std::move(entry));
  }

  std::size_t last_words_max_;
  std::vector<Entry> entries_;  // in the order of being said
};

}  // namespace shoal
