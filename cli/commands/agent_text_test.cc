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

TEST(AgentText, CordonedDevice_ShowsReasonsAndRemedy) {
  Json json = agent("a", "active");
  EXPECT_EQ(state_of(json), "active") << "an older coordinator says nothing";
  Json cordon{{"device", 1}, {"at", "2026-01-01T00:00:00Z"}, {"job", "job_7"}, {"code", ""}};
  cordon["reasons"] = {"trainer_exited: signal 9", "unresponsive", "device_lost: Xid 79"};
  json["cordoned_devices"] = Json::array({cordon});
  EXPECT_EQ(state_of(json), "active, device cordoned");
  EXPECT_EQ(cordon_text(json, cordon),
            "cordoned since 2026-01-01T00:00:00Z, because replicas of job_7 failed there "
            "(trainer_exited: signal 9; unresponsive; device_lost: Xid 79): `shoal agent uncordon "
            "a` ends it");
  cordon["code"] = "sha256:a";
  EXPECT_THAT(cordon_text(json, cordon), HasSubstr("cordoned for the program sha256:a since"));
}

TEST(AgentText, AgentThatIsNotGreen_IsListedWithItsReason) {
  Json well = agent("a", "active"), slow = agent("b", "active"), left = agent("c", "gone");
  well["health"] = "green";
  EXPECT_EQ(health_of(well), "green") << "an older coordinator gives no reason";
  well["health_reason"] = "";
  slow["health"] = "yellow";
  slow["health_reason"] = "rep_4 on device 0 computes at 0.21 of what was promised";
  left["health_reason"] = "its heartbeat is late";
  EXPECT_EQ(health_of(slow), "yellow: rep_4 on device 0 computes at 0.21 of what was promised");
  EXPECT_EQ(unwell_text(Json::array({well, slow, left})),
            "b is yellow: rep_4 on device 0 computes at 0.21 of what was promised.");
  EXPECT_EQ(unwell_text(Json::array({well})), "");
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

TEST(AgentText, ADeviceShowsWhatItsDriverSaidLast) {
  const Json agent = Json::parse(R"({"device_samples": [
    {"uuid": "cpu-1", "answer": "whole", "error": "", "climate": {"celsius": 54.0},
     "use": {"busy": 0.35, "used_here_bytes": 2000000000, "used_elsewhere_bytes": 1000000000}},
    {"uuid": "cpu-2", "answer": "whole", "error": "",
     "use": {"busy": 0.8, "used_here_bytes": 0, "used_elsewhere_bytes": 0, "busy_elsewhere": 0.75}},
    {"uuid": "GPU-1", "answer": "silent", "error": "no answer within 5 s", "use": null}]})");
  EXPECT_EQ(sample_text(agent, Json{{"uuid", "cpu-1"}}),
            "; 35 % busy, 2.00 GB in use here and 1.00 GB by others, 54 °C");
  EXPECT_EQ(sample_text(agent, Json{{"uuid", "cpu-2"}}),
            "; 80 % busy (75 % by others), 0 B in use here and 0 B by others");
  EXPECT_EQ(sample_text(agent, Json{{"uuid", "GPU-1"}}), "; silent: no answer within 5 s");
  EXPECT_EQ(sample_text(agent, Json{{"uuid", ""}}), "");
}

TEST(AgentText, AnOldSample_SaysItsAge) {
  const Json agent = Json::parse(R"({"device_samples": [
    {"uuid": "cpu-1", "answer": "whole", "age_s": 125.0, "error": "",
     "use": {"busy": 0.35, "used_here_bytes": 0, "used_elsewhere_bytes": 0}}]})");
  EXPECT_THAT(sample_text(agent, Json{{"uuid", "cpu-1"}}), HasSubstr(" by others, 2m 05s ago"));
}

TEST(AgentText, UnhealthyDevice_ShowsItsFaultAndWhatEndsIt) {
  const Json cordon = Json::parse(R"({"device": 1, "at": "2026-01-01T00:00:00Z", "job": null,
    "code": "", "fault": "xid", "reasons": ["its driver reported XID 79"],
    "ends": "reset the GPU or reboot its host, then run shoal agent uncordon a"})");
  EXPECT_EQ(cordon_text(agent("a", "active"), cordon),
            "cordoned since 2026-01-01T00:00:00Z, because its driver reported a fault (its driver "
            "reported XID 79): reset the GPU or reboot its host, then run shoal agent uncordon a");
}

// Ten minutes weigh ten times a minute.
TEST(AgentText, LastDay_IsALineOfADevice) {
  const Json history = Json::parse(R"([{"uuid": "GPU-1", "points": [
    {"at": "2026-01-01T00:00:00Z", "busy": 1.0, "celsius": 70.0, "throttled": 0.1},
    {"at": "2026-01-01T00:10:00Z", "busy": 0.0, "celsius": 81.4, "throttled": 0.0}]}])");
  Json json = agent("a", "active");
  const Json device{{"uuid", "GPU-1"}};
  EXPECT_EQ(day_text(json, device, history), "91 % busy, at most 81 °C, throttled 9 % of the time");
  json["device_samples"] = Json::parse(
      R"([{"uuid": "GPU-1", "errors": {"xids": [{"xid": 79, "count": 2, "ago_s": 5.0}]}}])");
  EXPECT_THAT(day_text(json, device, history), HasSubstr("of the time, XID 79 (2)"));
  EXPECT_EQ(day_text(json, Json{{"uuid", "GPU-2"}}, history), "");
  EXPECT_EQ(day_text(json, device, Json::array()), "") << "an older coordinator keeps none";
}

}  // namespace
}  // namespace shoal::cli
