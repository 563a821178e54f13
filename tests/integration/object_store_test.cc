// Checkpoints in an object store: a real S3 server (Debian's python3-swift) that is killed while a
// job trains, a coordinator that is killed meanwhile, and agents that come back to nothing but what
// lies there.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "cli/http_client.h"
#include "identity/private_file.h"
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
    ::setenv("SHOAL_DATA_STORE", place("data").c_str(), 1);
    cluster_ = std::make_unique<Cluster>(3);
    ASSERT_EQ(cluster_->problem(), "");
  }
  void TearDown() override {
    ::unsetenv("SHOAL_CHECKPOINT_STORE");
    ::unsetenv("SHOAL_STORE_CREDENTIALS");
    ::unsetenv("SHOAL_DATA_STORE");
  }
  std::string place(const std::string& path) const {
    return "s3://shoal/" + path + "?endpoint=" + server_.endpoint();
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

// ---- an agent that is cut off from it

// The environment of a host whose only way out is a proxy that does not answer. The agent reaches
// its coordinator and its peers as before, because only requests to object stores use the proxy.
class BehindADeadProxy {
 public:
  BehindADeadProxy() {
    for (const char* name : kNames) ::setenv(name, "http://127.0.0.1:1", 1);
  }
  ~BehindADeadProxy() {
    for (const char* name : kNames) ::unsetenv(name);
  }
  BehindADeadProxy(const BehindADeadProxy&) = delete;
  BehindADeadProxy& operator=(const BehindADeadProxy&) = delete;

 private:
  static constexpr std::array kNames = {"SHOAL_OUTBOUND_PROXY", "http_proxy", "https_proxy"};
};

class CutOff : public ObjectStore {
 protected:
  void restart_cut_off(std::size_t agent) const {
    ASSERT_TRUE(cluster_->end_agent(agent, SIGTERM));
    const BehindADeadProxy environment;
    ASSERT_TRUE(cluster_->start_agent(agent));
  }
  std::string log_of(std::size_t agent) const {
    std::ifstream file(cluster_->state().agents.at(agent).log);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  double carried() const {
    cli::HttpRequest request;
    request.url = cluster_->state().addresses.http + "/metrics";
    request.token = identity::read_token_file(cluster_->state().addresses.admin_token_file).value();
    const auto metrics = cli::send(request);
    const std::string name = "\nshoal_object_store_carried_bytes_total ";
    const std::size_t at = metrics.ok() ? metrics->body.find(name) : std::string::npos;
    return at == std::string::npos ? -1 : std::stod(metrics->body.substr(at + name.size()));
  }
  void expect_whole(const std::string& job) const {
    for (const std::string& id : stored(job)) {
      const Finished verified = cluster_->shoal({"checkpoint", "verify", id}, 90);
      if (std::ranges::count(stored(job), id) == 0) continue;  // a newer one has replaced it
      EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
    }
  }
};

TEST_F(CutOff, TheCoordinatorCarriesTheFilesOfAnAgent) {
  restart_cut_off(0);
  ASSERT_TRUE(cluster_->end_agent(1, SIGTERM));
  ASSERT_TRUE(cluster_->end_agent(2, SIGTERM));
  TinyJob alone = job("one", 4000);
  alone.min_replicas = 1;
  ASSERT_EQ(cluster_->shoal({"job", "submit", cluster_->write_job(alone)}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return stored("one").size() == 2; }))
      << cluster_->job("one").dump(2);
  expect_whole("one");
  EXPECT_TRUE(eventually(60, [&] { return listed().find("manifest.json") != std::string::npos; }));
  EXPECT_TRUE(on_disk().empty()) << on_disk().front();
  const double sent = carried();
  EXPECT_GT(sent, 0);
  EXPECT_THAT(log_of(0), HasSubstr("does not reach the object store of checkpoints"));
  EXPECT_THAT(log_of(0), HasSubstr(server_.endpoint()));
  EXPECT_THAT(log_of(0), HasSubstr("--checkpoint-store"));

  // It loads from there in the same way; the others, which reach it, do so themselves.
  ASSERT_TRUE(cluster_->start_agent(1));
  const Finished paused =
      cluster_->shoal({"job", "pause", "one", "--wait", "--timeout", "90"}, 120);
  ASSERT_EQ(paused.exit_code, 0) << paused.err;
  const double before = cluster_->rounds_committed("one");
  const Finished resumed =
      cluster_->shoal({"job", "resume", "one", "--wait", "--timeout", "90"}, 120);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err << cluster_->job("one").dump(2);
  ASSERT_TRUE(eventually(120, [&] { return cluster_->rounds_committed("one") >= before + 4; }))
      << cluster_->job("one").dump(2);
  EXPECT_GT(carried(), sent);
  EXPECT_THAT(log_of(1), Not(HasSubstr("does not reach the object store")));
  expect_whole("one");
  EXPECT_EQ(cluster_->shoal({"job", "cancel", "one"}).exit_code, 0);
}

// ---- datasets whose shards lie there

constexpr int kShards = 50, kTokensOfShard = 4'000, kVocab = 128'256;

std::string shard_of(int number) {
  std::string bytes;
  for (int i = 0; i < kTokensOfShard; ++i) {
    const int token = (number * 2'531 + i % 40 * 3'001) % kVocab;
    for (int byte = 0; byte < 4; ++byte) bytes += static_cast<char>(token >> (8 * byte));
  }
  return bytes;
}

constexpr const char* kReader = R"(name = "reader"
[model]
layers = 1
hidden = 8
heads = 1
context = 16
vocab = 128256
[data]
dataset = "web"
tokenizer = "uint32"
[train]
batch = 2
warmup = 5
steps = 300
[sync]
every = 10
[swarm]
min_replicas = 2
[eval]
batches = 2
[checkpoint]
every_rounds = 5
)";

