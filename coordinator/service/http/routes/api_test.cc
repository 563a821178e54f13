// Every route under /api/v1 from outside: shapes, errors, paging, files.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include <fcntl.h>
#include <unistd.h>

#include "coordinator/service/http/server_test_util.h"
#include "coordinator/service/http/url.h"
#include "threads/mutex.h"

namespace shoal::coordinator {
namespace {

using testing::ask;
using testing::Client;
using ::testing::HasSubstr;
using testing::Received;
using Json = nlohmann::json;

constexpr const char* kJson = "Content-Type: application/json\r\n";
constexpr const char* kToml = "Content-Type: application/toml; charset=utf-8\r\n";

class ApiTest : public testing::ServerFixture {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "shoal_http_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    const auto folder = root_ / "ckpt_5";
    std::filesystem::create_directories(folder / "state");
    std::ofstream(folder / "model.bin") << "0123456789";
    std::ofstream(folder / "state/outer.bin") << "abcd";
    std::ofstream(folder / "short.bin") << "x";
    std::ofstream(folder / "secret.txt") << "not listed";
    std::filesystem::create_symlink(folder / "model.bin", folder / "link.bin");
    cluster_.checkpoint_root = root_.string();
    start();
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  Received post(std::string_view target, std::string_view headers, std::string_view body) {
    return ask(address_, "POST", target, headers, body);
  }
  std::string error_pointer(const Received& received) {
    return received.json()["errors"][0]["pointer"].get<std::string>();
  }

