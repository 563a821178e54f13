// A joiner, or the source that gives it state, dies at each message of a join: for every kind of
// round of docs/joining.md, at each message between the two and at each word of the coordinator
// meanwhile. The job continues, nothing is rolled back, and all three replicas contribute in the
// end.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;

enum class Victim { kNobody, kJoiner, kSource };

struct Kind {
  const char* name;
  std::function<void(SyncSpec&)> set;
};

std::vector<Kind> kinds() {
  return {
      {"diloco", [](SyncSpec&) {}},
      {"fragments",
       [](SyncSpec& sync) {
         sync.every = Steps(6);
         sync.fragments = 2;
       }},
      {"local_sgd",
       [](SyncSpec& sync) {
         sync.algorithm = SyncAlgorithm::kLocalSgd;
         sync.outer.lr = 1;
         sync.outer.momentum = 0;
       }},
      {"sparse2",
       [](SyncSpec& sync) {
         sync.codec = CodecKind::kSparse2;
         sync.topology = Topology::kAllgather;
         sync.outer.lr = 1;
         sync.outer.momentum = 0;
       }},
      {"sharded", [](SyncSpec& sync) { sync.outer_state = OuterState::kSharded; }},
      {"async", [](SyncSpec& sync) { sync.algorithm = SyncAlgorithm::kAsync; }},
      {"ddp",
       [](SyncSpec& sync) {
         sync.algorithm = SyncAlgorithm::kDdp;
         sync.outer.lr = 1;
         sync.outer.momentum = 0;
         sync.every = Steps(1);
       }},
      {"groups",
       [](SyncSpec& sync) {
         sync.topology = Topology::kGossip;
         sync.codec = CodecKind::kFp32;
         sync.outer.momentum = 0.5;
       }},
  };
}

// Counts what happens from the joiner's first request to its first contribution, and lets somebody
// die right after message number `at`.
class Reaper final : public Observer {
 public:
  Reaper(Cluster& cluster, Victim victim, int at) : cluster_(cluster), victim_(victim), at_(at) {
    cluster.world().sim().ambush = this;
  }
  ~Reaper() override { cluster_.world().sim().ambush = nullptr; }
  Reaper(const Reaper&) = delete;

  void state_moved(const StateMoved& moved) override {
    if (!joiner_) joiner_ = moved.joiner;
    if (moved.joiner != joiner_) return;  // one that came after the kill
    source_ = moved.source;
    count();
  }
  void sent(const Sent&, const Tables&) override {
    if (joiner_) count();
  }
  void contributed(const Contributed& c) override { in_ = in_ || c.replica == joiner_; }

  int messages() const { return messages_; }
  bool struck() const { return struck_; }
  bool joiner_is_in() const { return in_; }

 private:
  void count() {
    if (in_ || struck_ || messages_++ != at_ || victim_ == Victim::kNobody) return;
    struck_ = true;
    // Not from within what the victim is doing.
    cluster_.world().sim().queue.after(Duration{}, [this] { strike(); });
  }
  void strike() {
    World& world = cluster_.world();
    if (victim_ == Victim::kJoiner) {
      if (Trainer* joiner = world.trainer_of(joiner_)) joiner->kill(9);
    } else if (PeerEnd* source = world.peers().find(source_)) {
      static_cast<Trainer*>(source)->kill(9);
    }
  }

  Cluster& cluster_;
  const Victim victim_;
  const int at_;
  int messages_ = 0;
  bool struck_ = false, in_ = false;
  ReplicaId joiner_;
  std::string source_;  // asked last
};

// Three replicas, and what each of them trained counts in a round after `then`; with `async` not
// in the same one.
bool all_contribute_after(Cluster& cluster, RoundNumber then) {
  const auto& tables = cluster.world().tables();
  std::set<ReplicaId> counted;
  for (const auto& [key, contribution] : tables.contributions) {
    const bool counts = contribution.state == ContributionState::kCommitted;
    if (counts && key.first.round > then) counted.insert(key.second);
  }
  int present = 0;
  for (const auto& [id, replica] : tables.replicas) {
    const bool here = replica.state == coordinator::ReplicaState::kServing ||
                      replica.state == coordinator::ReplicaState::kAveraging;
    present += here && counted.contains(id);
  }
  return present == 3;
}

struct Told {
  int messages = 0;
  bool struck = false;
};

// Three replicas train; one ends, and the next one on its device joins.
Told play(const Kind& kind, Victim victim, int at) {
  Cluster cluster(3, 7);
  JobSpec spec = Cluster::small_job(1000);
  spec.model.layers = 2;  // a fragment has one at least
  spec.swarm.min_replicas = 1;
  change_sync(spec, kind.set);
  cluster.submit(spec);
  if (!cluster.until_round(2)) {
    ADD_FAILURE() << "it does not train " << cluster.objection();
    return {};
  }
  Reaper reaper(cluster, victim, at);
  cluster.host(2).trainers().front()->kill(9);
  const auto over = [&] {
    return victim == Victim::kNobody ? reaper.joiner_is_in() : reaper.struck();
  };
  EXPECT_TRUE(cluster.until(over)) << cluster.objection();
  const RoundNumber then = cluster.job()->committed_round;
  EXPECT_TRUE(cluster.until([&] { return all_contribute_after(cluster, then); }))
      << cluster.objection();
  EXPECT_EQ(cluster.job()->epoch, 0) << "it went back";
  return {reaper.messages(), reaper.struck()};
}

class JoinKills : public testing::TestWithParam<Kind> {};

TEST_P(JoinKills, AtEachMessageAndTheJoinEndsWell) {
  const int messages = play(GetParam(), Victim::kNobody, 0).messages;
  ASSERT_GT(messages, 10);
  for (const Victim victim : {Victim::kJoiner, Victim::kSource}) {
    for (int at = 0; at < messages && !HasFailure(); ++at) {
      SCOPED_TRACE((victim == Victim::kJoiner ? "the joiner dies at message "
                                              : "its source dies at message ") +
                   std::to_string(at) + " of " + std::to_string(messages));
      EXPECT_TRUE(play(GetParam(), victim, at).struck);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachKindOfRound, JoinKills, testing::ValuesIn(kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace shoal::sim
