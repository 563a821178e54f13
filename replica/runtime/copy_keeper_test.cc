#include "replica/runtime/copy_keeper.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "job/sync_spec_test_util.h"
#include "outer_opt/core/joining/joining_test_util.h"
#include "outer_opt/transport/state_join.h"
#include "replica/core/replica_test_util.h"
#include "threads/mutex.h"

namespace shoal::replica {
namespace {

constexpr std::int64_t kValues = 1'000;
constexpr ReplicaId kServes{1}, kKeeps{2}, kCopy{9};
constexpr StageIndex kStage = 1;
constexpr Duration kLong = seconds(30);

std::unique_ptr<outer_opt::PeerNode> start_node() {
  auto node = outer_opt::PeerNode::start({});
  EXPECT_TRUE(node.ok());
  return std::move(*node);
}

// A replica that serves a stage, at an address of its own.
class Stage {
 public:
  explicit Stage(const JobSpec& spec)
      : algorithm_(make_outer_algorithm(spec, {})), state_(algorithm_->zero_state(kValues)) {
    for (float& value : state_.anchor) value = drawn();
    publish();
    node_->set_state_handler([this](const outer_opt::StateAsk& ask) {
      const MutexLock lock(mutex_);
      states_asked_ += ask.kind == outer_opt::AskKind::kState;
      return *serves_.answer(ask, Instant{1});
    });
  }
  ~Stage() { node_->set_state_handler({}); }

  void commit() {
    const MutexLock lock(mutex_);
    ++key_.round;
    std::vector<float> average(kValues);
    for (float& value : average) value = 0.1f * drawn();
    take_step(*algorithm_, commit_of(key_.round, 0.7), {{0, kValues}}, average, state_);
    if (serves_.keeps_averages(Instant{1})) {
      serves_.averages().add({key_.round, 0, 0.7}, {{0, kValues}}, CodecKind::kFp32, {},
                             outer_opt::read_from(average));
    }
    publish_locked();
  }
  StageCopy order() {
    const MutexLock lock(mutex_);
    const StateDigests digests = digests_of(state_);
    return {kCopy,
            kStage,
            kValues,
            key_,
            digests.anchor,
            digests.momentum,
            {{kServes, node_->address()}}};
  }
  int states_asked() {
    const MutexLock lock(mutex_);
    return states_asked_;
  }
  std::vector<float> anchor() {
    const MutexLock lock(mutex_);
    return state_.anchor;
  }

 private:
  float drawn() { return static_cast<float>(prng_.normal()); }
  void publish() {
    const MutexLock lock(mutex_);
    publish_locked();
  }
  void publish_locked() SHOAL_REQUIRES(mutex_) {
    serves_.publish(kServes, held_state(key_, std::make_shared<const OuterState>(state_)));
  }

  const std::unique_ptr<outer_opt::PeerNode> node_ = start_node();
  Mutex mutex_;
  Prng prng_{7};
  std::unique_ptr<OuterAlgorithm> algorithm_;
  OuterState state_;
  RoundKey key_{JobId(1), 0, 3};
  outer_opt::StateSource serves_;
  int states_asked_ = 0;
};

class CopyKeeperTest : public testing::Test {
 protected:
  CopyKeeperTest() {
    spec_.sync = {};
    spec_.swarm.stages = 2;
    stage_.emplace(spec_);
    node_->set_state_handler(
        [this](const outer_opt::StateAsk& ask) { return state_server_.answer(ask); });
  }
  ~CopyKeeperTest() override { node_->set_state_handler({}); }

  void keep(const KeepCopies& orders) { keeper_.keep(kKeeps, spec_, orders); }
  // What is said next.
  CopiesHeld hear() {
    const auto event = queue_.pop(kLong);
    if (!event || !std::holds_alternative<CopiesKept>(*event)) {
      ADD_FAILURE() << "nothing was said";
      return {};
    }
    EXPECT_EQ(std::get<CopiesKept>(*event).keeper, kKeeps);
    return std::get<CopiesKept>(*event).held;
  }
  static CopiesHeld held(const StageCopy& order) {
    return {{{order.copy, order.key, order.anchor, order.momentum}}};
  }
  // As a joiner of the stage: the state that the copy gives.
  std::vector<float> join(const StageCopy& order) {
    const auto algorithm = make_outer_algorithm(spec_, {});
    OuterState state = algorithm->zero_state(kValues);
    outer_opt::MomentsCopy moments;
    OuterStateTarget target(*algorithm, state, moments);
    outer_opt::JoinOptions options;
    options.broken = seconds(5);
    outer_opt::JoinSession session(order.key, join_shape(*algorithm, state, {{{0, kValues}}}, 0),
                                   {{kCopy, node_->address()}}, target, options, 1, Instant{1});
    outer_opt::JoinNews news;
    const auto other = start_node();
    const Status joined = other->join(session, news, [](const auto&) {}, {});
    EXPECT_TRUE(joined.ok()) << to_string(joined.error());
    EXPECT_EQ(digests_of(state), (StateDigests{order.anchor, order.momentum}));
    return state.anchor;
  }

  JobSpec spec_;
  std::optional<Stage> stage_;
  EventQueue queue_{16};
  const std::unique_ptr<outer_opt::PeerNode> node_ = start_node();
  StateServer state_server_{[] {}};
  CopyKeeper keeper_{*node_, queue_, state_server_};
};

TEST_F(CopyKeeperTest, FetchesACopyAndGivesItToAJoiner) {
  const StageCopy order = stage_->order();
  keep({{order}});
  EXPECT_EQ(hear(), CopiesHeld()) << "answered before it is here";
  EXPECT_EQ(hear(), held(order));
  EXPECT_EQ(join(order), stage_->anchor());
}

TEST_F(CopyKeeperTest, FollowsACommitByItsAverage) {
  keep({{stage_->order()}});
  hear();
  EXPECT_EQ(hear(), held(stage_->order()));
  const int asked = stage_->states_asked();
  stage_->commit();
  const StageCopy order = stage_->order();
  keep({{order}});
  EXPECT_EQ(hear(), CopiesHeld()) << "the round before is not what counts now";
  EXPECT_EQ(hear(), held(order));
  EXPECT_EQ(stage_->states_asked(), asked);
  EXPECT_EQ(join(order), stage_->anchor());
}

TEST_F(CopyKeeperTest, OutlivesItsSources) {
  StageCopy order = stage_->order();
  keep({{order}});
  hear();
  hear();
  const std::vector<float> anchor = stage_->anchor();
  stage_.reset();
  order.sources.clear();
  keep({{order}});
  EXPECT_EQ(hear(), held(order));
  EXPECT_EQ(join(order), anchor);
}

TEST_F(CopyKeeperTest, DropsWhatIsNotNamedAnyMore) {
  keep({{stage_->order()}});
  hear();
  hear();
  keep({});
  EXPECT_EQ(hear(), CopiesHeld());
  const outer_opt::StateAsk ask{kCopy, stage_->order().key, outer_opt::AskKind::kState, {0, 10}};
  EXPECT_EQ(state_server_.answer(ask).refusal, outer_opt::StateRefusal::kNotHere);
}

TEST_F(CopyKeeperTest, BeginsAnewAfterAStateThatWasNotCommitted) {
  StageCopy wrong = stage_->order();
  ++wrong.anchor.low;
  keep({{wrong}});
  EXPECT_EQ(hear(), CopiesHeld());
  const StageCopy order = stage_->order();
  keep({{order}});
  EXPECT_EQ(hear(), CopiesHeld());
  EXPECT_EQ(hear(), held(order));
}

}  // namespace
}  // namespace shoal::replica
