// Sources and a joiner on loopback: the session comes to the state, and what goes wrong on the way
// ends in a new try, another source or a sentence.
#include "outer_opt/transport/state_join.h"

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "outer_opt/core/joining/joining_test_util.h"
#include "outer_opt/transport/peer_node.h"
#include "outer_opt/transport/state_wire.h"
#include "threads/clock.h"
#include "threads/mutex.h"
#include "wire/emulated_line.h"

namespace shoal::outer_opt {
namespace {

constexpr StageSetup kSetup{.values = 600'001, .codec = CodecKind::kInt8};

// Two sources of one stage, each a node of its own.
class StateJoin : public testing::Test {
 protected:
  StateJoin() {
    for (int i = 0; i < 2; ++i) {
      nodes_.push_back(PeerNode::start({}).value());
      nodes_.back()->set_state_handler([this, i](const StateAsk& ask) {
        const MutexLock lock(mutex_);
        ++asked_[static_cast<std::size_t>(i)];
        StateAnswer answer = *sources_[static_cast<std::size_t>(i)].answer(ask, {});
        if (spoil_) spoil_(i, answer);
        return answer;
      });
    }
    stage_.publish(pointers());
  }
  ~StateJoin() override { nodes_.clear(); }

  std::vector<StateSource*> pointers() { return {&sources_[0], &sources_[1]}; }
  void step() {
    const MutexLock lock(mutex_);
    stage_.step(pointers(), {});
  }
  std::vector<PeerAddress> names() const {
    return {{ReplicaId(1), nodes_[0]->address()}, {ReplicaId(2), nodes_[1]->address()}};
  }
  JoinSession session(JoinOptions options = {}) {
    const std::int64_t vectors = 2;
    return JoinSession(
        {JobId(1), 0, 0},
        {.values = kSetup.values, .vectors = vectors, .fragments = stage_.fragments()}, names(),
        target_, options, 1, steady());
  }
  static Instant steady() { return steady_now(); }
  Status join(JoinSession& session, std::stop_token stop = {}) {
    return joiner_->join(
        session, news_, [this](const auto& s) { done_ = s.done().count(); }, stop);
  }
  bool equal() {
    const MutexLock lock(mutex_);
    return target_.anchor == stage_.state().anchor && target_.momentum == stage_.state().momentum;
  }

  Mutex mutex_;
  TestStage stage_{kSetup};
  StateSource sources_[2] SHOAL_GUARDED_BY(mutex_);
  int asked_[2] = {0, 0};
  std::function<void(int, StateAnswer&)> spoil_;
  std::vector<std::unique_ptr<PeerNode>> nodes_;
  std::unique_ptr<PeerNode> joiner_ = PeerNode::start({}).value();
  TestTarget target_{kSetup.values};
  JoinNews news_;
  std::atomic<std::int64_t> done_ = 0;
};

TEST_F(StateJoin, ComesFromBothSources) {
  JoinSession s = session();
  const Status status = join(s);
  ASSERT_TRUE(status.ok()) << to_string(status.error());
  EXPECT_TRUE(equal());
  EXPECT_GT(asked_[0], 2);
  EXPECT_GT(asked_[1], 2);
  EXPECT_EQ(done_, s.total().count());
}

TEST_F(StateJoin, FollowsTheRoundsOverASlowLine) {
  PeerNodeOptions options;
  options.line = std::make_shared<wire::EmulatedLine>(parse_link("down=20mbit").value());
  joiner_ = PeerNode::start(options).value();
  std::jthread rounds([this](std::stop_token stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      step();
    }
  });
  JoinSession s = session();
  ASSERT_TRUE(join(s).ok());
  rounds.request_stop();
  rounds.join();
  news_.aim(stage_.round(), names());
  ASSERT_TRUE(join(s).ok());
  EXPECT_EQ(s.round(), stage_.round());
  EXPECT_GT(stage_.round(), 1);
  EXPECT_TRUE(equal());
}

TEST_F(StateJoin, DropsASourceWhoseBytesAreNotWhatItSaid) {
  spoil_ = [](int source, StateAnswer& answer) {
    if (source == 0 && answer.values.size() > 1) answer.values.pop_back();
  };
  JoinSession s = session();
  ASSERT_TRUE(join(s).ok());
  EXPECT_TRUE(equal());
}

TEST_F(StateJoin, GoesOnWithTheOtherSourceWhenOneIsGone) {
  nodes_[0].reset();
  const std::string gone = "127.0.0.1:1";
  JoinSession s({JobId(1), 0, 0}, {.values = kSetup.values, .fragments = stage_.fragments()},
                {{ReplicaId(1), gone}, {ReplicaId(2), nodes_[1]->address()}}, target_, {}, 1,
                steady());
  ASSERT_TRUE(join(s).ok());
  EXPECT_TRUE(equal());
}

TEST_F(StateJoin, GivesUpWithASentenceWhenNobodyAnswers) {
  nodes_[0]->set_state_handler({});
  nodes_[1]->set_state_handler({});
  JoinOptions options;
  options.broken = milliseconds(500);
  JoinSession s = session(options);
  const Status status = join(s);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kNotFound) << to_string(status.error());
}

TEST_F(StateJoin, EndsAtOnceWhenItIsStopped) {
  spoil_ = [](int, StateAnswer&) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  JoinSession s = session();
  std::stop_source stop;
  auto running = std::async(std::launch::async, [&] { return join(s, stop.get_token()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  stop.request_stop();
  EXPECT_EQ(running.get().error().code, Code::kCancelled);
}

// A member may need the momentum for the very reduce that the asks of joiners wait for.
TEST_F(StateJoin, AsksThatWaitLeaveOthersTheirThreads) {
  constexpr int kAsks = 80;  // more than there are threads for one kind of stream
  std::promise<void> over;
  const std::shared_future<void> wait = over.get_future().share();
  std::atomic<int> waiting = 0;
  nodes_[0]->set_state_handler([&](const StateAsk&) {
    ++waiting;
    wait.wait();
    return StateAnswer{.refusal = StateRefusal::kNotHere};
  });
  nodes_[0]->set_momentum_handler(
      [](ReplicaId, const RoundKey&, const ValueRange&, const auto& send) -> Status {
        send(std::vector<float>(8, 1.5f));
        return {};
      });
  const PeerAddress source = names()[0];
  std::vector<std::jthread> joiners;
  for (int i = 0; i < kAsks; ++i) {
    joiners.emplace_back([&](std::stop_token stop) {
      TestTarget target(8);
      JoinNews news;
      JoinSession one({JobId(1), 0, 0}, {.values = 8}, {source}, target, {}, 1, steady());
      (void)joiner_->join(
          one, news, [](const JoinSession&) {}, stop);
    });
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (waiting < 64 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(waiting, 64);
  std::vector<float> momentum(8);
  const Status status = nodes_[1]->fetch_momentum({ReplicaId(5), source.address, 0, 8},
                                                  {JobId(1), 0, 0}, momentum, {});
  EXPECT_TRUE(status.ok()) << to_string(status.error());
  EXPECT_EQ(momentum[7], 1.5f);
  for (std::jthread& joiner : joiners) joiner.request_stop();
  over.set_value();
  nodes_.clear();
}

TEST(StateWire, AnAnswerArrivesAsItWasOrIsRefused) {
  StateAnswer answer;
  answer.held = 7;
  answer.adam_step = 3;
  answer.digests = {{1, 2}, {3, 4}};
  for (int i = 0; i < 5'000; ++i) answer.values.push_back(0.001f * static_cast<float>(i));
  AverageSlice slice;
  slice.terms = {8, 2, 0.7, 0.5, 0.25, 0.125, 2.5};
  slice.codec = CodecKind::kInt4;
  slice.segments.push_back({128, 3, {ExactForm::kBitmap, {std::byte{1}, std::byte{2}}}});
  answer.rounds = {slice, {.terms = {.round = 9}, .is_empty = true}};
  for (const bool compact : {false, true}) {
    v1::StateAnswer wire;
    to_wire(answer, compact, wire);
    EXPECT_EQ(wire.coded_count() != 0, compact);
    const auto back = from_wire(wire);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->values, answer.values);
    EXPECT_EQ(back->held, 7);
    EXPECT_EQ(back->adam_step, 3);
    EXPECT_EQ(back->digests, answer.digests);
    ASSERT_EQ(back->rounds.size(), 2u);
    EXPECT_EQ(back->rounds[0].terms, slice.terms);
    EXPECT_EQ(back->rounds[0].segments[0].values.bytes, slice.segments[0].values.bytes);
    EXPECT_TRUE(back->rounds[1].is_empty);
    (*wire.mutable_rounds(0)->mutable_segments(0)->mutable_values())[1] ^= 1;
    EXPECT_EQ(from_wire(wire).error().code, Code::kDataLoss);
  }
  v1::StateAnswer wire;
  to_wire(answer, false, wire);
  wire.set_digests(0, 9);
  EXPECT_EQ(from_wire(wire).error().code, Code::kDataLoss);
}

TEST(StateWire, AnAskArrivesAsItWasOrIsRefused) {
  const StateAsk ask{ReplicaId(4), {JobId(2), 3, 9}, AskKind::kMoments, {5, 6}, true, 11, 4};
  v1::StateAsk wire;
  to_wire(ask, true, wire);
  EXPECT_TRUE(wire.compact());
  EXPECT_EQ(from_wire(wire).value(), ask);
  wire.set_count(INT64_MAX);
  EXPECT_FALSE(from_wire(wire).ok());
  wire.set_count(1);
  wire.set_kind(v1::STATE_ASK_KIND_UNSPECIFIED);
  EXPECT_FALSE(from_wire(wire).ok());
}

}  // namespace
}  // namespace shoal::outer_opt
