#include "cli/up_layout.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

TEST(UpLayout, LoopbackAddressesOnly) {
  EXPECT_EQ(parse_loopback("127.0.0.1:7070", "--http")->text(), "127.0.0.1:7070");
  EXPECT_EQ(parse_loopback(":0", "--http")->text(), "127.0.0.1:0");
  EXPECT_EQ(parse_loopback("7070", "--http")->text(), "127.0.0.1:7070");
  EXPECT_EQ(parse_loopback("localhost:1", "--http")->text(), "localhost:1");
  EXPECT_EQ(parse_loopback("[::1]:7070", "--http")->text(), "[::1]:7070");
  EXPECT_EQ(parse_loopback("0.0.0.0:7070", "--http").error().field, "--http");
  EXPECT_EQ(parse_loopback("example.org:7070", "--grpc").error().field, "--grpc");
  EXPECT_FALSE(parse_loopback("127.0.0.1:70700", "--http").ok());
  EXPECT_FALSE(parse_loopback("127.0.0.1:x", "--http").ok());
}

TEST(UpLayout, OptionsAreRefusedByName) {
  UpOptions options;
  EXPECT_TRUE(validate(options).ok());
  options.agents = 0;
  EXPECT_EQ(validate(options).error().field, "--agents");
  options.agents = 2;
  options.speeds = {1};
  EXPECT_EQ(validate(options).error().field, "--speeds");
  options.speeds = {1, 1.5};
  EXPECT_EQ(validate(options).error().field, "--speeds");
  options.speeds = {1, 0.25};
  EXPECT_TRUE(validate(options).ok());
  for (const int bad : {-1, 1025}) {
    options.threads = bad;
    EXPECT_EQ(validate(options).error().field, "--threads");
  }
  options.threads = 1024;
  EXPECT_TRUE(validate(options).ok());
  options.emulated_link = "up=200mbit,rtt=80";
  EXPECT_EQ(validate(options).error().field, "--emulate-link, rtt");
  EXPECT_EQ(validate(options).error().code, Code::kInvalidArgument) << "of the command line";
  options.emulated_link = "up=200mbit,rtt=80ms";
  EXPECT_TRUE(validate(options).ok());
  options.grpc = options.http;
  EXPECT_EQ(validate(options).error().field, "--grpc");
  options.grpc = options.http = "127.0.0.1:0";
  EXPECT_TRUE(validate(options).ok());
}

TEST(UpLayout, CoresAreSharedOut) {
  UpOptions options;
  options.agents = 4;
  EXPECT_EQ(threads_per_agent(options, 16), 4);
  EXPECT_EQ(threads_per_agent(options, 2), 1);
  options.threads = 3;
  EXPECT_EQ(threads_per_agent(options, 16), 3);
}

TEST(UpLayout, StateFileComesBack) {
  UpState state;
  state.addresses = {"http://127.0.0.1:1", "127.0.0.1:2", "/d/token", "/d/admin.token"};
  state.data_dir = "/d";
  state.coordinator = {"coordinator", 10, 100, "/d/logs/coordinator.log"};
  state.agents = {{"agent-1", 11, 101, "/d/logs/agent-1.log"}};
  const Json json = to_json(state);
  EXPECT_EQ(json.at("pids").at("coordinator"), 10);
  EXPECT_EQ(json.at("pids").at("agents"), Json::parse("[11]"));
  const auto read = read_up_state(json.dump());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->addresses.http, "http://127.0.0.1:1");
  EXPECT_EQ(read->addresses.grpc, "127.0.0.1:2");
  EXPECT_EQ(read->addresses.token_file, "/d/token");
  EXPECT_EQ(read->addresses.admin_token_file, "/d/admin.token");
  EXPECT_EQ(read->data_dir, "/d");
  EXPECT_EQ(read->coordinator, state.coordinator);
  EXPECT_EQ(read->agents, state.agents);
  EXPECT_FALSE(read_up_state("{").ok());
}

