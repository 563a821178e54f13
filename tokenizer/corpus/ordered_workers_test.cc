#include "tokenizer/corpus/ordered_workers.h"

#include <gtest/gtest.h>

namespace shoal::corpus {
namespace {

TEST(OrderedWorkers, ResultsComeInTheOrderOfItems) {
  OrderedWorkers<int, int> workers(4, [](int, int item) {
    // Earlier items take longer.
    volatile int spent = 0;
    for (int i = 0; i < (200 - item) * 1000; ++i) spent = spent + 1;
    return item * item;
  });
  for (int i = 0; i < 200; ++i) workers.push(i);
  EXPECT_EQ(workers.in_flight(), 200U);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(workers.pop(), i * i);
  EXPECT_EQ(workers.in_flight(), 0U);
}

TEST(OrderedWorkers, EachThreadHasItsNumber) {
  std::vector<std::vector<int>> seen(3);  // each thread writes to its own
  {
    OrderedWorkers<int, int> workers(3, [&](int worker, int item) {
      seen[static_cast<std::size_t>(worker)].push_back(item);
      return 0;
    });
    for (int i = 0; i < 90; ++i) workers.push(i);
    for (int i = 0; i < 90; ++i) workers.pop();
  }
  EXPECT_EQ(seen[0].size() + seen[1].size() + seen[2].size(), 90U);
}

TEST(OrderedWorkers, MayEndBeforeItsItems) {
  OrderedWorkers<int, int> workers(2, [](int, int item) { return item; });
  for (int i = 0; i < 1000; ++i) workers.push(i);
}

}  // namespace
}  // namespace shoal::corpus
