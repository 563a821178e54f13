#include "swarm/core/session/tasks.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

const ReplicaId kBefore(1), kNext(21), kOtherNext(22);
constexpr Duration kService = milliseconds(10);

struct Held {
  explicit Held(bool last_stage = false) : tasks(last_stage, books, wiring, stats, now) {
    wiring.add(kNext, {}, 2);
  }
  static Microbatch mb(std::int32_t index, PassKind kind = PassKind::kTrain) {
    return {1, 0, ReplicaId(7), index, kind};
  }
  TaskId arrive(std::int32_t index, ReplicaId from = kBefore) {
    return tasks.arrive(from, {mb(index), 1});
  }
  // Computes what is next; the one that is to be answered.
  Task* compute(double loss = 0, Tokens tokens = {}) {
    tasks.begin();
    return tasks.computed(kService, loss, tokens, out);
  }
  // A task that was sent on.
  Task& sent(std::int32_t index) {
    const TaskId task = arrive(index);
    compute();
    tasks.send_waiting(out);
    return *tasks.find(task);
  }
  template <typename Action>
  std::size_t count() const {
    std::size_t found = 0;
    for (const SessionAction& action : out) found += std::holds_alternative<Action>(action);
    return found;
  }

  Instant now{0};
  StepBooks books;
  Wiring wiring{1};
  SessionStats stats;
  Tasks tasks;
  SessionActions out;
};

TEST(Tasks, OneGoesDownAndItsAnswerUp) {
  Held h;
  const TaskId id = h.sent(0).id;
  EXPECT_EQ(h.tasks.find(id)->state, TaskState::kBelow);
  Task* below = h.tasks.below(kNext, {Held::mb(0), 1});
  ASSERT_NE(below, nullptr);
  EXPECT_FALSE(h.tasks.take_answer(*below, {Held::mb(0), 1, kService, 3, Tokens(16)}));
  EXPECT_EQ(below->state, TaskState::kReturned);
  EXPECT_EQ(h.tasks.begin().kind, ComputeKind::kBackward);
  EXPECT_EQ(below->state, TaskState::kComputingBack);
  Task* done = h.tasks.computed(kService, 0, {}, h.out);
  ASSERT_EQ(done, below);
  EXPECT_EQ(h.books.of(0).tokens, Tokens(16));
  h.tasks.finish(*done, h.out);
  EXPECT_EQ(h.tasks.find(id), nullptr);
  EXPECT_EQ(h.count<SendBackward>(), 1u);
  EXPECT_EQ(h.count<Forget>(), 1u);
  EXPECT_EQ(h.stats.microbatches, 1);
  EXPECT_EQ(h.stats.service, kService * 2);
}

TEST(Tasks, TheLastStageAnswersAtOnce) {
  Held h(true);
  h.arrive(0);
  const Task* done = h.compute(5, Tokens(16));
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->loss_sum, 5);
  EXPECT_EQ(h.books.of(0).tokens, Tokens(16));
}

TEST(Tasks, AGradientIsAddedOnceAStep) {
  Held h(true);
  h.arrive(0, kBefore);
  h.arrive(0, ReplicaId(2));
  EXPECT_TRUE(h.tasks.begin().add);
  h.tasks.finish(*h.tasks.computed(kService, 1, Tokens(16), h.out), h.out);
  EXPECT_FALSE(h.tasks.begin().add);
  h.tasks.finish(*h.tasks.computed(kService, 1, Tokens(16), h.out), h.out);
  EXPECT_EQ(h.books.of(0).tokens, Tokens(16));
  EXPECT_EQ(h.stats.answered_only, 1);
  EXPECT_EQ(h.count<SendBackward>(), 2u) << "both are answered";
}

TEST(Tasks, AnEvaluationHasNoWayBack) {
  Held h;
  h.tasks.arrive(kBefore, {Held::mb(0, PassKind::kLoss), 1});
  h.compute();
  h.tasks.send_waiting(h.out);
  Task* below = h.tasks.below(kNext, {Held::mb(0, PassKind::kLoss), 1});
  EXPECT_TRUE(h.tasks.take_answer(*below, {Held::mb(0), 1, kService, 3, Tokens(16)}));
  h.tasks.finish(*below, h.out);
  EXPECT_EQ(h.books.of(0).tokens, Tokens(0));
  EXPECT_EQ(h.stats.microbatches, 0);
}