TEST(UpLayout, AgentsGetTheirOwnFolderAndFreePorts) {
  const UpLayout layout{"/d"};
  UpOptions options;
  options.detach = true;
  options.agents = 3;
  options.speeds = {1, 1, 0.25};
  options.emulated_link = "up=10mbit";
  options.data_roots = {"texts=/srv/texts"};
  options.trainer_root = "/srv/programs";
  options.code_from = {"admin"};
  options.python = "/venv/bin/python3";
  const Launch agent =
      agent_launch(layout, options, 3, 2, {"http://h", "127.0.0.1:9", "/t"}, "/bin");
  EXPECT_EQ(agent.name, "agent-3");
  EXPECT_FALSE(agent.ends_with_parent);
  const auto has = [&](const std::string& flag, const std::string& value) {
    for (std::size_t i = 0; i + 1 < agent.command.size(); ++i) {
      if (agent.command[i] == flag) return agent.command[i + 1] == value;
    }
    return false;
  };
  EXPECT_TRUE(has("--data-dir", "/d/agents/3"));
  EXPECT_TRUE(has("--peer-ports", "0"));
  EXPECT_TRUE(has("--orphan-limit-s", "30")) << "what is left of a cluster ends soon";
  EXPECT_TRUE(has("--coordinator", "127.0.0.1:9"));
  EXPECT_TRUE(has("--join-token", "/t"));
  EXPECT_TRUE(has("--enrol", "h"));
  EXPECT_TRUE(has("--threads", "2"));
  EXPECT_TRUE(has("--speed", "0.250000"));
  EXPECT_TRUE(has("--data-root", "texts=/srv/texts"));
  EXPECT_TRUE(has("--emulate-link", "up=10mbit"));
  EXPECT_TRUE(has("--trainer-root", "/srv/programs"));
  EXPECT_TRUE(has("--allow-code-from", "admin"));
  EXPECT_TRUE(has("--python", "/venv/bin/python3"));
}

TEST(UpLayout, ReducersComeAfterTheAgents) {
  const UpLayout layout{"/d"};
  UpOptions options;
  options.agents = 3;
  options.reducers = 2;
  options.speeds = {1, 1, 0.25};
  const Launch reducer =
      agent_launch(layout, options, 5, 2, {"http://h", "127.0.0.1:9", "/t"}, "/bin");
  EXPECT_EQ(reducer.name, "reducer-2");
  const auto has = [&](const std::string& word) {
    return std::find(reducer.command.begin(), reducer.command.end(), word) != reducer.command.end();
  };
  EXPECT_TRUE(has("/d/agents/5"));
  EXPECT_TRUE(has("reducer"));
  EXPECT_TRUE(has("/bin/shoal-reducer"));
  EXPECT_FALSE(has("--devices"));
  EXPECT_FALSE(has("--threads"));
  EXPECT_FALSE(has("--speed"));
  EXPECT_FALSE(has("--emulate-link"));
}

TEST(UpLayout, WhoHadEndedBeforeIsNotSaidToBeStopped) {
  UpState state;
  state.coordinator = {"coordinator", 10, 1, ""};
  state.agents = {{"agent-1", 11, 1, ""}, {"agent-2", 12, 1, ""}, {"agent-3", 13, 1, ""}};
  const auto all = [](const ProcessRef&) { return true; };
  EXPECT_EQ(stopped_text(count_running(state, all)), "Stopped 3 agents and the coordinator.");
  const auto some = [](const ProcessRef& process) {
    return process.pid != 12 && process.pid != 13;
  };
  EXPECT_EQ(stopped_text(count_running(state, some)),
            "Stopped 1 agent and the coordinator; agent-2 and agent-3 had ended before.");
  const auto none = [](const ProcessRef&) { return false; };
  EXPECT_EQ(stopped_text(count_running(state, none)),
            "Stopped 0 agents; agent-1, agent-2, agent-3 and the coordinator had ended before.");
}

TEST(UpContext, IsNamedByItsPort) {
  const UpAddresses usual{"http://127.0.0.1:7070", "127.0.0.1:7071", "/t", "/a"};
  EXPECT_EQ(context_of_up(usual), (SavedContext{"up", "http://127.0.0.1:7070", "", "/a", ""}));
  const SavedContext other = context_of_up({"http://127.0.0.1:41234", "", "", "/a"});
  EXPECT_EQ(other.name, "up-41234");
  EXPECT_TRUE(is_of_up(other));
  EXPECT_FALSE(is_of_up({"upstream", "", "", "", ""}));
}

}  // namespace
}  // namespace shoal::cli
