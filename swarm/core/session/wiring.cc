// An indexed binary heap of the replicas that may be chosen. A replica that comes back into the
// heap does not keep the virtual time it had: at least the floor, or it would get all it missed at
// once.
#include "swarm/core/session/wiring.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace shoal::swarm {

std::int32_t credits_for(Duration service, Duration round_trip, Duration transfer) {
  if (service.ns <= 0) return kCreditsMax;
  const double busy =
      static_cast<double>((round_trip + transfer * 2).ns) / static_cast<double>(service.ns);
  const double wanted = kCreditsMin + std::ceil(busy);
  return static_cast<std::int32_t>(
      std::clamp(wanted, static_cast<double>(kCreditsMin), static_cast<double>(kCreditsMax)));
}

std::int32_t ample_credits(double window, std::int32_t senders, double share) {
  SHOAL_CHECK(window >= 0 && senders > 0 && share >= 0 && share <= 1);
  const double wanted = std::ceil(2 * window * share / senders);
  return std::max(kCreditsMin, static_cast<std::int32_t>(std::min(wanted, 1e6)));
}

Wiring::Wiring(std::uint64_t seed) : prng_(seed) {}

void Wiring::add(ReplicaId id, Duration service_per_work, std::int32_t credits) {
  SHOAL_CHECK(credits > 0 && service_per_work.ns >= 0 && !index_.contains(id));
  const auto at = static_cast<std::int32_t>(slots_.size());
  Slot slot{.id = id,
            .virtual_time = floor_,
            .service = service_per_work.seconds(),
            .tie = prng_.next(),
            .credits = credits};
  if (slot.service > 0) known_sum_ += slot.service, ++known_;
  slots_.push_back(slot);
  index_[id] = at;
  refresh(slots_.back());
}

void Wiring::remove(ReplicaId id) {
  Slot* gone = find(id);
  if (gone == nullptr) return;
  const auto at = static_cast<std::int32_t>(gone - slots_.data());
  if (gone->heap_at >= 0) heap_erase(at);
  if (gone->service > 0) known_sum_ -= gone->service, --known_;
  index_.erase(id);
  const auto last = static_cast<std::int32_t>(slots_.size()) - 1;
  if (at != last) {
    slots_[at] = slots_[last];
    index_[slots_[at].id] = at;
    if (slots_[at].heap_at >= 0) heap_[slots_[at].heap_at] = at;
  }
  slots_.pop_back();
}

void Wiring::ban(ReplicaId id) {
  if (Slot* slot = find(id)) slot->banned = true, refresh(*slot);
}

void Wiring::unban(ReplicaId id) {
  if (Slot* slot = find(id)) slot->banned = false, refresh(*slot);
}

void Wiring::set_credits(ReplicaId id, std::int32_t credits) {
  SHOAL_CHECK(credits > 0);
  if (Slot* slot = find(id)) slot->credits = credits, refresh(*slot);
}

void Wiring::expect(ReplicaId id, Duration service_per_work) {
  Slot* slot = find(id);
  if (slot == nullptr || service_per_work.ns <= 0) return;
  if (slot->service > 0) known_sum_ -= slot->service, --known_;
  slot->service = service_per_work.seconds();
  known_sum_ += slot->service;
  ++known_;
}

std::optional<ReplicaId> Wiring::choose(double work) {
  if (heap_.empty()) return std::nullopt;
  const std::int32_t at = heap_.front();
  Slot& slot = slots_[at];
  floor_ = std::max(floor_, slot.virtual_time);
  slot.virtual_time += work * estimate(slot);
  ++slot.in_flight;
  if (slot.in_flight >= slot.credits) {
    heap_erase(at);
  } else {
    sift_down(slot.heap_at);
  }
  return slot.id;
}

void Wiring::report(ReplicaId id, Duration service, double work) {
  Slot* slot = find(id);
  if (slot == nullptr || work <= 0 || service.ns <= 0) return;
  const double measured = service.seconds() / work;
  if (slot->service <= 0) {
    slot->service = measured;
    known_sum_ += measured;
    ++known_;
    return;
  }
  known_sum_ -= slot->service;
  slot->service += kServiceEma * (measured - slot->service);
  known_sum_ += slot->service;
}

void Wiring::give_back(ReplicaId id) {
  Slot* slot = find(id);
  if (slot == nullptr || slot->in_flight == 0) return;
  --slot->in_flight;
  refresh(*slot);
}

Duration Wiring::service_per_work(ReplicaId id) const {
  const std::int32_t* at = index_.find(id);
  return at == nullptr ? Duration{} : seconds_f(estimate(slots_[*at]));
}

double Wiring::estimate(const Slot& slot) const {
  if (slot.service > 0) return slot.service;
  return known_ > 0 ? known_sum_ / known_ : 1;
}

Wiring::Slot* Wiring::find(ReplicaId id) {
  const std::int32_t* at = index_.find(id);
  return at == nullptr ? nullptr : &slots_[*at];
}

void Wiring::refresh(Slot& slot) {
  const auto at = static_cast<std::int32_t>(&slot - slots_.data());
  const bool wanted = !slot.banned && slot.in_flight < slot.credits;
  if (wanted && slot.heap_at < 0) {
    slot.virtual_time = std::max(slot.virtual_time, floor_);
    heap_insert(at);
  } else if (!wanted && slot.heap_at >= 0) {
    heap_erase(at);
  }
}

bool Wiring::before(std::int32_t a, std::int32_t b) const {
  const Slot &x = slots_[a], &y = slots_[b];
  return x.virtual_time != y.virtual_time ? x.virtual_time < y.virtual_time : x.tie < y.tie;
}

void Wiring::place(std::size_t at, std::int32_t slot) {
  heap_[at] = slot;
  slots_[slot].heap_at = static_cast<std::int32_t>(at);
}

void Wiring::sift_up(std::size_t at) {
  const std::int32_t slot = heap_[at];
  for (; at > 0 && before(slot, heap_[(at - 1) / 2]); at = (at - 1) / 2) {
    place(at, heap_[(at - 1) / 2]);
  }
  place(at, slot);
}

void Wiring::sift_down(std::size_t at) {
  const std::int32_t slot = heap_[at];
  for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], slot)) break;
    place(at, heap_[child]);
    at = child;
  }
  place(at, slot);
}

void Wiring::heap_insert(std::int32_t slot) {
  heap_.push_back(slot);
  slots_[slot].heap_at = static_cast<std::int32_t>(heap_.size()) - 1;
  sift_up(heap_.size() - 1);
}

void Wiring::heap_erase(std::int32_t slot) {
  const auto at = static_cast<std::size_t>(slots_[slot].heap_at);
  const std::int32_t last = heap_.back();
  heap_.pop_back();
  slots_[slot].heap_at = -1;
  if (last == slot) return;
  place(at, last);
  sift_up(at);
  sift_down(static_cast<std::size_t>(slots_[last].heap_at));
}

}  // namespace shoal::swarm
