// What strangers may write into the audit trail by being refused.
#include "coordinator/service/people/refusals.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class RefusalsTest : public ::testing::Test {
 protected:
  Refusals make(RefusalNoteLimits limits = {}) {
    return {[this](AuditRecord record) { rows_.push_back(std::move(record)); },
            [this] { return now_; }, limits};
  }
  Instant now_ = from_unix_ms(1'800'000'000'000);
  std::vector<AuditRecord> rows_;
};

TEST_F(RefusalsTest, AreCountedByPortAndReason) {
  Refusals refusals;
  refusals.count(Port::kHttp, RefusalReason::kForbidden);
  refusals.count(Port::kAgents, RefusalReason::kRevoked);
  refusals.count(Port::kAgents, RefusalReason::kRevoked);
  refusals.tell(kRefusedToken, "10.0.0.1", "nobody keeps a trail");
  EXPECT_EQ(refusals.counts(Port::kHttp)[RefusalReason::kForbidden], 1);
  EXPECT_EQ(refusals.counts(Port::kAgents)[RefusalReason::kRevoked], 2);
  EXPECT_EQ(refusals.counts(Port::kJoin).total(), 0);
}

TEST_F(RefusalsTest, OneSourceHasARowInAWhile) {
  Refusals refusals = make();
  for (int i = 0; i < 1000; ++i) refusals.tell(kRefusedToken, "10.0.0.1", "no such token");
  ASSERT_THAT(rows_, SizeIs(1));
  EXPECT_EQ(rows_[0].principal, kStranger);
  EXPECT_EQ(rows_[0].action, kRefusedToken);
  EXPECT_EQ(rows_[0].object, "10.0.0.1");
  EXPECT_EQ(rows_[0].after, "no such token");
  refusals.tell(kRefusedLogin, "10.0.0.1", "another action");
  refusals.tell(kRefusedToken, "10.0.0.2", "another source");
  EXPECT_THAT(rows_, SizeIs(3));
  now_ = now_ + seconds(601);
  refusals.tell(kRefusedToken, "10.0.0.1", "no such token");
  ASSERT_THAT(rows_, SizeIs(4));
  EXPECT_THAT(rows_[3].after, HasSubstr("999 more from there before"));
}

TEST_F(RefusalsTest, AllSourcesHaveSoManyRowsAnHour) {
  Refusals refusals = make({.per_hour = 10, .at_once = 20});
  int source = 0;
  const auto knock = [&] {
    refusals.tell(kRefusedJoin, "2001:db8:0:" + std::to_string(++source) + "::/64", "no token");
  };
  for (int i = 0; i < 5000; ++i) knock();
  EXPECT_THAT(rows_, SizeIs(20));
  now_ = now_ + seconds(3600);
  for (int i = 0; i < 5000; ++i) knock();
  EXPECT_THAT(rows_, SizeIs(30));
  EXPECT_THAT(rows_[20].after, HasSubstr("4980 of all sources were not noted"));
}

TEST_F(RefusalsTest, ARowIsShortAndPlain) {
  Refusals refusals = make();
  refusals.tell(kRefusedToken, "10.0.0.1", "\x1b[2J" + std::string(5000, 'x') + "\n");
  ASSERT_THAT(rows_, SizeIs(1));
  EXPECT_EQ(rows_[0].after.size(), 200U);
  EXPECT_EQ(rows_[0].after.substr(0, 5), "?[2Jx");
}

}  // namespace
}  // namespace shoal::coordinator
