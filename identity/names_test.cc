#include "identity/names.h"

#include <gtest/gtest.h>

namespace shoal::identity {
namespace {

const ReplicaName kReplica{AgentId(7), JobId(3), 0, 2, ReplicaId(41)};

TEST(PeerName, EachHasOneText) {
  const std::pair<PeerName, std::string> names[] = {
      {{{"reef"}, CoordinatorName()}, "shoal://reef/coordinator"},
      {{{"reef"}, AgentId(7)}, "shoal://reef/agent/agt_7"},
      {{{"reef"}, kReplica}, "shoal://reef/agent/agt_7/job/job_3/stage/0/epoch/2/replica/rep_41"}};
  for (const auto& [name, text] : names) {
    EXPECT_EQ(to_string(name), text);
    EXPECT_TRUE(is_valid(name));
    const auto parsed = parse_name(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, name);
  }
}

TEST(PeerName, TheLongestFits) {
  const std::uint64_t most = INT64_MAX;
  const PeerName name{
      {std::string(kClusterNameMax, 'z')},
      ReplicaName{AgentId(most), JobId(most), INT32_MAX, INT64_MAX, ReplicaId(most)}};
  EXPECT_LE(to_string(name).size(), kNameMax);
  EXPECT_EQ(*parse_name(to_string(name)), name);
}

TEST(PeerName, NothingElseIsOne) {
  const std::string good = "shoal://reef/agent/agt_7/job/job_3/stage/0/epoch/2/replica/rep_41";
  const std::string refused[] = {
      "",
      "shoal://reef",
      "shoal://reef/",
      "shoal:///agent/agt_7",
      "SHOAL://reef/agent/agt_7",
      "https://reef/agent/agt_7",
      "shoal://Reef/agent/agt_7",
      "shoal://re/agent/agt_7",
      "shoal://reef-/agent/agt_7",
      "shoal://7reef/agent/agt_7",
      "shoal://reef:1/agent/agt_7",
      "shoal://reef/agent/agt_0",
      "shoal://reef/agent/agt_07",
      "shoal://reef/agent/7",
      "shoal://reef/agent/agt_9223372036854775808",
      "shoal://reef/agent/agt_7/",
      "shoal://reef/agent/agt_7 ",
      "shoal://reef//agent/agt_7",
      "shoal://reef/agent/agt_7?x",
      "shoal://reef/coordinator/",
      "shoal://reef/coordinator/agent/agt_7",
      "shoal://reef/agent/agt_7/job/job_3",
      "shoal://reef/agent/agt_7/job/job_3/stage/00/epoch/2/replica/rep_41",
      "shoal://reef/agent/agt_7/job/job_3/stage/-1/epoch/2/replica/rep_41",
      "shoal://reef/agent/agt_7/job/job_3/stage/2147483648/epoch/2/replica/rep_41",
      "shoal://reef/agent/agt_7/stage/0/job/job_3/epoch/2/replica/rep_41",
      good + "/x",
      good + std::string(1, '\0'),
      std::string("shoal://reef/agent/agt_7\0.evil", 30),
      "shoal://" + std::string(kClusterNameMax + 1, 'z') + "/coordinator",
      good + std::string(1 << 20, '1')};
  for (const std::string& text : refused) {
    const auto parsed = parse_name(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  }
}

TEST(PeerName, OnlyValidOnesGoIntoACertificate) {
  EXPECT_FALSE(is_valid({{"Reef"}, CoordinatorName()}));
  EXPECT_FALSE(is_valid({{"reef/agent"}, CoordinatorName()}));
  EXPECT_FALSE(is_valid({{"reef"}, AgentId()}));
  ReplicaName replica = kReplica;
  replica.epoch = -1;
  EXPECT_FALSE(is_valid({{"reef"}, replica}));
  replica = kReplica;
  replica.job = JobId();
  EXPECT_FALSE(is_valid({{"reef"}, replica}));
}

TEST(PeerName, ARefusalQuotesWithoutControlCharacters) {
  const auto refused = parse_name("\x1b[31m\n\"" + std::string(100, 'a'));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message.substr(0, 12), "\"?[31m??aaaa");
  EXPECT_LT(refused.error().message.size(), 150u);
}

TEST(PeerName, SaysItsKindAndAgent) {
  EXPECT_EQ(kind_of({{"reef"}, CoordinatorName()}), PeerKind::kCoordinator);
  EXPECT_EQ(kind_of({{"reef"}, AgentId(7)}), PeerKind::kAgent);
  EXPECT_EQ(kind_of({{"reef"}, kReplica}), PeerKind::kReplica);
  EXPECT_EQ(agent_of({{"reef"}, CoordinatorName()}), AgentId());
  EXPECT_EQ(agent_of({{"reef"}, AgentId(7)}), AgentId(7));
  EXPECT_EQ(agent_of({{"reef"}, kReplica}), AgentId(7));
}

TEST(ClusterName, RefusesAnythingElse) {
  EXPECT_EQ(parse_cluster_name("reef-2")->text, "reef-2");
  EXPECT_EQ(parse_cluster_name("my cluster").error().field, "cluster");
}

}  // namespace
}  // namespace shoal::identity
