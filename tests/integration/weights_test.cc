// Weights come and go: a job begins from a folder of the Hugging Face libraries, a pipeline from
// that job's checkpoint, and its model is exported. What `transformers` makes of it is the business
// of
// `./dev test --torch`.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;
using cli::number_at;
using cli::text_at;
using testing::HasSubstr;

class Weights : public SharedClusterTest {
 protected:
  static void SetUpTestSuite() { start(2); }
  static std::string fixture(const std::string& name) {
    return std::string(SHOAL_GOLDEN_DIR) + "/transformers/" + name;
  }
  static bool ends(const std::string& job, const std::string& phase) {
    return eventually(120, [&] { return cluster_->phase_of(job) == phase; });
  }
  // A job with the sizes of the fixture "linear".
  static std::string write(const std::string& name, const std::string& model) {
    std::string text;
    for (int i = 0; i < 600; ++i) text += "a line of text, number " + std::to_string(i) + "\n";
    const std::string data = cluster_->folder().write("text", text);
    return cluster_->folder().write(
        name + ".toml", "name = \"" + name + "\"\n[model]\n" + model + "\n[data]\ntrain = \"" +
                            data +
                            "\"\n[train]\nsteps = 10\nbatch = 4\nwarmup = 2\n[sync]\nevery = 5\n"
                            "[swarm]\nmin_replicas = 1\n");
  }
  static Finished submit(const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {"job", "submit", file};
    command.insert(command.end(), more.begin(), more.end());
    return cluster_->shoal(command);
  }
};

constexpr const char* kLinear =
    "layers = 2\nhidden = 32\nheads = 4\nkv_heads = 2\nffn = 48\ncontext = 16\nvocab = 256\n"
    "rope = { scaling = \"linear\", factor = 4 }\n";

TEST_F(Weights, FromAFolderToAPipelineAndOut) {
  const std::string init = "init = \"hf:" + fixture("linear") + "\"";
  const Finished first = submit(write("first", kLinear + init));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_TRUE(ends("first", "completed")) << cluster_->job("first").dump();

  const Finished second =
      submit(write("second", "context = 8"), {"--from", "first", "--set", "swarm.stages=2"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  ASSERT_TRUE(ends("second", "completed")) << cluster_->job("second").dump();
  const Json model = cluster_->job("second").at("spec").at("model");
  EXPECT_TRUE(text_at(model, "init").starts_with("ckpt_"));
  EXPECT_EQ(number_at(model, "context"), 8);
  EXPECT_EQ(text_at(model, "rope/scaling"), "linear");

  const std::string out = cluster_->folder().path("exported");
  const Finished exported =
      cluster_->shoal({"checkpoint", "export", "second", "-o", out, "--shard-size", "20KB"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr(out));
  EXPECT_TRUE(fs::exists(out + "/model.safetensors.index.json"));
  EXPECT_TRUE(fs::exists(out + "/config.json"));
  EXPECT_FALSE(fs::exists(out + "/optimizer.safetensors"));
}

// Everything that keeps a job from its weights is in the detail of the job, by name.
TEST_F(Weights, AnotherModelIsNamed) {
  const std::string init = "init = \"hf:" + fixture("llama3") + "\"";
  ASSERT_EQ(submit(write("other", kLinear + init)).exit_code, 0);
  ASSERT_TRUE(ends("other", "failed")) << cluster_->job("other").dump();
  const std::string detail = text_at(cluster_->job("other"), "status/detail");
  EXPECT_EQ(text_at(cluster_->job("other"), "status/reason"), "model_does_not_fit");
  EXPECT_THAT(detail, HasSubstr("model.head_dim is 8 in the job and 12 there"));
  const Finished gone = submit(write("gone", kLinear), {"--from", "nothing"});
  EXPECT_NE(gone.exit_code, 0);
}

}  // namespace
}  // namespace shoal::integration
