// Checkpoints of all jobs, what people do to them, and jobs that are removed.
#include <gmock/gmock.h>

#include "coordinator/service/http/server_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ask;
using testing::Received;
using Json = nlohmann::json;

class CheckpointRoutes : public testing::ServerFixture {
 protected:
  void SetUp() override { start(); }
  Received post(std::string_view target, std::string_view headers, std::string_view body) {
    return ask(address_, "POST", target, headers, body);
  }
  std::string error_pointer(const Received& received) {
    return received.json()["errors"][0]["pointer"].get<std::string>();
  }
};

TEST_F(CheckpointRoutes, AllCheckpointsAreListedWithTheirJobs) {
  const Json items = get("/api/v1/checkpoints").json()["items"];
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0]["id"], "ckpt_6") << "newest first";
  EXPECT_EQ(items[0]["job_name"], "alpha");
  EXPECT_EQ(get("/api/v1/checkpoints?state=stored").json()["items"].size(), 1u);
  EXPECT_EQ(get("/api/v1/checkpoints?state=stored&state=uploading").json()["items"].size(), 2u);
  const Received refused = get("/api/v1/checkpoints?state=lost");
  expect_problem(refused, 400, "invalid-request");
  EXPECT_EQ(error_pointer(refused), "/query/state");
}

TEST_F(CheckpointRoutes, CheckpointsArePinnedAndRemoved) {
  const Received pinned = post("/api/v1/checkpoints/ckpt_5/pin", "", "");
  EXPECT_EQ(pinned.status, 200);
  EXPECT_EQ(pinned.json()["pinned"], true);
  EXPECT_EQ(post("/api/v1/checkpoints/ckpt_5/unpin", "", "").json()["pinned"], false);
  const Received refused = ask(address_, "DELETE", "/api/v1/checkpoints/ckpt_5");
  expect_problem(refused, 409, "conflict");
  EXPECT_EQ(error_pointer(refused), "/newest_cut");
  const Received removed = ask(address_, "DELETE", "/api/v1/checkpoints/ckpt_5?force=true");
  EXPECT_EQ(removed.status, 200);
  EXPECT_EQ(removed.json()["state"], "deleted");
  expect_problem(ask(address_, "DELETE", "/api/v1/checkpoints/ckpt_9"), 404, "not-found");
  std::vector<std::string> actions;
  const Json audit = get("/api/v1/audit").json();
  for (const Json& entry : audit["items"]) actions.push_back(entry["action"]);
  EXPECT_THAT(actions,
              ::testing::IsSupersetOf({"pin_checkpoint", "unpin_checkpoint", "remove_checkpoint"}));
}

TEST_F(CheckpointRoutes, AJobThatHasEndedIsRemoved) {
  expect_problem(ask(address_, "DELETE", "/api/v1/jobs/alpha"), 409, "conflict");
  EXPECT_EQ(ask(address_, "DELETE", "/api/v1/jobs/beta").json()["name"], "beta");
  expect_problem(get("/api/v1/jobs/beta"), 404, "not-found");
}

}  // namespace
}  // namespace shoal::coordinator