  std::filesystem::path root_;
};

TEST_F(ApiTest, AJobIsFoundByIdAndByName) {
  const Json job = get("/api/v1/jobs/job_7").json();
  EXPECT_EQ(job, get("/api/v1/jobs/alpha").json());
  EXPECT_EQ(job["id"], "job_7");
  EXPECT_TRUE(std::regex_match(job["created_at"].get<std::string>(),
                               std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
  EXPECT_EQ(job["spec"]["train"]["steps"], 150);
  const Json& status = job["status"];
  EXPECT_EQ(status["phase"], "training");
  EXPECT_EQ(status["reason"], "running");
  EXPECT_EQ(status["progress"]["inner_step"], 102);
  EXPECT_EQ(status["progress"]["inner_steps_total"], 150);
  EXPECT_EQ(status["progress"]["rounds_committed"], 2);
  EXPECT_EQ(status["progress"]["rounds_total"], 3);
  EXPECT_EQ(status["progress"]["tokens"], 6400 + 2 * 320);
  EXPECT_EQ(status["progress"]["tokens_per_second"], 1000);
  EXPECT_EQ(status["train_loss"], 2.5);
  EXPECT_TRUE(status["validation_loss"].is_null());
  EXPECT_EQ(status["bytes_sent"], 4000);
  EXPECT_EQ(status["bytes_ddp"], 800'000);
  expect_problem(get("/api/v1/jobs/gamma"), 404, "not-found");
  expect_problem(get("/api/v1/jobs/job_99"), 404, "not-found");
}

TEST_F(ApiTest, WhatWasSubmittedIsGivenBackByteForByte) {
  const std::string toml =
      "# why: a first try\nname = \"mine\"\n\n[data]\ntrain = \"/data/t.txt\"\r\n"
      "[train]\nseed = 7  # lucky\n";
  ASSERT_EQ(post("/api/v1/jobs", kToml, toml).status, 201);
  const Received received = get("/api/v1/jobs/mine/spec");
  EXPECT_EQ(received.status, 200);
  EXPECT_EQ(received.body, toml);
  EXPECT_EQ(received.header("content-type"), "application/toml; charset=utf-8");
  expect_problem(get("/api/v1/jobs/alpha/spec"), 404, "not-found");  // of an older version
}

TEST_F(ApiTest, JobsAreListedNewestFirstInPages) {
  const Json first = get("/api/v1/jobs?limit=1").json();
  ASSERT_EQ(first["items"].size(), 1u);
  EXPECT_EQ(first["items"][0]["name"], "beta");
  const Json second =
      get("/api/v1/jobs?limit=1&cursor=" + first["next_cursor"].get<std::string>()).json();
  EXPECT_EQ(second["items"][0]["name"], "alpha");
  EXPECT_TRUE(second["next_cursor"].is_null());
  EXPECT_EQ(get("/api/v1/jobs?order=asc").json()["items"][0]["name"], "alpha");
  EXPECT_EQ(get("/api/v1/jobs?phase=training").json()["items"].size(), 1u);
  EXPECT_EQ(get("/api/v1/jobs?phase=training,completed").json()["items"].size(), 2u);
  EXPECT_EQ(get("/api/v1/jobs?phase=queued").json()["items"].size(), 0u);
}

TEST_F(ApiTest, SearchFindsJobsByNameAndDescription) {
  ASSERT_EQ(post("/api/v1/jobs", kToml,
                 "name = \"mine\"\ndescription = \"after the alphabet\"\n[data]\ntrain = \"/x\"\n")
                .status,
            201);
  const Json found = get("/api/v1/jobs?search=alpha").json()["items"];
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["description"], "after the alphabet");
  EXPECT_EQ(found[0]["spec"]["description"], "after the alphabet");
  EXPECT_EQ(found[1]["name"], "alpha");
  EXPECT_EQ(found[1]["description"], "");
}

TEST_F(ApiTest, BadListParametersAreNamed) {
  for (const char* target :
       {"limit=0", "limit=501", "limit=x", "order=up", "phase=running", "cursor=***", "cursor="}) {
    const Received received = get(std::string("/api/v1/jobs?") + target);
    expect_problem(received, 400, "invalid-request");
    EXPECT_EQ("/query/" + std::string(target).substr(0, std::string(target).find('=')),
              error_pointer(received));
  }
  expect_problem(get("/api/v1/jobs?cursor=" + rest::make_cursor("rounds", 1)), 410,
                 "cursor-expired");
}

TEST_F(ApiTest, AgentsAreTakenOutOfWorkAndPutBack) {
  EXPECT_EQ(get("/api/v1/agents/agt_1").json()["cordoned"], false);
  EXPECT_TRUE(get("/api/v1/agents/agt_1").json()["quarantine"].is_null());
  EXPECT_TRUE(get("/api/v1/agents/agt_1").json()["memory_refusals"].empty());
  EXPECT_TRUE(get("/api/v1/agents/agt_1").json()["device_failures"].empty());
  EXPECT_EQ(get("/api/v1/agents/agt_2").json()["device_failures"][0]["reason"],
            "exited with code 1: no driver");
  EXPECT_TRUE(get("/api/v1/agents/agt_1").json()["cordoned_devices"].empty());
  const Received cordoned = post("/api/v1/agents/agt_1/cordon", "", "");
  EXPECT_EQ(cordoned.status, 202);
  EXPECT_EQ(cordoned.json()["cordoned"], true);
  EXPECT_EQ(post("/api/v1/agents/agent-1/uncordon", "", "").json()["cordoned"], false);
  EXPECT_EQ(post("/api/v1/agents/agt_1/drain", "", "").json()["state"], "draining");
  EXPECT_EQ(get("/api/v1/agents/agt_1").json()["cordoned"], true);
  expect_problem(post("/api/v1/agents/agt_99/drain", "", ""), 404, "not-found");
  expect_problem(get("/api/v1/agents/agt_1/drain"), 405, "method-not-allowed");
}

TEST_F(ApiTest, EveryExampleIsAJobThatWouldBeAccepted) {
  const Json examples = get("/api/v1/examples").json()["items"];
  ASSERT_FALSE(examples.empty());
  for (const Json& example : examples) {
    EXPECT_FALSE(example["summary"].get<std::string>().empty());
    const Received dry =
        post("/api/v1/jobs?dry_run=true", kToml, example["toml"].get<std::string>());
    EXPECT_EQ(dry.status, 200) << example["name"] << ": " << dry.body;
  }
}

TEST_F(ApiTest, JoiningIsSaidWithoutTheSecret) {
  const Json join = get("/api/v1/join").json();
  EXPECT_EQ(join, Json::parse(R"({"grpc":"","token_file":""})"));
}

TEST_F(ApiTest, AJobIsCreatedFromJsonAndFromToml) {
  const Received json =
      post("/api/v1/jobs", kJson, R"({"name":"from-json","data":{"train":"/x.txt"}})");
  ASSERT_EQ(json.status, 201) << json.body;
  EXPECT_EQ(json.json()["name"], "from-json");
  const Received found = get(json.header("location"));
  EXPECT_EQ(found.json()["id"], json.json()["id"]);
  const Received toml =
      post("/api/v1/jobs", kToml, "name = \"from-toml\"\n[data]\ntrain = \"/x.txt\"\n");
  EXPECT_EQ(toml.status, 201) << toml.body;
}

TEST_F(ApiTest, ARelativePathBeginsInTheFolderOfTheSubmitter) {
  const std::string toml = "name = \"near\"\n[data]\ntrain = \"../x.txt\"\n";
  const Received made = post("/api/v1/jobs?folder=%2Fdata%2Fjobs", kToml, toml);
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.json()["spec"]["data"]["train"], "/data/x.txt");
  EXPECT_EQ(get("/api/v1/jobs/near/spec").body, toml) << "the text stays as it was written";
  const Received absolute = post("/api/v1/jobs?dry_run=true&folder=/data", kToml,
                                 "name = \"far\"\n[data]\ntrain = \"/y.txt\"\n");
  EXPECT_EQ(absolute.json()["spec"]["data"]["train"], "/y.txt");
  expect_problem(post("/api/v1/jobs?folder=jobs", kToml, toml), 400, "invalid-request");
  const std::string deep = "/api/v1/jobs?folder=/" + std::string(5000, 'd');
  const Received too_long = post(deep, kToml, "name = \"deep\"\n[data]\ntrain = \"y.txt\"\n");
  expect_problem(too_long, 422, "invalid-spec");
  EXPECT_EQ(too_long.json()["errors"][0]["pointer"], "/data/train");
}

TEST_F(ApiTest, ADryRunAcceptsAndStoresNothing) {
  const std::string body = R"({"name":"tried","data":{"train":"/x.txt"}})";
  const Received received = post("/api/v1/jobs?dry_run=true", kJson, body);
  ASSERT_EQ(received.status, 200) << received.body;
  EXPECT_EQ(received.json()["spec"]["name"], "tried");
  EXPECT_GT(received.json()["estimate"]["parameters"], 0);
  EXPECT_EQ(get("/api/v1/jobs/tried").status, 404);
  expect_problem(post("/api/v1/jobs?dry_run=maybe", kJson, body), 400, "invalid-request");
}

TEST_F(ApiTest, ADryRunTellsThePlan) {
  cluster_.plan = {.reason = PlacementReason::kPlaced,
                   .places = {{AgentId(1), 0, 0}, {AgentId(2), 0, 1}},
                   .cut = {{0, 3}, {3, 6}},
                   .forecast = {.tokens_per_s = 1000, .step_s = 2, .round_s = 100, .bubble = 0.2},
                   .wanted = 2};
  const std::string body = R"({"name":"tried","data":{"train":"/x.txt"}})";
  const Json plan = post("/api/v1/jobs?dry_run=true", kJson, body).json()["plan"];
  EXPECT_EQ(plan["placeable"], true);
  EXPECT_EQ(plan["reason"], "placed");
  ASSERT_EQ(plan["stages"].size(), 2u);
  EXPECT_EQ(plan["stages"][1]["units"], (Json{{"first", 3}, {"last", 6}}));
  EXPECT_EQ(plan["stages"][0]["layers"], 2);
  EXPECT_EQ(plan["stages"][1]["layers"], 2);
  EXPECT_GT(plan["stages"][1]["memory_bytes"], 0);
  EXPECT_EQ(plan["placement"][1]["agent"], "agt_2");
  EXPECT_EQ(plan["placement"][1]["agent_name"], "agent-2");
  EXPECT_EQ(plan["placement"][1]["stage"], 1);
  EXPECT_EQ(plan["forecast"]["tokens_per_second"], 1000);
  EXPECT_EQ(plan["forecast"]["bubble"], 0.2);
}

TEST_F(ApiTest, ADryRunOfATakenNameChecksTheRestAndNotesIt) {
  const std::string body = R"({"name":"alpha","data":{"train":"relative.txt"}})";
  const Received received = post("/api/v1/jobs?dry_run=true", kJson, body);
  ASSERT_EQ(received.status, 200) << received.body;
  const Json notes = received.json()["notes"];
  ASSERT_EQ(notes.size(), 2u) << notes;
  EXPECT_NE(notes[0].get<std::string>().find("taken by job_7, which is training"),
            std::string::npos);
  EXPECT_NE(notes[1].get<std::string>().find("relative path"), std::string::npos);
  EXPECT_EQ(received.json()["data"]["checked"], false);
  const Received over = post("/api/v1/jobs?dry_run=true", kJson,
                             R"({"name":"beta","data":{"train":"relative.txt"}})");
  EXPECT_EQ(over.json()["notes"].size(), 1u) << "beta has ended";
}

TEST_F(ApiTest, AnAgentThatIsGoneIsFoundByItsName) {
  {
    const MutexLock lock(cluster_.tables.mutex);
    AgentRecord gone = cluster_.tables.agents.at(2);
    gone.id = AgentId(90);
    gone.name = "left-long-ago";
    gone.state = AgentState::kGone;
    gone.gone = AgentGone::kLost;
    cluster_.tables.agents[90] = gone;
    gone.id = AgentId(91);
    gone.name = "agent-1";  // another one is here under this name
    cluster_.tables.agents[91] = gone;
  }
  const Received found = get("/api/v1/agents/left-long-ago");
  ASSERT_EQ(found.status, 200) << found.body;
  EXPECT_EQ(found.json()["id"], "agt_90");
  EXPECT_EQ(found.json()["gone_reason"], "lost");
  EXPECT_EQ(get("/api/v1/agents/agent-1").json()["id"], "agt_1");
  expect_problem(post("/api/v1/agents/left-long-ago/drain", "", ""), 409, "conflict");
}

TEST_F(ApiTest, ADrainIsDoneWhenNoReplicaIsLeft) {
  LiveView live = *cluster_.live();
  live.agents.at(AgentId(1)).replicas = 1;
  cluster_.set_live(live);
  EXPECT_EQ(post("/api/v1/agents/agt_1/drain", "", "").json()["drained"], false);
  live.agents.at(AgentId(1)).replicas = 0;
  cluster_.set_live(live);
  EXPECT_EQ(get("/api/v1/agents/agt_1").json()["drained"], true);
  EXPECT_EQ(get("/api/v1/agents/agt_2").json()["drained"], false) << "it is not being drained";
}

TEST_F(ApiTest, ADryRunThatCannotBePlacedYetSaysWhatIsMissing) {
  cluster_.plan = {.reason = PlacementReason::kTooFewDevices,
                   .needed = Bytes(100),
                   .largest = Bytes(300),
                   .free = 2,
                   .fitting = 2,
                   .wanted = 3,
                   .missing = 1};
  const Received received =
      post("/api/v1/jobs?dry_run=true", kJson, R"({"name":"tried","data":{"train":"/x.txt"}})");
  ASSERT_EQ(received.status, 200) << received.body;
  const Json plan = received.json()["plan"];
  EXPECT_EQ(plan["placeable"], false);
  EXPECT_EQ(plan["reason"], "too_few_devices");
  EXPECT_FALSE(plan["detail"].get<std::string>().empty());
  EXPECT_EQ(plan["devices"]["missing"], 1);
  EXPECT_EQ(plan["devices"]["wanted"], 3);
  EXPECT_EQ(plan["memory_needed_bytes"], 100);
  EXPECT_TRUE(plan["forecast"]["tokens_per_second"].is_null());
}

TEST_F(ApiTest, TheTopologyJoinsRecordsAndTraffic) {
  testing::fill_pipeline(cluster_);
  const Json topology = get("/api/v1/jobs/piped/topology").json();
  EXPECT_EQ(topology["job"], "job_9");
  ASSERT_EQ(topology["stages"].size(), 2u);
  EXPECT_EQ(topology["stages"][1]["units"], (Json{{"first", 3}, {"last", 6}}));
  ASSERT_EQ(topology["replicas"].size(), 2u);
  const Json& router = topology["replicas"][0];
  EXPECT_EQ(router["id"], "rep_11");
  EXPECT_EQ(router["agent"], "agt_1");
  EXPECT_EQ(router["health"], "green");
  EXPECT_EQ(router["gflops"], 10);
  EXPECT_EQ(router["queued"], 2);
  EXPECT_EQ(router["in_flight"], 3);
  EXPECT_EQ(router["service_s"], 0.04);
  EXPECT_EQ(router["microbatches_per_second"], 4);
  EXPECT_EQ(router["busy"], 0.5);
  EXPECT_TRUE(topology["replicas"][1]["busy"].is_null());  // it has said nothing yet
  ASSERT_EQ(topology["links"].size(), 1u);                 // none to a replica that has ended
  const Json& link = topology["links"][0];
  EXPECT_EQ(link["from"], "rep_11");
  EXPECT_EQ(link["to"], "rep_12");
  EXPECT_EQ(link["bytes_per_second"], 1500);
  EXPECT_EQ(link["round_trip_s"], 0.01);
}

TEST_F(ApiTest, TheNetworkHoldsTheLinesOfAgentsThatAreHere) {
  const Json network = get("/api/v1/network").json();
  ASSERT_EQ(network["items"].size(), 2u);  // the third ends at an agent that is gone
  const Json& link = network["items"][0];
  EXPECT_EQ(link["from"], "agt_1");
  EXPECT_EQ(link["to"], "agt_2");
  EXPECT_EQ(link["reached"], true);
  EXPECT_EQ(link["round_trip_s"], 0.02);
  EXPECT_EQ(link["bytes_per_second"], 25e6);
  EXPECT_DOUBLE_EQ(link["age_s"].get<double>(), 60);
  const Json& broken = network["items"][1];
  EXPECT_EQ(broken["reached"], false);
  EXPECT_TRUE(broken["bytes_per_second"].is_null());
}

TEST_F(ApiTest, TheTopologyOfOneStageHasOneColumnAndNoLinks) {
  const Json topology = get("/api/v1/jobs/alpha/topology").json();
  ASSERT_EQ(topology["stages"].size(), 1u);
  EXPECT_EQ(topology["stages"][0]["layers"], 4);
  EXPECT_EQ(topology["replicas"].size(), 2u);
  EXPECT_EQ(topology["replicas"][0]["stage"], 0);
  EXPECT_TRUE(topology["replicas"][0]["queued"].is_null());
  EXPECT_TRUE(topology["links"].empty());
  EXPECT_EQ(get("/api/v1/jobs/gamma/topology").status, 404);
}

TEST_F(ApiTest, RefusedJobsNameTheField) {
  expect_problem(post("/api/v1/jobs", kJson, "{\"name\": "), 400, "malformed-spec");
  expect_problem(post("/api/v1/jobs", kToml, "name = \n"), 400, "malformed-spec");
  const Received unknown =
      post("/api/v1/jobs", kJson, R"({"name":"a","data":{"train":"/x"},"train":{"stepps":5}})");
  expect_problem(unknown, 422, "invalid-spec");
  EXPECT_EQ(error_pointer(unknown), "/train/stepps");
  const Received bad =
      post("/api/v1/jobs", kJson, R"({"name":"a","data":{"train":"/x"},"train":{"lr":-1}})");
  expect_problem(bad, 422, "invalid-spec");
  EXPECT_EQ(error_pointer(bad), "/train/lr");
  const Received refused =
      post("/api/v1/jobs", kJson, R"({"name":"too-big","data":{"train":"/x"}})");
  expect_problem(refused, 422, "invalid-spec");
  EXPECT_EQ(error_pointer(refused), "/model/layers");
  const Received taken = post("/api/v1/jobs", kJson, R"({"name":"alpha","data":{"train":"/x"}})");
  expect_problem(taken, 409, "name-taken");
  EXPECT_EQ(error_pointer(taken), "/name");
  expect_problem(post("/api/v1/jobs", "Content-Type: text/plain\r\n", "{}"), 415,
                 "unsupported-type");
  expect_problem(post("/api/v1/jobs", "", "{}"), 415, "unsupported-type");
}

TEST_F(ApiTest, BytesThatAreNotTextAreRefusedAsText) {
  for (const std::string& body : {std::string("\xff\xfe\x00garbage", 10), std::string(60'000, '['),
                                  std::string(R"({"name":")") + "\xc3\x28" + R"("})"}) {
    const Received received = post("/api/v1/jobs", kJson, body);
    EXPECT_TRUE(received.status == 400 || received.status == 422) << received.status;
    EXPECT_TRUE(Json::accept(received.body));
  }
}

TEST_F(ApiTest, CancelAnswersWithTheJob) {
  const Received received = post("/api/v1/jobs/alpha/cancel", "", "");
  EXPECT_EQ(received.status, 202);
  EXPECT_EQ(received.json()["status"]["desired"], "cancel");
  expect_problem(post("/api/v1/jobs/beta/cancel", "", ""), 409, "conflict");
  expect_problem(post("/api/v1/jobs/gamma/cancel", "", ""), 404, "not-found");
}

TEST_F(ApiTest, PauseAndResumeAnswerWithTheJob) {
  const Received paused = post("/api/v1/jobs/alpha/pause", "", "");
  EXPECT_EQ(paused.status, 202);
  EXPECT_EQ(paused.json()["status"]["desired"], "pause");
  const Received resumed = post("/api/v1/jobs/alpha/resume", "", "");
  EXPECT_EQ(resumed.status, 202);
  EXPECT_EQ(resumed.json()["status"]["desired"], "run");
  for (const std::string verb : {"pause", "resume"}) {
    expect_problem(post("/api/v1/jobs/beta/" + verb, "", ""), 409, "conflict");
    expect_problem(post("/api/v1/jobs/gamma/" + verb, "", ""), 404, "not-found");
  }
}

TEST_F(ApiTest, ARunningJobCanBeChanged) {
  const auto patch = [&](const std::string& job, const std::string& body) {
    return testing::ask(address_, "PATCH", "/api/v1/jobs/" + job,
                        "Content-Type: application/json\r\n", body);
  };
  const Received changed = patch("alpha", R"({"outer_lr": 0.4})");
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(changed.json()["status"]["outer_lr"], 0.4);
  EXPECT_EQ(changed.json()["status"]["priority"], kPriorityDefault) << "what is not given stays";
  const Received raised = patch("alpha", R"({"priority": 70})");
  EXPECT_EQ(raised.json()["status"]["priority"], 70);
  EXPECT_EQ(raised.json()["status"]["outer_lr"], 0.4);
  expect_problem(patch("alpha", R"({"priority": 7.5})"), 400, "invalid-request");
  expect_problem(patch("alpha", "{}"), 400, "invalid-request");
  expect_problem(patch("alpha", R"({"outer_lr": 11})"), 422, "invalid-spec");
  expect_problem(patch("alpha", R"({"lr": 0.4})"), 400, "invalid-request");
  expect_problem(patch("alpha", R"({"outer_lr": "fast"})"), 400, "invalid-request");
  expect_problem(patch("alpha", "outer_lr"), 400, "invalid-request");
  expect_problem(patch("beta", R"({"outer_lr": 0.4})"), 409, "conflict");
  expect_problem(patch("gamma", R"({"outer_lr": 0.4})"), 404, "not-found");
}

TEST_F(ApiTest, RoundsCarryTheirContributions) {
  const Json rounds = get("/api/v1/jobs/alpha/rounds").json();
  ASSERT_EQ(rounds["items"].size(), 3u);
  const Json& round = rounds["items"][0];
  EXPECT_EQ(round["round"], 1);
  EXPECT_EQ(round["state"], "committed");
  EXPECT_EQ(round["bytes_sent"], 2000);
  EXPECT_EQ(round["bytes_received"], 1800);
  EXPECT_EQ(round["seconds"]["train"], 11);
  EXPECT_EQ(round["seconds"]["reduce"], 1);
  EXPECT_EQ(round["seconds"]["vote"], 1);
  EXPECT_EQ(round["compute_utilisation"], 0.85);
  EXPECT_EQ(round["digest"].get<std::string>().size(), 32u);
  ASSERT_EQ(round["contributions"].size(), 2u);
  const Json& item = round["contributions"][0];
  EXPECT_EQ(item["group"], nullptr) << "the round does not go in groups";
  EXPECT_EQ(item["role"], "trainer");
  EXPECT_EQ(item["replica"], "rep_1");
  EXPECT_EQ(item["agent"], "agt_1");
  EXPECT_EQ(item["digest"], round["digest"]);
  EXPECT_EQ(item["anchor_digest"], round["anchor_digest"]);
  EXPECT_EQ(item["tokens"], 1600);
  EXPECT_EQ(item["phases"]["train_s"], 8.5);
  EXPECT_EQ(item["phases"]["stall_s"], 1.5);
  EXPECT_EQ(item["phases"]["wait_s"], 1);
  EXPECT_EQ(item["phases"]["reduce_s"], 0.75);
  EXPECT_EQ(item["phases"]["vote_s"], 1);
  const Json& open = rounds["items"][2];
  EXPECT_EQ(open["state"], "open");
  for (const char* name : {"frozen_at", "committed_at", "digest", "train_loss"})
    EXPECT_TRUE(open[name].is_null()) << name;
  EXPECT_EQ(get("/api/v1/jobs/alpha/rounds?order=desc&limit=1").json()["items"][0]["round"], 3);
}

TEST_F(ApiTest, OneRoundByNumber) {
  EXPECT_EQ(get("/api/v1/jobs/alpha/rounds/2").json()["round"], 2);
  for (const char* number : {"0", "4", "x", "-1", "2x"})
    expect_problem(get(std::string("/api/v1/jobs/alpha/rounds/") + number), 404, "not-found");
}

TEST_F(ApiTest, ReplicasShowWhatTheySayNow) {
  const Json replicas = get("/api/v1/jobs/alpha/replicas").json();
  ASSERT_EQ(replicas["items"].size(), 2u);
  EXPECT_EQ(replicas["items"][0]["state"], "serving");
  EXPECT_EQ(replicas["items"][0]["live"]["inner_step"], 101);
  EXPECT_TRUE(replicas["items"][0]["failure"].is_null());
}

TEST_F(ApiTest, EventsAreFilteredAndPaged) {
  EXPECT_EQ(get("/api/v1/events").json()["items"][0]["seq"], 3);
  EXPECT_EQ(get("/api/v1/events?job=alpha").json()["items"].size(), 2u);
  EXPECT_EQ(get("/api/v1/events?severity=warning").json()["items"][0]["kind"], "replica_failed");
  const Json page = get("/api/v1/events?order=asc&limit=2").json();
  EXPECT_EQ(get("/api/v1/events?order=asc&cursor=" + page["next_cursor"].get<std::string>())
                .json()["items"][0]["seq"],
            3);
  expect_problem(get("/api/v1/events?job=gamma"), 404, "not-found");
  expect_problem(get("/api/v1/events?severity=loud"), 400, "invalid-request");
}

TEST_F(ApiTest, SeriesByName) {
  EXPECT_EQ(get("/api/v1/jobs/alpha/series").json()["items"][0],
            (Json{{"name", "train_loss"}, {"newest", {{"step", 2}, {"value", 2.25}}}}));
  const Json series = get("/api/v1/jobs/alpha/series/"
                          "query?name=train_loss&x=round&by=replica&from=0&to=9.5&max_points=10")
                          .json();
  EXPECT_EQ(series["series"][0]["y"], (Json{2.5, 2.25}));
  EXPECT_EQ(series["by"], "replica");
  for (const char* query :
       {"", "x=step", "name=train_loss&x=hours", "name=train_loss&by=stage",
        "name=train_loss&from=abc", "name=train_loss&to=nan", "name=train_loss&max_points=0"})
    expect_problem(get(std::string("/api/v1/jobs/alpha/series/query?") + query), 400,
                   "invalid-request");
}

TEST_F(ApiTest, CheckpointsAndTheirFiles) {
  EXPECT_EQ(get("/api/v1/jobs/alpha/checkpoints").json()["items"].size(), 2u);
  EXPECT_EQ(get("/api/v1/checkpoints/ckpt_5").json()["files"][0]["path"], "model.bin");
  expect_problem(get("/api/v1/checkpoints/ckpt_9"), 404, "not-found");
  const Received whole = get("/api/v1/checkpoints/ckpt_5/files/model.bin");
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, "0123456789");
  EXPECT_EQ(whole.header("etag"), "\"" + std::string(64, 'a') + "\"");
  EXPECT_EQ(get("/api/v1/checkpoints/ckpt_5/files/state/outer.bin").body, "abcd");
  EXPECT_EQ(get("/api/v1/checkpoints/ckpt_5/files/state%2Fouter.bin").body, "abcd");
  const Received head = ask(address_, "HEAD", "/api/v1/checkpoints/ckpt_5/files/model.bin");
  EXPECT_EQ(head.header("content-length"), "10");
}

TEST_F(ApiTest, RangesAndConditionsOfFiles) {
  const std::string file = "/api/v1/checkpoints/ckpt_5/files/model.bin";
  const std::string etag = "\"" + std::string(64, 'a') + "\"";
  const Received part = get(file, "Range: bytes=2-4\r\n");
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, "234");
  EXPECT_EQ(part.header("content-range"), "bytes 2-4/10");
  EXPECT_EQ(get(file, "Range: bytes=7-\r\n").body, "789");
  EXPECT_EQ(get(file, "Range: bytes=-2\r\n").body, "89");
  EXPECT_EQ(get(file, "Range: bytes=8-100\r\n").body, "89");
  EXPECT_EQ(get(file, "Range: bytes=-100\r\n").body, "0123456789");
  for (const char* ignored : {"bytes=x-y", "bytes=4-2", "bytes=0-1,3-4", "lines=1-2", "bytes=-",
                              "bytes=--5", "bytes=1-x", "bytes=x-5", "bytes=1"})
    EXPECT_EQ(get(file, std::string("Range: ") + ignored + "\r\n").status, 200) << ignored;
  const Received beyond = get(file, "Range: bytes=10-\r\n");
  expect_problem(beyond, 416, "range-not-satisfiable");
  EXPECT_EQ(beyond.header("content-range"), "bytes */10");
  EXPECT_EQ(get(file, "Range: bytes=0-1\r\nIf-Range: \"other\"\r\n").status, 200);
  EXPECT_EQ(get(file, "Range: bytes=0-1\r\nIf-Range: " + etag + "\r\n").status, 206);
  EXPECT_EQ(get(file, "If-None-Match: " + etag + "\r\n").status, 304);
}

TEST_F(ApiTest, OnlyListedAndSoundFilesAreServed) {
  const std::string files = "/api/v1/checkpoints/ckpt_5/files/";
  for (const char* path : {"secret.txt", "../ckpt_5/secret.txt", "..%2F..%2F..%2Fetc%2Fpasswd",
                           "%2Fetc%2Fpasswd", "state"})
    expect_problem(get(files + path), 404, "not-found");
  expect_problem(get(files + "link.bin"), 500, "data-loss");
  expect_problem(get(files + "short.bin"), 500, "data-loss");
  expect_problem(get("/api/v1/checkpoints/ckpt_6/files/model.bin"), 409, "conflict");
}

TEST_F(ApiTest, ALargeFileArrivesWhole) {
  const std::int64_t size = (3 << 20) + 17;
  std::string content(static_cast<std::size_t>(size), '\0');
  for (std::size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<char>(i * 31 + i / 4096);
  std::ofstream(root_ / "ckpt_5/large.bin", std::ios::binary) << content;
  {
    const MutexLock lock(cluster_.tables.mutex);
    cluster_.tables.checkpoints[5].parts[0].files.push_back(
        {"large.bin", Bytes(size), std::string(64, 'e')});
  }
  Client client(address_);
  EXPECT_TRUE(client.ask("GET", "/api/v1/checkpoints/ckpt_5/files/large.bin").body == content);
  EXPECT_TRUE(client
                  .ask("GET", "/api/v1/checkpoints/ckpt_5/files/large.bin",
                       "Range: bytes=1000000-2999999\r\n")
                  .body == content.substr(1'000'000, 2'000'000));
}

TEST_F(ApiTest, AboutTheServer) {
  EXPECT_EQ(get("/api/v1/version").json()["boot_epoch"], 3);
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/healthz").status, 200);
}

TEST_F(ApiTest, NotReadySaysWhyWhenAsked) {
  cluster_.ready.problems = {{"disk", "the data folder is full"}};
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_EQ(get("/readyz").body, "not ready\n");
  EXPECT_THAT(get("/readyz?verbose").body, HasSubstr("disk: the data folder is full"));
  EXPECT_EQ(get("/livez").status, 200);
}

}  // namespace
}  // namespace shoal::coordinator
