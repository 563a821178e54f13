#include "swarm/core/session/round_progress.h"

#include <algorithm>

namespace shoal::swarm {

RoundProgress::News RoundProgress::hear(const ProgressGossip& gossip, RoundNumber held) {
  if (gossip.round <= held) return News::kNone;
  if (gossip.round > held + 1) {
    keep_for_later(gossip);
    return News::kNone;
  }
  const bool further = gossip.step > heard_;
  heard_ = std::max(heard_, gossip.step);
  if (merge(gossip.routers)) return News::kRouters;
  return further ? News::kStep : News::kNone;
}

bool RoundProgress::merge(const std::vector<RouterProgress>& told) {
  bool grew = false;
  for (RouterProgress p : told) {
    if (p.router == self_) continue;
    p.last = ended(p);  // false when it belongs to an earlier opening
    RouterProgress& mine = routers_[p.router];
    const bool newer = p.done_through > mine.done_through;
    if (!newer && !(p.done_through == mine.done_through && p.last && !mine.last)) continue;
    mine = p;
    grew = true;
  }
  return grew;
}

void RoundProgress::keep_for_later(const ProgressGossip& gossip) {
  if (gossip.round < ahead_.round) return;
  if (gossip.round > ahead_.round) {
    ahead_ = gossip;
    return;
  }
  ahead_.step = std::max(ahead_.step, gossip.step);
  std::vector<RouterProgress>& routers = ahead_.routers;
  routers.insert(routers.end(), gossip.routers.begin(), gossip.routers.end());
  std::sort(routers.begin(), routers.end(), [](const auto& a, const auto& b) {
    return a.router != b.router ? a.router < b.router : a.done_through > b.done_through;
  });
  const auto same = [](const auto& a, const auto& b) { return a.router == b.router; };
  routers.erase(std::unique(routers.begin(), routers.end(), same), routers.end());
}

void RoundProgress::begin(std::int64_t step) {
  from_ = step;
  for (auto& [id, p] : routers_) p.last = ended(p);
  heard_ = std::max(heard_, step);
}

void RoundProgress::next_round(RoundNumber held) {
  from_ = 0;
  heard_ = -1;
  routers_.clear();
  if (ahead_.round != held + 1) return;
  heard_ = ahead_.step;
  merge(ahead_.routers);
}

void RoundProgress::forget(ReplicaId router) {
  const RouterProgress* p = routers_.find(router);
  if (p != nullptr && !ended(*p)) routers_.erase(router);
}

void RoundProgress::done(std::int64_t step, bool last) { routers_.put(self_, {self_, step, last}); }

void RoundProgress::catch_up(std::int64_t step, bool last) {
  RouterProgress& own = routers_[self_];
  own.router = self_;
  if (!ended(own) && own.done_through < step) own = {self_, step, last};
}

bool RoundProgress::all_done(const std::vector<ReplicaId>& routers, std::int64_t step) const {
  return !routers.empty() && std::all_of(routers.begin(), routers.end(), [&](ReplicaId id) {
    const RouterProgress* p = routers_.find(id);
    return p != nullptr && (p->done_through >= step || ended(*p));
  });
}

bool RoundProgress::all_ended(const std::vector<ReplicaId>& routers, std::int64_t step) const {
  return !routers.empty() && std::all_of(routers.begin(), routers.end(), [&](ReplicaId id) {
    const RouterProgress* p = routers_.find(id);
    return p != nullptr && ended(*p) && p->done_through < step;
  });
}

bool RoundProgress::is_through(ReplicaId router, std::int64_t step) const {
  const RouterProgress* p = routers_.find(router);
  return p != nullptr && p->done_through >= step;
}

std::optional<std::int64_t> RoundProgress::first_end(std::int64_t step) const {
  std::optional<std::int64_t> first;
  for (const auto& [id, p] : routers_) {
    if (!ended(p) || p.done_through > step) continue;
    first = std::min(first.value_or(p.done_through), p.done_through);
  }
  return first;
}

std::int64_t RoundProgress::own_done() const {
  const RouterProgress* own = routers_.find(self_);
  return own == nullptr ? -1 : own->done_through;
}

bool RoundProgress::own_last() const {
  const RouterProgress* own = routers_.find(self_);
  return own != nullptr && ended(*own);
}

ProgressGossip RoundProgress::gossip(RoundNumber round, std::int64_t step) const {
  ProgressGossip gossip{round, step, {}};
  for (const auto& [id, p] : routers_) gossip.routers.push_back(p);
  return gossip;
}

bool RoundProgress::is_known_to_sender_of(const ProgressGossip& gossip) const {
  auto it = gossip.routers.begin();
  for (const auto& [id, mine] : routers_) {
    while (it != gossip.routers.end() && it->router < id) ++it;
    if (it == gossip.routers.end() || it->router != id) return false;
    if (it->done_through < mine.done_through || (mine.last && !it->last)) return false;
  }
  return true;
}

}  // namespace shoal::swarm
