// What an end of a communicator does: made, used, given up, and made again, in every order.
#include "swarm/core/replica_group/group_communicator.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "swarm/core/replica_group/replica_group.h"

namespace shoal::swarm {
namespace {

constexpr Duration kLimit = seconds(60);

Instant at(std::int64_t second) { return Instant{} + seconds(second); }

TEST(GroupCommunicator, IsFormedAndUsedAgainAndAgain) {
  GroupCommunicator group(kLimit);
  group.form(at(0), {1, 0, 2});
  EXPECT_EQ(group.heard(at(1), GroupProgress::kWaiting, false), GroupVerdict::kWait);
  EXPECT_FALSE(group.ready(1));
  EXPECT_EQ(group.heard(at(2), GroupProgress::kDone, false), GroupVerdict::kDone);
  EXPECT_TRUE(group.ready(1));
  EXPECT_FALSE(group.ready(2)) << "it is of one generation";
  for (int step = 0; step < 3; ++step) {
    group.add(at(100 * step));
    EXPECT_EQ(group.heard(at(100 * step + 59), GroupProgress::kWaiting, false),
              GroupVerdict::kWait);
    EXPECT_EQ(group.heard(at(100 * step + 61), GroupProgress::kDone, false), GroupVerdict::kDone);
    EXPECT_TRUE(group.ready(1));
  }
}

TEST(GroupCommunicator, EveryWaitEndsOneWayOrAnother) {
  struct Case {
    std::int64_t second;
    GroupProgress progress;
    bool interrupted;
    GroupVerdict verdict;
  };
  const Case cases[] = {
      {1, GroupProgress::kFailed, false, GroupVerdict::kFailed},
      {1, GroupProgress::kFailed, true, GroupVerdict::kFailed},
      {1, GroupProgress::kWaiting, true, GroupVerdict::kInterrupted},
      {60, GroupProgress::kWaiting, false, GroupVerdict::kLate},
      {60, GroupProgress::kWaiting, true, GroupVerdict::kInterrupted},
  };
  for (const bool adding : {false, true}) {
    for (const Case& one : cases) {
      GroupCommunicator group(kLimit);
      group.form(at(0), {3, 1, 2});
      if (adding) {
        group.heard(at(0), GroupProgress::kDone, false);
        group.add(at(0));
      }
      EXPECT_EQ(group.heard(at(one.second), one.progress, one.interrupted), one.verdict)
          << to_string(one.verdict);
      EXPECT_EQ(group.state(), GroupState::kNone) << "it is to be made again";
      group.form(at(70), {4, 0, 1});
      EXPECT_EQ(group.heard(at(71), GroupProgress::kDone, true), GroupVerdict::kDone);
      EXPECT_TRUE(group.ready(4));
    }
  }
}

// ---- a replica group of such ends

// The library as it is: a communicator is there when all of its ranks began to make it, a sum when
// all ranks began to add, and nobody is told of the dead.
class Harness {
 public:
  Harness(int size, int victim, int moment)
      : replica_group_(size, 1), victim_(victim), moment_(moment) {
    for (int rank = 1; rank < size; ++rank) replica_group_.joined(rank, 1);
    ends_.assign(static_cast<std::size_t>(size), GroupCommunicator(kLimit));
    dead_.resize(static_cast<std::size_t>(size));
  }

  // One step of the replica group, begun again as often as it is void; how often that was.
  int step() {
    for (int times = 0;; ++times) {
      EXPECT_LT(times, 3) << "one death voids one step";
      learn_of_the_dead();
      if (replica_group_.members().size() == 1) return times;
      if (!form()) continue;
      replica_group_.begin_step(0, 8, 1);
      for (const int rank : replica_group_.members()) replica_group_.gave(rank);
      if (!add()) continue;
      EXPECT_TRUE(replica_group_.complete());
      replica_group_.step_taken();
      return times;
    }
  }
  bool over() const { return moment_ < 0; }
  const ReplicaGroup& replica_group() const { return replica_group_; }

 private:
  GroupCommunicator& end(int rank) { return ends_[static_cast<std::size_t>(rank)]; }
  bool dead(int rank) const { return dead_[static_cast<std::size_t>(rank)]; }
  void pass_moment(int rank) {
    if (rank == victim_ && moment_-- == 0) dead_[static_cast<std::size_t>(rank)] = true;
  }
  void learn_of_the_dead() {
    for (int rank = 1; rank < replica_group_.size(); ++rank) {
      if (dead(rank)) replica_group_.lost(rank);
    }
  }

  bool form() {
    if (end(0).ready(replica_group_.generation())) return true;
    const std::vector<int> ranks = replica_group_.members();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      pass_moment(ranks[i]);
      if (dead(ranks[i])) continue;
      end(ranks[i]).leave();
      end(ranks[i]).form(
          now_, {replica_group_.generation(), static_cast<int>(i), static_cast<int>(ranks.size())});
    }
    return all_end(ranks, [](int) {});
  }
  bool add() {
    const std::vector<int> ranks = replica_group_.members();
    for (const int rank : ranks) {
      pass_moment(rank);
      if (!dead(rank)) end(rank).add(now_);
    }
    return all_end(ranks, [this](int rank) { replica_group_.added(rank); });
  }
  // The operation ends for all, or for nobody: then the leader sees who is dead, and the others
  // hear of it.
  template <typename Done>
  bool all_end(const std::vector<int>& ranks, Done done) {
    bool complete = true;
    for (const int rank : ranks) complete = complete && !dead(rank);
    for (const int rank : ranks) {
      if (dead(rank)) continue;
      now_ = now_ + seconds(1);
      const auto progress = complete ? GroupProgress::kDone : GroupProgress::kWaiting;
      const GroupVerdict verdict = end(rank).heard(now_, progress, !complete);
      EXPECT_EQ(verdict, complete ? GroupVerdict::kDone : GroupVerdict::kInterrupted);
      if (!complete) continue;
      pass_moment(rank);  // it has the sum, and dies before it says so
      if (dead(rank)) complete = false;
      if (complete) done(rank);
    }
    return complete;
  }

  ReplicaGroup replica_group_;
  std::vector<GroupCommunicator> ends_;
  std::vector<bool> dead_;
  const int victim_;
  int moment_;
  Instant now_;
};

TEST(GroupCommunicator, ADeathAtAnyMomentCostsOneStepThatIsTakenAgain) {
  for (const int size : {2, 3, 5}) {
    for (int victim = 1; victim < size; ++victim) {
      for (int moment = 0;; ++moment) {
        Harness harness(size, victim, moment);
        int voided = 0;
        for (int step = 0; step < 3; ++step) voided += harness.step();
        if (!harness.over()) break;  // there are no more moments
        EXPECT_EQ(voided, 1) << "rank " << victim << " of " << size << ", moment " << moment;
        EXPECT_EQ(harness.replica_group().members().size(), static_cast<std::size_t>(size) - 1);
      }
    }
  }
}

}  // namespace
}  // namespace shoal::swarm
