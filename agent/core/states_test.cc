// The tables, looked at as graphs: every state can be reached and left, and terminal ones stay.
#include "agent/core/states.h"

#include <set>

#include <gtest/gtest.h>

namespace shoal::agent {
namespace {

template <typename State, typename Event>
std::set<State> reachable(State start, State last_state, Event last_event) {
  std::set<State> seen{start};
  for (std::size_t before = 0; before != seen.size();) {
    before = seen.size();
    for (const State state : std::set<State>(seen)) {
      for (int e = 0; e <= static_cast<int>(last_event); ++e) {
        if (const auto to = transition(state, static_cast<Event>(e))) seen.insert(*to);
      }
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(last_state) + 1);
  return seen;
}

TEST(States, EveryStateIsReached) {
  reachable(DaemonState::kRunning, DaemonState::kStopped, DaemonEvent::kFinish);
  reachable(LinkState::kDown, LinkState::kActive, LinkEvent::kLost);
  reachable(TrainerState::kDown, TrainerState::kStopping, TrainerEvent::kExited);
  reachable(ReplicaState::kWaiting, ReplicaState::kGone, ReplicaEvent::kEnd);
  reachable(UploadState::kWriting, UploadState::kGone, UploadEvent::kDrop);
}

TEST(States, TerminalStatesStay) {
  EXPECT_FALSE(transition(DaemonState::kStopped, DaemonEvent::kStop));
  EXPECT_FALSE(transition(DaemonState::kStopped, DaemonEvent::kFinish));
  EXPECT_FALSE(transition(ReplicaState::kGone, ReplicaEvent::kLoad));
  EXPECT_FALSE(transition(UploadState::kGone, UploadEvent::kRetry));
}

TEST(States, RowsThatAreNotInTheTable) {
  EXPECT_FALSE(transition(LinkState::kActive, LinkEvent::kWelcome));
  EXPECT_FALSE(transition(TrainerState::kDown, TrainerEvent::kAttached));
  EXPECT_FALSE(transition(ReplicaState::kWaiting, ReplicaEvent::kLoaded));
  EXPECT_FALSE(transition(UploadState::kWriting, UploadEvent::kHashed));
}

TEST(States, Words) {
  EXPECT_STREQ(to_string(DaemonState::kDraining), "draining");
  EXPECT_STREQ(to_string(LinkState::kGreeting), "greeting");
  EXPECT_STREQ(to_string(TrainerState::kStopping), "stopping");
  EXPECT_STREQ(to_string(ReplicaState::kServing), "serving");
  EXPECT_STREQ(to_string(UploadState::kRetrying), "retrying");
  EXPECT_STREQ(to_string(UploadEvent::kDrop), "drop");
}

}  // namespace
}  // namespace shoal::agent
