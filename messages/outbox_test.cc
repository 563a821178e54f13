#include "messages/outbox.h"

#include <gtest/gtest.h>

#include "messages/messages.h"

namespace shoal {
namespace {

const Instant kNow = from_unix_ms(100'000);

FromAgent applied(std::uint64_t replica, RoundNumber round) {
  return FromReplica<Applied>{ReplicaId(replica), {{JobId(1), 0, round}, {1, 1}, {}}};
}
FromAgent report(std::uint64_t replica, RoundNumber round) {
  return FromReplica<RoundReport>{ReplicaId(replica), {.key = {JobId(1), 0, round}}};
}
FromAgent failed(std::uint64_t replica) {
  return ReplicaFailed{ReplicaId(replica), ReplicaFailure::kStale, ""};
}

TEST(Outbox, KeepsTheNewestOfEachKindPerReplica) {
  Outbox<FromAgent> outbox(4);
  outbox.keep(ReplicaId(1), report(1, 1), kNow);
  outbox.keep(ReplicaId(2), report(2, 1), kNow);
  outbox.keep(ReplicaId(1), applied(1, 1), kNow);
  outbox.keep(ReplicaId(1), report(1, 2), kNow);
  const std::vector<FromAgent> expected{report(2, 1), applied(1, 1), report(1, 2)};
  EXPECT_EQ(outbox.say_all(kNow), expected);
  EXPECT_EQ(outbox.say_all(kNow), expected) << "said messages stay";
}

TEST(Outbox, ForgetLeavesTheLastWords) {
  Outbox<FromAgent> outbox(4);
  outbox.keep(ReplicaId(1), report(1, 1), kNow);
  outbox.keep_last_words(ReplicaId(1), failed(1), std::nullopt);
  outbox.keep(ReplicaId(2), report(2, 1), kNow);
  outbox.keep_last_words(ReplicaId(2), failed(2), std::nullopt);
  outbox.forget(ReplicaId(1));
  const std::vector<FromAgent> of_2{report(2, 1), failed(2)};
  EXPECT_EQ(outbox.say_all(kNow), (std::vector<FromAgent>{failed(1), of_2[0], of_2[1]}));
  outbox.forget_last_words(ReplicaId(1));
  EXPECT_EQ(outbox.say_all(kNow), of_2) << "those of others stay";
}

TEST(Outbox, LastWordsGoOnceTheySurelyArrived) {
  Outbox<FromAgent> outbox(4);
  outbox.keep_last_words(ReplicaId(1), failed(1), kNow);
  outbox.keep_last_words(ReplicaId(2), failed(2), kNow + seconds(40));
  outbox.keep_last_words(ReplicaId(3), failed(3), std::nullopt);
  outbox.keep(ReplicaId(4), report(4, 1), kNow);
  outbox.link_lost(kNow + seconds(30));
  EXPECT_EQ(outbox.say_all(kNow + seconds(60)),
            (std::vector<FromAgent>{failed(2), failed(3), report(4, 1)}));
  outbox.link_lost(kNow + seconds(59));
  EXPECT_EQ(outbox.size(), 3u) << "said again at 60 s, so not settled at 59 s";
}

TEST(Outbox, LastWordsAreBounded) {
  Outbox<FromAgent> outbox(2);
  outbox.keep(ReplicaId(9), report(9, 1), kNow);
  for (std::uint64_t i = 1; i <= 5; ++i)
    outbox.keep_last_words(ReplicaId(i), failed(i), std::nullopt);
  EXPECT_EQ(outbox.say_all(kNow), (std::vector<FromAgent>{report(9, 1), failed(4), failed(5)}));
}

}  // namespace
}  // namespace shoal
