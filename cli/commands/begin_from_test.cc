// What a job takes over with the weights of another.
#include "cli/commands/begin_from.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json model() {
  return Json::parse(R"({"family": "llama", "layers": 2, "tie_embeddings": true, "init": "hf:/x",
    "rope": {"theta": 10000.0, "scaling": "none", "factor": 1.0, "original_context": 8192}})");
}

TEST(BeginFrom, TakesWhatTheFileLeavesOut) {
  EXPECT_THAT(fields_to_take(model(), Json::parse(R"({"model": {"layers": 3}})")),
              ElementsAre("model.family=\"llama\"", "model.tie_embeddings=true"));
}

TEST(BeginFrom, APipelineUntiesItsHead) {
  const auto file =
      Json::parse(R"({"model": {"family": "llama", "layers": 2}, "swarm": {"stages": 2}})");
  EXPECT_THAT(fields_to_take(model(), file), IsEmpty());
}

TEST(BeginFrom, TakesRotaryPositionsAsFarAsTheyHaveAnEffect) {
  Json scaled = model();
  scaled["rope"]["theta"] = 5e5;
  scaled["rope"]["scaling"] = "linear";
  const auto file = Json::parse(R"({"model": {"family": "llama", "layers": 2,
    "tie_embeddings": true, "rope": {"factor": 2}}})");
  EXPECT_THAT(fields_to_take(scaled, file),
              ElementsAre("model.rope.theta=500000.0", "model.rope.scaling=\"linear\""));
  scaled["rope"]["scaling"] = "llama3";
  EXPECT_THAT(fields_to_take(scaled, file), testing::Contains("model.rope.original_context=8192"));
  scaled["family"] = "gpt2";
  EXPECT_THAT(fields_to_take(scaled, file), IsEmpty());
}

TEST(BeginFrom, NamesTheCheckpointInTheText) {
  ScriptedServer server([](const std::string& request) {
    if (request.starts_with("GET /api/v1/checkpoints/ckpt_7 "))
      return http_answer(200, R"({"id": "ckpt_7", "job": "job_1"})");
    return http_answer(200, R"({"spec": {"model": {"layers": 5}}})");
  });
  auto file = JobFile::parse("name = 'b'\n[data]\ntrain = 'x'\n", "b.toml", "/", {});
  ASSERT_TRUE(file.ok());
  const Status done = begin_from(Api(server.address()), "ckpt_7", *file);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(file->spec()["model"]["init"], "ckpt_7");
  EXPECT_EQ(file->spec()["model"]["layers"], 5);
  EXPECT_THAT(file->text(), HasSubstr("ckpt_7"));
  EXPECT_EQ(file->locate("/model/init"), "--from: ");
}

}  // namespace
}  // namespace shoal::cli
