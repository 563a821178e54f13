#include "cli/commands/doctor_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

Json agent(const char* id, const char* name, const char* relay = "", const char* health = "green") {
  return {{"id", id},       {"name", name},     {"host", std::string("host-") + name},
          {"relay", relay}, {"health", health}, {"state", "idle"}};
}
Json link(const char* from, const char* to, const char* way) {
  return {{"from", from}, {"to", to}, {"way", way}};
}

const Json kAgents = Json::array({agent("agt_1", "south"), agent("agt_2", "east"),
                                  agent("agt_3", "west"), agent("agt_4", "gate", "gate:7200")});

TEST(Doctor, ADirectLineIsNoFinding) {
  const auto links =
      Json::array({link("agt_1", "agt_2", "direct"), link("agt_2", "agt_1", "direct"),
                   link("agt_1", "agt_1", "unreachable"), link("agt_1", "agt_99", "unreachable")});
  EXPECT_TRUE(diagnose(kAgents, links).empty());
}

TEST(Doctor, APairWithoutAWayIsAFaultThatNamesWhatToOpen) {
  const auto found = diagnose(kAgents, Json::array({link("agt_3", "agt_2", "unreachable"),
                                                    link("agt_1", "agt_2", "reverse")}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].is_fault());
  EXPECT_EQ(found[0].what, "east and west have no way to each other");
  EXPECT_THAT(found[0].remedy, HasSubstr("host-west"));
  EXPECT_THAT(found[0].remedy, HasSubstr("gate:7200"));
  EXPECT_EQ(found[1].what, "south cannot dial east, which dials it instead");
  EXPECT_FALSE(found[1].is_fault());
  EXPECT_EQ(found[1].remedy, "");
}

TEST(Doctor, WithoutARelayOneIsProposed) {
  const auto agents = Json::array({agent("agt_1", "south"), agent("agt_2", "east")});
  const auto found = diagnose(agents, Json::array({link("agt_1", "agt_2", "unreachable")}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].remedy, HasSubstr("--role relay"));
}

TEST(Doctor, APairIsToldOfOnce) {
  const auto found = diagnose(
      kAgents, Json::array({link("agt_3", "agt_2", "relayed"), link("agt_2", "agt_3", "relayed")}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].is_fault());
  EXPECT_THAT(to_text(found), HasSubstr("over a relay only"));
  EXPECT_EQ(to_json(found).at("items")[0].at("kind"), "relayed");
}

TEST(Doctor, AnAgentWithoutASessionIsAFault) {
  const auto found = diagnose(Json::array({agent("agt_1", "south", "", "red")}), Json::array());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].is_fault());
  EXPECT_THAT(found[0].remedy, HasSubstr("7071"));
  EXPECT_THAT(to_text(found), Not(HasSubstr("ok ")));
}

TEST(Doctor, AnOlderCoordinatorSaysOnlyWhoIsNotReached) {
  const Json old = {{"from", "agt_1"}, {"to", "agt_2"}, {"reached", false}};
  EXPECT_EQ(diagnose(kAgents, Json::array({old})).size(), 1u);
}

}  // namespace
}  // namespace shoal::cli
