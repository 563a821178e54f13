// See replica_group.h.
#include "swarm/core/replica_group/replica_group.h"

#include <algorithm>

#include "base/check.h"

namespace shoal::swarm {
namespace {

using State = GroupMemberState;

bool may_move(State from, State to) {
  switch (to) {
    case State::kStarting:
      return false;
    case State::kIdle:
      return from != State::kGone;
    case State::kComputing:
      return from == State::kIdle;
    case State::kGave:
      return from == State::kComputing;
    case State::kAdded:
      return from == State::kGave;
    case State::kGone:
      return true;
  }
  return false;
}

}  // namespace

ReplicaGroup::ReplicaGroup(int size, std::int32_t library)
    : members_(static_cast<std::size_t>(size), State::kStarting),
      libraries_(static_cast<std::size_t>(size)) {
  SHOAL_CHECK(size >= 1);
  move(0, State::kIdle);
  libraries_[0] = library;
}

void ReplicaGroup::move(int rank, State to) {
  State& state = members_[static_cast<std::size_t>(rank)];
  SHOAL_CHECK(may_move(state, to), "a member of a replica group cannot do that now");
  state = to;
}

bool ReplicaGroup::in(int rank) const {
  return state(rank) != State::kStarting && state(rank) != State::kGone;
}

std::vector<int> ReplicaGroup::members() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (in(rank)) ranks.push_back(rank);
  }
  return ranks;
}

GroupSum ReplicaGroup::sum() const {
  const std::vector<int> ranks = members();
  const bool same = std::ranges::all_of(ranks, [this](int rank) {
    return libraries_[static_cast<std::size_t>(rank)] == libraries_[0];
  });
  const bool devices = libraries_[0] != 0 && same && ranks.size() > 1 && !add_failed_;
  return devices ? GroupSum::kDevices : GroupSum::kLeader;
}

void ReplicaGroup::joined(int rank, std::int32_t library) {
  SHOAL_CHECK(state(rank) == State::kStarting && !under_way_);
  move(rank, State::kIdle);
  libraries_[static_cast<std::size_t>(rank)] = library;
  add_failed_ = false;
  ++generation_;
}

// The step that was under way is void.
void ReplicaGroup::form_anew() {
  ++generation_;
  under_way_ = false;
  for (const int rank : members()) move(rank, State::kIdle);
}

void ReplicaGroup::lost(int rank) {
  SHOAL_CHECK(rank != 0, "the leader cannot lose itself");
  if (state(rank) == State::kGone) return;
  const bool was_in = in(rank);
  move(rank, State::kGone);
  if (!was_in) return;
  add_failed_ = false;
  form_anew();
}

void ReplicaGroup::add_failed() {
  SHOAL_CHECK(sum() == GroupSum::kDevices);
  add_failed_ = true;
  form_anew();
}

std::vector<GroupShare> ReplicaGroup::begin_step(std::int64_t first, std::int64_t count,
                                                 std::int64_t microbatch) {
  SHOAL_CHECK(!under_way_ && count > 0 && microbatch > 0);
  under_way_ = true;
  const std::vector<int> ranks = members();
  const auto parts = static_cast<std::int64_t>(ranks.size());
  const std::int64_t microbatches = (count + microbatch - 1) / microbatch;
  std::vector<GroupShare> shares(members_.size());
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t from = std::min(count, microbatches * i / parts * microbatch);
    const std::int64_t to = std::min(count, microbatches * (i + 1) / parts * microbatch);
    const int rank = ranks[static_cast<std::size_t>(i)];
    shares[static_cast<std::size_t>(rank)] = {first + from, to - from};
    move(rank, State::kComputing);
  }
  return shares;
}

void ReplicaGroup::gave(int rank) {
  SHOAL_CHECK(under_way_);
  move(rank, State::kGave);
}

void ReplicaGroup::added(int rank) {
  SHOAL_CHECK(under_way_ && all_gave() && sum() == GroupSum::kDevices);
  move(rank, State::kAdded);
}

bool ReplicaGroup::all(State state) const {
  return std::ranges::all_of(members(), [&](int rank) { return this->state(rank) == state; });
}

bool ReplicaGroup::all_gave() const {
  return under_way_ && std::ranges::none_of(members(), [this](int rank) {
           return state(rank) == State::kComputing;
         });
}

bool ReplicaGroup::complete() const {
  return under_way_ && all(sum() == GroupSum::kDevices ? State::kAdded : State::kGave);
}

void ReplicaGroup::step_taken() {
  SHOAL_CHECK(complete());
  under_way_ = false;
  for (const int rank : members()) move(rank, State::kIdle);
}

}  // namespace shoal::swarm