class StoredShards : public ObjectStore {
 protected:
  void SetUp() override {
    ObjectStore::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto bucket = server_.bucket("data/web");
    for (int i = 0; i < kShards; ++i) {
      const std::string name = "web-" + std::to_string(100 + i) + ".bin";
      ASSERT_TRUE(bucket->put(name, objects::body_of(shard_of(i))).ok());
    }
    ASSERT_TRUE(server_.bucket("private")->put("a.bin", objects::body_of(shard_of(0))).ok());
  }
  Finished add(const std::string& name, const std::string& what) const {
    return cluster_->shoal({"dataset", "add", name, what, "--tokens", "uint32", "--credentials",
                            server_.credentials()});
  }
  // Files of an agent's cache, every other one cut, the rest flipped.
  void damage_cache(std::size_t agent) const {
    std::error_code failure;
    bool cut = false;
    for (fs::recursive_directory_iterator
             at(cluster_->agent_folder(agent) + "/data_cache", failure),
         end;
         !failure && at != end; at.increment(failure)) {
      if (!at->is_regular_file(failure)) continue;
      if ((cut = !cut)) {
        fs::resize_file(at->path(), 10, failure);
      } else {
        std::fstream(at->path(), std::ios::in | std::ios::out | std::ios::binary).put('\xee');
      }
    }
  }
};

TEST_F(StoredShards, AreTrainedOnThoughTheStoreGoesAwayAndAnAgentIsReplaced) {
  const Finished added = add("web", place("data/web/"));
  ASSERT_EQ(added.exit_code, 0) << added.err;
  const auto datasets = cluster_->items("/datasets");
  ASSERT_EQ(datasets.size(), 1u);
  EXPECT_EQ(number_at(datasets[0], "shards"), kShards);
  EXPECT_EQ(number_at(datasets[0], "tokens"), kShards * kTokensOfShard);
  const std::string file = cluster_->folder().write("reader.toml", kReader);
  const Finished submitted = cluster_->shoal({"job", "submit", file});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(eventually(120, [&] { return cluster_->rounds_committed("reader") >= 3; }))
      << cluster_->job("reader").dump(2);
  server_.kill();
  damage_cache(0);
  ASSERT_TRUE(cluster_->end_agent(1, SIGKILL));
  ASSERT_TRUE(cluster_->start_agent(1));
  std::this_thread::sleep_for(std::chrono::seconds(10));
  server_.start();
  ASSERT_TRUE(eventually(200, [&] { return cluster_->phase_of("reader") == "completed"; }))
      << cluster_->job("reader").dump(2);
  for (const Json& round : cluster_->items("/jobs/reader/rounds?limit=500"))
    EXPECT_EQ(number_at(round, "epoch"), 0) << "nothing was rolled back";
}

TEST_F(StoredShards, WhatTheOperatorDidNotNameIsRefused) {
  const Finished hidden = add("hidden", place("private/a.bin"));
  EXPECT_NE(hidden.exit_code, 0);
  EXPECT_THAT(hidden.err, HasSubstr("dataset hidden, shard a.bin: s3://shoal/private/a.bin"));
  EXPECT_THAT(hidden.err, HasSubstr("--data-store"));
  const Finished gone = add("gone", place("data/nothing.bin"));
  EXPECT_NE(gone.exit_code, 0);
  EXPECT_THAT(gone.err, HasSubstr("s3://shoal/data/nothing.bin"));
  const Finished empty = add("empty", place("data/none/"));
  EXPECT_THAT(empty.err, HasSubstr("nothing lies beneath s3://shoal/data/none/"));
}

}  // namespace
}  // namespace shoal::integration
