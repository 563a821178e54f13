// Checkpoints in an object store: a real S3 server (Debian's python3-swift) that is killed while a
// job trains, a coordinator that is killed meanwhile, and agents that come back to nothing but what
// lies there.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "objects/s3_server_test_util.h"
#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;
using cli::number_at;
using cli::text_at;
using testing::HasSubstr;
using testing::Not;

class ObjectStore : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
    if (!server_.is_installed()) GTEST_SKIP() << "python3-swift is not installed (./dev deps)";
    ::setenv("SHOAL_CHECKPOINT_STORE", server_.location("runs/a").c_str(), 1);
    ::setenv("SHOAL_STORE_CREDENTIALS", server_.credentials().c_str(), 1);
    cluster_ = std::make_unique<Cluster>(2);
    ASSERT_EQ(cluster_->problem(), "");
  }
  void TearDown() override {
    ::unsetenv("SHOAL_CHECKPOINT_STORE");
    ::unsetenv("SHOAL_STORE_CREDENTIALS");
  }
  static TinyJob job(const std::string& name, int steps) {
    TinyJob job;
    job.name = name;
    job.steps = steps;
    job.more = "[checkpoint]\nevery_rounds = 2\nkeep = 2\n";
    return job;
  }
  std::vector<std::string> stored(const std::string& job) const {
    std::vector<std::string> ids;
    for (const Json& one : cluster_->items("/jobs/" + job + "/checkpoints?limit=100")) {
      if (text_at(one, "state") == "stored") ids.push_back(text_at(one, "id"));
    }
    return ids;
  }
  std::string listed() const { return server_.s3cmd("ls -r s3://shoal/runs/a/"); }
  // What the data folder of the coordinator has of checkpoints but pointers.
  std::vector<std::string> on_disk() const {
    std::vector<std::string> folders;
    for (const auto& entry : fs::recursive_directory_iterator(cluster_->folder().path())) {
      const bool file = entry.path().filename() == "model.safetensors";
      if (file && entry.path().string().find("checkpoints/ckpt_") != std::string::npos)
        folders.push_back(entry.path());
    }
    return folders;
  }

  objects::S3Server server_{testing::TempDir() + "/object_store_test." +
                            std::to_string(::getpid())};
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(ObjectStore, AStoreThatIsAwayCostsNothing) {
  ASSERT_EQ(cluster_->shoal({"job", "submit", cluster_->write_job(job("one", 1000))}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return stored("one").size() == 2; }));
  const double before = cluster_->rounds_committed("one");
  server_.kill();
  ASSERT_TRUE(eventually(60, [&] { return cluster_->rounds_committed("one") >= before + 6; }))
      << "rounds do not wait for it";
  cluster_->kill_coordinator();
  ASSERT_TRUE(cluster_->restart_coordinator()) << "it starts without its store";
  server_.start();
  ASSERT_TRUE(eventually(200, [&] { return cluster_->phase_of("one") == "completed"; }))
      << cluster_->job("one").dump(2);
  EXPECT_EQ(cluster_->items("/jobs/one/rounds?limit=500").size(), 100u);
  for (const Json& round : cluster_->items("/jobs/one/rounds?limit=500"))
    EXPECT_EQ(number_at(round, "epoch"), 0) << "nothing was rolled back";

  const auto kept = stored("one");
  ASSERT_EQ(kept.size(), 3u) << "the newest two, and the final one";
  for (const std::string& id : kept) {
    const Finished verified = cluster_->shoal({"checkpoint", "verify", id}, 90);
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }
  ASSERT_TRUE(eventually(60,
                         [&] {
                           const std::string all = listed();
                           std::size_t manifests = 0;
                           for (std::size_t at = 0;
                                (at = all.find("manifest.json", at)) != std::string::npos; ++at)
                             ++manifests;
                           return manifests == 3;
                         }))
      << "retention deletes there, too: " << listed();
  EXPECT_TRUE(on_disk().empty()) << on_disk().front();

  const std::string out = cluster_->folder().path("downloaded");
  const Finished downloaded = cluster_->shoal({"checkpoint", "download", "one", "-o", out}, 90);
  ASSERT_EQ(downloaded.exit_code, 0) << downloaded.err;
  EXPECT_TRUE(fs::exists(out + "/model.safetensors") || !fs::is_empty(out));
}

TEST_F(ObjectStore, AJobContinuesFromWhatLiesThere) {
  ASSERT_EQ(cluster_->shoal({"job", "submit", cluster_->write_job(job("one", 2000))}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return stored("one").size() == 2; }));
  const double before = cluster_->rounds_committed("one");
  const Finished paused =
      cluster_->shoal({"job", "pause", "one", "--wait", "--timeout", "90"}, 120);
  ASSERT_EQ(paused.exit_code, 0) << paused.err;
  cluster_->kill_coordinator();
  ASSERT_TRUE(cluster_->restart_coordinator());
  const Finished resumed =
      cluster_->shoal({"job", "resume", "one", "--wait", "--timeout", "90"}, 120);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err << cluster_->job("one").dump(2);
  ASSERT_TRUE(eventually(120, [&] { return cluster_->rounds_committed("one") >= before + 4; }))
      << cluster_->job("one").dump(2);
  EXPECT_TRUE(on_disk().empty());
}

}  // namespace
}  // namespace shoal::integration
