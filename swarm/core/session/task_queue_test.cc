#include "swarm/core/session/task_queue.h"

#include <gtest/gtest.h>

#include "base/field_digest.h"

namespace shoal::swarm {
namespace {

Microbatch mb(std::int64_t step, std::int32_t index, PassKind kind = PassKind::kTrain) {
  return {1, step, ReplicaId(1), index, kind};
}

std::vector<TaskId> popped(TaskQueue queue) {
  std::vector<TaskId> tasks;
  for (; !queue.empty(); queue.pop()) tasks.push_back(queue.top().task);
  return tasks;
}

TEST(TaskQueue, OldestStepThenEvaluationThenOldestMicrobatchThenBackward) {
  TaskQueue queue;
  queue.push({mb(1, 0), false, 6});
  queue.push({mb(0, 2), false, 5});
  queue.push({mb(0, 1), false, 4});
  queue.push({mb(0, 1), true, 3});
  queue.push({mb(0, 9, PassKind::kLoss), false, 1});
  queue.push({mb(0, 0), false, 2});
  EXPECT_EQ(popped(queue), (std::vector<TaskId>{1, 2, 3, 4, 5, 6}));
}

TEST(TaskQueue, AmongEqualsTheSmallerRouterAndThenTheOlderTask) {
  TaskQueue queue;
  Microbatch other = mb(0, 0);
  other.router = ReplicaId(2);
  queue.push({other, false, 7});
  queue.push({mb(0, 0), false, 9});
  queue.push({mb(0, 0), false, 8});
  EXPECT_EQ(popped(queue), (std::vector<TaskId>{8, 9, 7}));
}

TEST(TaskQueue, ItsDigestTellsEntriesApart) {
  TaskQueue one, other;
  one.push({mb(0, 0), false, 1});
  other.push({mb(0, 0), true, 1});
  EXPECT_NE(digest_of_fields(one), digest_of_fields(other));
}

}  // namespace
}  // namespace shoal::swarm
