#include "coordinator/service/connection_limits.h"

#include <gmock/gmock.h>

namespace shoal::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ConnectionLimitOptions kSmall{
    .all = 10, .unfinished = 4, .per_client = 3, .per_member = 2, .finish = seconds(10)};

struct Rig {
  explicit Rig(ConnectionLimitOptions options = kSmall) : limits(options) {}
  // One more connection of this client, which is numbered by its arrival.
  ConnectionLimits::Verdict open(const std::string& client, bool exempt = false) {
    ++last;
    return limits.add(last, peer(last), client, now, exempt);
  }
  static std::string peer(SocketId id) { return "peer:" + std::to_string(id); }
  ConnectionLimits limits;
  SocketId last = 0;
  Instant now{1'000'000};
};

TEST(ConnectionLimits, AFullClientLosesItsOldestUnfinishedConnection) {
  Rig rig;
  for (int i = 0; i < 3; ++i) EXPECT_THAT(rig.open("a").evicted, IsEmpty());
  EXPECT_THAT(rig.open("a").evicted, ElementsAre(1));
  EXPECT_THAT(rig.open("b").evicted, IsEmpty());
  EXPECT_EQ(rig.limits.unfinished(), 4u);
}

TEST(ConnectionLimits, WhenAllAreFullTheOldestOfAllGoes) {
  Rig rig;
  rig.open("a"), rig.open("b"), rig.open("c"), rig.open("d");
  const auto verdict = rig.open("e");
  EXPECT_TRUE(verdict.admitted);
  EXPECT_THAT(verdict.evicted, ElementsAre(1));
}

TEST(ConnectionLimits, ConnectionsThatHaveSentNothingGoFirst) {
  Rig rig;
  rig.open("a"), rig.open("a"), rig.open("a");
  rig.limits.heard(1);
  EXPECT_THAT(rig.open("a").evicted, ElementsAre(2));
  rig.limits.heard(3), rig.limits.heard(4);
  EXPECT_THAT(rig.open("a").evicted, ElementsAre(1)) << "all have sent something";
}

TEST(ConnectionLimits, MembersOfOneAddressAreNotCountedByIt) {
  Rig rig;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    EXPECT_THAT(rig.open("nat").evicted, IsEmpty());
    EXPECT_THAT(rig.limits.identify(Rig::peer(rig.last), AgentId(i)), IsEmpty());
  }
  EXPECT_EQ(rig.limits.size(), 8u);
  EXPECT_EQ(rig.limits.unfinished(), 0u);
}

TEST(ConnectionLimits, StrangersDoNotDisplaceMembers) {
  Rig rig;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    rig.open("nat");
    rig.limits.identify(Rig::peer(rig.last), AgentId(i));
  }
  for (int i = 0; i < 20; ++i) {
    for (const SocketId evicted : rig.open("stranger").evicted) EXPECT_GT(evicted, 8u);
  }
  EXPECT_EQ(rig.limits.size(), 10u);
  for (std::uint64_t i = 9; i <= 10; ++i) {
    rig.open("late");
    EXPECT_THAT(rig.limits.identify(Rig::peer(rig.last), AgentId(i)), IsEmpty());
  }
  EXPECT_FALSE(rig.open("stranger").admitted) << "members have taken all";
}

TEST(ConnectionLimits, ACertificateHasAShare) {
  Rig rig;
  for (int i = 0; i < 2; ++i) {
    rig.open("a");
    EXPECT_THAT(rig.limits.identify(Rig::peer(rig.last), AgentId(7)), IsEmpty());
  }
  EXPECT_THAT(rig.limits.identify(Rig::peer(1), AgentId(7)), IsEmpty()) << "a second call";
  rig.open("a");
  EXPECT_THAT(rig.limits.identify(Rig::peer(3), AgentId(7)), ElementsAre(1));
  EXPECT_EQ(rig.limits.size(), 2u);
}

TEST(ConnectionLimits, UnfinishedConnectionsHaveADeadline) {
  Rig rig;
  rig.open("a");
  rig.now = rig.now + seconds(5);
  rig.open("a");
  rig.limits.heard(1);
  EXPECT_THAT(rig.limits.late(rig.now + seconds(4)), IsEmpty());
  EXPECT_THAT(rig.limits.late(rig.now + seconds(6)), ElementsAre(1));
  rig.limits.identify(Rig::peer(1), AgentId(1));
  EXPECT_THAT(rig.limits.late(rig.now + seconds(100)), ElementsAre(2));
}

TEST(ConnectionLimits, TheOwnProbeTakesNoShareAndIsNotEvicted) {
  Rig rig;
  for (int i = 0; i < 4; ++i) rig.open("a" + std::to_string(i));
  EXPECT_THAT(rig.open("self", true).evicted, IsEmpty());
  EXPECT_THAT(rig.open("b").evicted, ElementsAre(1));
  EXPECT_EQ(rig.limits.unfinished(), 4u);
  rig.limits.remove(5);
  EXPECT_EQ(rig.limits.size(), 4u);
}

TEST(ConnectionLimits, AnEndedConnectionGivesItsShareBack) {
  Rig rig;
  rig.open("a"), rig.open("a"), rig.open("a");
  rig.limits.remove(2);
  rig.limits.remove(2);
  EXPECT_THAT(rig.open("a").evicted, IsEmpty());
  EXPECT_EQ(rig.limits.oldest_unfinished(), 1u);
}

TEST(ConnectionLimits, FollowTheDescriptorsOfTheProcess) {
  for (const std::size_t descriptors : {256, 1'024, 65'536, 1'048'576}) {
    const ConnectionLimitOptions limits = connection_limits_of(descriptors);
    EXPECT_LT(limits.all * 2, descriptors);
    EXPECT_LE(limits.unfinished * 4, descriptors) << "under half of the descriptors";
    EXPECT_LT(limits.per_client, limits.unfinished) << "no address takes all";
  }
  EXPECT_GE(connection_limits_of(1'024).all, 300u);
}

}  // namespace
}  // namespace shoal::coordinator
