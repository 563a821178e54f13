#include "python/abi/orders.h"

#include <future>

#include <gtest/gtest.h>

namespace shoal::python {
namespace {

shoal_order order_of(std::int32_t kind) {
  shoal_order order = {};
  order.kind = kind;
  return order;
}

// The compute thread's question, asked beside the test.
std::future<std::string> ask(Orders& orders, std::int32_t kind) {
  return std::async(std::launch::async, [&orders, kind] {
    try {
      const Answer answer = orders.ask(order_of(kind));
      return "loss " + std::to_string(static_cast<int>(answer.loss));
    } catch (const OrderFailed& failed) {
      return std::string(failed.failure().detail);
    }
  });
}

std::int32_t next_kind(Orders& orders) {
  const auto order = orders.next(seconds(10));
  return order.ok() && *order ? (*order)->kind : -1;
}

TEST(Orders, PassesAQuestionAndItsAnswer) {
  Orders orders(seconds(10));
  auto asked = ask(orders, SHOAL_TRAIN);
  EXPECT_EQ(next_kind(orders), SHOAL_TRAIN);
  EXPECT_TRUE(orders.answer(SHOAL_TRAIN, {.loss = 3}).ok());
  EXPECT_EQ(asked.get(), "loss 3");
}

TEST(Orders, NothingComesWhenNothingIsAsked) {
  Orders orders(seconds(10));
  const auto order = orders.next(milliseconds(1));
  ASSERT_TRUE(order.ok());
  EXPECT_FALSE(order->has_value());
  EXPECT_FALSE(orders.answer(0, {}).ok());
}

TEST(Orders, AnAnswerMustBeOfItsOrder) {
  Orders orders(seconds(10));
  auto asked = ask(orders, SHOAL_TRAIN);
  EXPECT_EQ(next_kind(orders), SHOAL_TRAIN);
  EXPECT_FALSE(orders.next(milliseconds(1)).ok()) << "it was not answered";
  EXPECT_FALSE(orders.answer(SHOAL_EVALUATE, {}).ok());
  EXPECT_FALSE(orders.answer(0, {}).ok());
  EXPECT_TRUE(orders.answer(SHOAL_TRAIN, {}).ok());
  EXPECT_EQ(asked.get(), "loss 0");
}

TEST(Orders, ALateAnswerFailsTheOrderAndIsRefused) {
  Orders orders(milliseconds(1));
  auto asked = ask(orders, SHOAL_TRAIN);
  EXPECT_NE(asked.get().find("did not end its inner step within"), std::string::npos);
  EXPECT_FALSE(orders.answer(SHOAL_TRAIN, {}).ok());
}

TEST(Orders, AProgramThatGivesUpFailsWhatIsAskedAndWhatWillBe) {
  Orders orders(seconds(10));
  auto asked = ask(orders, SHOAL_READ);
  EXPECT_EQ(next_kind(orders), SHOAL_READ);
  orders.fail({ReplicaFailure::kInternal, "ValueError: no"}, true);
  EXPECT_EQ(asked.get(), "ValueError: no");
  EXPECT_EQ(ask(orders, SHOAL_READ).get(), "ValueError: no");
}

TEST(Orders, TheEndComesAfterWhatWasAskedAndStays) {
  Orders orders(seconds(10));
  auto asked = ask(orders, SHOAL_READ);
  EXPECT_EQ(next_kind(orders), SHOAL_READ);
  orders.end("the agent is gone");
  orders.end("later");
  EXPECT_TRUE(orders.answer(0, {}).ok());
  EXPECT_EQ(asked.get(), "loss 0");
  for (int i = 0; i < 2; ++i) {
    const auto last = orders.next(seconds(10));
    ASSERT_TRUE(last.ok() && *last);
    EXPECT_EQ((*last)->kind, SHOAL_END);
    EXPECT_STREQ((*last)->text, "the agent is gone");
  }
}

}  // namespace
}  // namespace shoal::python
