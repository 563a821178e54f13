#include "cli/commands/network_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::map<std::string, std::string> kNames = {
    {"agt_1", "agent-1"}, {"agt_2", "agent-2"}, {"agt_9", "agent-10"}};

Json line(const char* from, const char* to, const char* way = "direct") {
  return {{"from", from},         {"to", to},   {"way", way}, {"bytes_per_second", 25e6},
          {"round_trip_s", 0.02}, {"age_s", 60}};
}

TEST(NetworkText, NamesTheAgentsInTheirOrder) {
  const std::string text = network_text(
      Json::array({line("agt_1", "agt_9"), line("agt_1", "agt_2"),
                   line("agt_2", "agt_1", "unreachable"), line("agt_9", "agt_1", "relayed")}),
      kNames, false);
  EXPECT_LT(text.find("agent-2 "), text.find("agent-10")) << text;
  EXPECT_THAT(text, HasSubstr("200 Mbit/s"));
  EXPECT_THAT(text, HasSubstr("20.0 ms"));
  for (const char* way : {"direct", "unreachable", "relayed"}) EXPECT_THAT(text, HasSubstr(way));
}

// An agent with two devices: its trainers measure each other.
TEST(NetworkText, LeavesOutAnAgentsLineToItself) {
  EXPECT_EQ(network_text(Json::array({line("agt_1", "agt_1")}), kNames, false), "");
  const std::string text =
      network_text(Json::array({line("agt_2", "agt_2"), line("agt_1", "agt_7")}), kNames, false);
  EXPECT_THAT(text, HasSubstr("agt_7")) << "an agent whose name is not known";
  EXPECT_THAT(text, Not(HasSubstr("agent-2")));
}

}  // namespace
}  // namespace shoal::cli
