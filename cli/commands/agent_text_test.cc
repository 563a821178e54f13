#include "cli/commands/agent_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/format.h"

namespace shoal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

const double kNow = *parse_rfc3339("2026-01-01T00:01:00Z");

Json agent(const std::string& name, const std::string& state, bool drained = false) {
  return Json{
      {"name", name}, {"state", state}, {"cordoned", state == "draining"}, {"drained", drained}};
}

Json gone(const std::string& name, const std::string& since, const std::string& why) {
  Json json = agent(name, "gone");
  json["gone_reason"] = why;
  json["updated_at"] = since;
  json["last_seen_at"] = nullptr;
  return json;
}

TEST(AgentText, ADrainThatIsDoneIsSaid) {
  EXPECT_EQ(state_of(agent("a", "draining")), "draining");
  EXPECT_EQ(state_of(agent("a", "draining", true)), "drained");
  EXPECT_THAT(after_command(agent("a", "draining"), "drain"), HasSubstr("leave when their rounds"));
  EXPECT_THAT(after_command(agent("a", "draining", true), "drain"), HasSubstr("is drained"));
  Json older = agent("a", "draining");
  older.erase("drained");
  EXPECT_FALSE(is_drained(older));
}

TEST(AgentText, StatesAreWords) {
  Json cordoned = agent("a", "active");
  cordoned["cordoned"] = true;
  EXPECT_EQ(state_of(cordoned), "active, cordoned");
  EXPECT_EQ(after_command(agent("a", "syncing"), "uncordon"),
            "Agent a is back at work; it is syncing.");
  EXPECT_EQ(state_of(gone("a", "2026-01-01T00:00:48Z", "lost")), "gone: lost");
  EXPECT_EQ(human_age(last_seen(gone("a", "2026-01-01T00:00:48Z", "lost")), kNow), "12 s ago");
}

TEST(AgentText, WhoseCodeItRunsIsSaid) {
  Json json = agent("a", "idle");
  EXPECT_EQ(programs_of(json), "") << "an older coordinator says nothing";
  json["runs_programs"] = false;
  json["code_from"] = Json::array();
  EXPECT_EQ(programs_of(json), "");
  json["runs_programs"] = true;
  json["code_from"] = {"ada", "*"};
  EXPECT_EQ(programs_of(json), "of --trainer-root, code of ada, code of anybody");
  json["code_from"] = {"ada"};
  json["program_limits"] = "cgroup";
  EXPECT_EQ(programs_of(json), "of --trainer-root, code of ada; bounded by cgroups");
  json["program_limits"] = "watched";
  EXPECT_EQ(programs_of(json),
            "of --trainer-root, code of ada; bounded by the agent, which watches them");
}

TEST(AgentText, WhoIsGoneIsCountedAndNamed) {
  Json agents = Json::array({agent("agent-1", "active")});
  EXPECT_EQ(gone_text(agents, kNow), "");
  agents.push_back(gone("agent-3", "2026-01-01T00:00:48Z", "lost"));
  agents.push_back(gone("agent-1", "2026-01-01T00:00:01Z", "left"));
  const std::string text = gone_text(agents, kNow);
  EXPECT_THAT(text, HasSubstr("1 gone: agent-3, lost 12 s ago."));
  EXPECT_THAT(text, Not(HasSubstr("agent-1"))) << "it is here again";
  for (const char* name : {"b", "c", "d", "e"}) {
    agents.push_back(gone(name, "2026-01-01T00:00:50Z", "left"));
  }
  EXPECT_THAT(gone_text(agents, kNow), HasSubstr("5 gone: "));
  EXPECT_THAT(gone_text(agents, kNow), HasSubstr("; …"));
  EXPECT_THAT(gone_text(agents, kNow), Not(HasSubstr("agent-3"))) << "the newest are named";
}

}  // namespace
}  // namespace shoal::cli
