// The contract and the server agree: every route is described, everything described is a route,
// with the same parameters, and every reference inside the document leads somewhere.
#include "coordinator/service/http/routes/openapi.h"

#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "coordinator/service/http/router.h"
#include "coordinator/service/http/server_test_util.h"

namespace shoal::coordinator::rest {
namespace {

const nlohmann::json& document() {
  static const auto kDocument = nlohmann::json::parse(openapi_document());
  return kDocument;
}

// OpenAPI has no template that spans segments.
std::string described_path(std::string_view path) {
  std::string text(path);
  const std::size_t dots = text.find("...}");
  return dots == std::string::npos ? text : text.replace(dots, 4, "}");
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::set<std::string> parameters(const nlohmann::json& operation, const std::string& where) {
  std::set<std::string> names;
  for (const auto& item : operation.value("parameters", nlohmann::json::array())) {
    const auto& parameter =
        item.contains("$ref")
            ? document().at(nlohmann::json::json_pointer(item["$ref"].get<std::string>().substr(1)))
            : item;
    if (parameter["in"] == where) names.insert(parameter["name"]);
  }
  return names;
}

TEST(OpenApi, PathsAreTheRouteTable) {
  std::set<std::string> described, served;
  for (const auto& [path, operations] : document()["paths"].items())
    for (const auto& [method, operation] : operations.items())
      described.insert(method + " " + path);
  for (const Route& route : route_table())
    served.insert(lower(route.method) + " " + described_path(route.path));
  EXPECT_EQ(described, served);
}

TEST(OpenApi, QueryParametersAreThoseOfTheRoutes) {
  for (const Route& route : route_table()) {
    const auto& operation = document()["paths"][described_path(route.path)][lower(route.method)];
    EXPECT_EQ(parameters(operation, "query"),
              std::set<std::string>(route.query.begin(), route.query.end()))
        << route.path;
  }
}

// Without a login: where the table says so. With one: the action that a scope must allow.
TEST(OpenApi, SecurityIsThatOfTheRoutes) {
  for (const Route& route : route_table()) {
    const auto& operation = document()["paths"][described_path(route.path)][lower(route.method)];
    const bool open = route.access.door == Door::kOpen || route.access.door == Door::kProof;
    EXPECT_EQ(operation.contains("security"), open) << route.path;
    const bool has_action = route.access.door == Door::kAction;
    EXPECT_EQ(operation.value("x-action", ""),
              has_action ? std::string(to_string(route.access.action)) : "")
        << route.path;
  }
  EXPECT_EQ(document()["security"].size(), document()["components"]["securitySchemes"].size());
}

TEST(OpenApi, EveryOperationHasSummaryIdAndResponses) {
  std::set<std::string> ids;
  for (const auto& [path, operations] : document()["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      EXPECT_TRUE(operation.contains("summary")) << path;
      EXPECT_TRUE(ids.insert(operation.at("operationId")).second) << path;
      EXPECT_FALSE(operation.at("responses").empty()) << path;
    }
  }
}

void check_references(const nlohmann::json& json) {
  if (json.is_object() && json.contains("$ref")) {
    const nlohmann::json::json_pointer target(json["$ref"].get<std::string>().substr(1));
    EXPECT_TRUE(document().contains(target)) << json["$ref"];
  }
  if (json.is_structured())
    for (const auto& child : json) check_references(child);
}

TEST(OpenApi, ReferencesLeadSomewhere) { check_references(document()); }

// Every key that a schema describes is answered, and nothing beside it.
void expect_keys(const char* schema, const nlohmann::json& json) {
  std::set<std::string> described, answered;
  for (const auto& [name, value] :
       document()["components"]["schemas"][schema]["properties"].items())
    described.insert(name);
  for (const auto& [name, value] : json.items()) answered.insert(name);
  EXPECT_EQ(described, answered) << schema;
}

class OpenApiAnswers : public testing::ServerFixture {};

TEST_F(OpenApiAnswers, HaveTheDescribedKeys) {
  start();
  const auto job = get("/api/v1/jobs/alpha").json();
  expect_keys("Job", job);
  expect_keys("JobStatus", job["status"]);
  expect_keys("JobProgress", job["status"]["progress"]);
  const auto round = get("/api/v1/jobs/alpha/rounds/1").json();
  expect_keys("Round", round);
  expect_keys("RoundSeconds", round["seconds"]);
  expect_keys("Contribution", round["contributions"][0]);
  expect_keys("ContributionPhases", round["contributions"][0]["phases"]);
  expect_keys("Replica", get("/api/v1/jobs/alpha/replicas").json()["items"][0]);
  const auto checkpoint = get("/api/v1/checkpoints/ckpt_5").json();
  expect_keys("Checkpoint", checkpoint);
  expect_keys("FileEntry", checkpoint["files"][0]);
  const auto agent = get("/api/v1/agents/agt_1").json();
  expect_keys("Agent", agent);
  expect_keys("Device", agent["devices"][0]);
  expect_keys("DeviceHistory", get("/api/v1/agents/agt_1/devices/history").json()["items"][0]);
  expect_keys("Event", get("/api/v1/events").json()["items"][0]);
  expect_keys("Version", get("/api/v1/version").json());
  expect_keys("Example", get("/api/v1/examples").json()["items"][0]);
  expect_keys("Join", get("/api/v1/join").json());
  expect_keys("Principal", get("/api/v1/session").json());
  expect_keys("ApiToken", get("/api/v1/tokens").json()["items"][0]);
  testing::ask(address_, "POST", "/api/v1/tickets");
  expect_keys("Audit", get("/api/v1/audit").json()["items"][0]);
  testing::fill_pipeline(cluster_);
  const auto topology = get("/api/v1/jobs/piped/topology").json();
  expect_keys("Topology", topology);
  expect_keys("TopologyReplica", topology["replicas"][0]);
  expect_keys("TopologyLink", topology["links"][0]);
  expect_keys("Stage", get("/api/v1/jobs/alpha/topology").json()["stages"][0]);
  const auto series = get("/api/v1/jobs/alpha/series/query?name=train_loss").json();
  expect_keys("Series", series);
  expect_keys("SeriesLine", series["series"][0]);
}

TEST_F(OpenApiAnswers, ADryRunHasTheDescribedKeys) {
  cluster_.plan.places = {{AgentId(1), 0, 0}};
  start();
  const auto answer = testing::ask(address_, "POST", "/api/v1/jobs?dry_run=true",
                                   "Content-Type: application/json\r\n",
                                   R"({"name":"tried","data":{"train":"/x.txt"}})")
                          .json();
  expect_keys("DryRun", answer);
  expect_keys("Plan", answer["plan"]);
  expect_keys("Place", answer["plan"]["placement"][0]);
  expect_keys("Forecast", answer["plan"]["forecast"]);
  expect_keys("PlanDevices", answer["plan"]["devices"]);
}

}  // namespace
}  // namespace shoal::coordinator::rest
