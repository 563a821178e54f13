#include "agent/core/outbox.h"

#include <algorithm>

namespace shoal::agent {

void Outbox::keep(ReplicaId replica, FromAgent message, std::optional<Instant> said_at) {
  put({replica, false, std::move(message), said_at});
}

void Outbox::keep_last_words(ReplicaId replica, FromAgent message, std::optional<Instant> said_at) {
  put({replica, true, std::move(message), said_at});
  const auto is_last = [](const Entry& entry) { return entry.last_words; };
  if (static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), is_last)) >
      last_words_max_) {
    entries_.erase(std::find_if(entries_.begin(), entries_.end(), is_last));
  }
}

void Outbox::put(Entry entry) {
  std::erase_if(entries_, [&](const Entry& other) {
    return other.replica == entry.replica && other.message.index() == entry.message.index();
  });
  entries_.push_back(std::move(entry));
}

void Outbox::forget(ReplicaId replica) {
  std::erase_if(entries_, [&](const Entry& e) { return e.replica == replica && !e.last_words; });
}

void Outbox::forget_last_words(ReplicaId replica) {
  std::erase_if(entries_, [&](const Entry& e) { return e.replica == replica && e.last_words; });
}

void Outbox::link_lost(Instant settled) {
  std::erase_if(entries_,
                [&](const Entry& e) { return e.last_words && e.said_at && *e.said_at <= settled; });
}

std::vector<FromAgent> Outbox::say_all(Instant now) {
  std::vector<FromAgent> all;
  all.reserve(entries_.size());
  for (Entry& entry : entries_) {
    all.push_back(entry.message);
    entry.said_at = now;
  }
  return all;
}

void Outbox::add_to(Digester& digester) const {
  digester.add(static_cast<std::uint64_t>(entries_.size()));
  for (const Entry& entry : entries_) {
    digester.add(entry.replica.n)
        .add(entry.last_words)
        .add(static_cast<std::uint64_t>(entry.message.index()));
    digester.add(entry.said_at ? entry.said_at->ns : std::int64_t{-1});
  }
}

}  // namespace shoal::agent