TEST(Tasks, OneThatIsDroppedCancelsWhatItHasBelow) {
  Held h;
  Task& task = h.sent(0);
  h.tasks.drop(task, h.out);
  EXPECT_EQ(h.count<SendCancel>(), 1u);
  EXPECT_EQ(h.count<Forget>(), 1u);
  EXPECT_EQ(h.tasks.received_from(kBefore), 0);
}

TEST(Tasks, OneThatIsDroppedWhileComputedIsForgottenAfterwards) {
  Held h;
  const TaskId id = h.arrive(0);
  h.tasks.begin();
  h.tasks.drop(*h.tasks.find(id), h.out);
  EXPECT_EQ(h.tasks.find(id)->state, TaskState::kDiscarded);
  EXPECT_EQ(h.count<Forget>(), 0u);
  EXPECT_EQ(h.tasks.received(kBefore, {Held::mb(0), 1}), nullptr) << "nobody finds it";
  EXPECT_EQ(h.tasks.computed(kService, 0, {}, h.out), nullptr);
  EXPECT_EQ(h.count<Forget>(), 1u);
}

TEST(Tasks, ALostOneIsSentAgainAsANewAttempt) {
  Held h;
  Task& task = h.sent(0);
  h.wiring.add(kOtherNext, {}, 2);
  h.wiring.remove(kNext);
  h.tasks.wait(task);
  h.tasks.send_waiting(h.out);
  EXPECT_EQ(task.to, kOtherNext);
  EXPECT_EQ(task.attempt_out, 2);
  EXPECT_EQ(h.tasks.below(kNext, {Held::mb(0), 1}), nullptr)
      << "the old attempt does not count any more";
  EXPECT_NE(h.tasks.below(kOtherNext, {Held::mb(0), 2}), nullptr);
  EXPECT_EQ(h.stats.resent, 1);
}

TEST(Tasks, WithoutBudgetTheyAreParkedUntilThereIsSome) {
  Held h;
  h.wiring.set_credits(kNext, 1000);
  Task& task = h.sent(0);
  int sent = 0;
  for (; task.state != TaskState::kParked; ++sent) {
    h.tasks.retry(h.now, task);
    h.tasks.send_waiting(h.out);
    ASSERT_LT(sent, 1000);
  }
  EXPECT_EQ(sent, 257) << "the burst of 256";
  ASSERT_TRUE(h.tasks.next_deadline());
  h.tasks.unpark(h.now);
  EXPECT_EQ(task.state, TaskState::kParked);
  h.tasks.unpark(*h.tasks.next_deadline());
  EXPECT_EQ(task.state, TaskState::kWaiting);
  EXPECT_FALSE(h.tasks.next_deadline());
}

TEST(Tasks, RefusedAsPastIsLeftToAWord) {
  Held h;
  Task& task = h.sent(0);
  h.tasks.refused_as_past(task);
  h.tasks.send_waiting(h.out);
  EXPECT_EQ(h.count<SendForward>(), 1u);
  h.tasks.drop(task, h.out);
  EXPECT_EQ(h.count<SendCancel>(), 0u) << "the receiver does not hold it";
}

TEST(Tasks, ASamplesPassWaitsOutsideOfEveryStep) {
  Held h;
  const TaskId asked = h.tasks.ask();
  EXPECT_EQ(h.tasks.next(), nullptr);
  EXPECT_EQ(h.books.live(), 0);
  h.tasks.draw_asked(asked, Held::mb(0, PassKind::kLogits));
  EXPECT_EQ(h.books.live(), 1);
  EXPECT_EQ(h.tasks.next()->task, asked);
}

TEST(Tasks, TheTable) {
  using enum TaskState;
  EXPECT_FALSE(allowed(kFree, kBelow));
  EXPECT_FALSE(allowed(kQueued, kWaiting)) << "it is computed first";
  EXPECT_FALSE(allowed(kPast, kWaiting)) << "never sent again";
  EXPECT_FALSE(allowed(kDiscarded, kQueued));
  EXPECT_FALSE(allowed(kReturned, kBelow));
  EXPECT_FALSE(allowed(kComputing, kReturned));
  Held h;
  const TaskId id = h.arrive(0);
  EXPECT_DEATH(h.tasks.wait(*h.tasks.find(id)), "task: queued -> waiting");
}

}  // namespace
}  // namespace shoal::swarm
