// A newcomer's first hour: start a cluster, train a job, look at its rounds, take the checkpoint,
// sample from it, scrape the metrics, stop the cluster.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "base/thread_environment.h"
#include "identity/private_file.h"
#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;
using cli::at_path;
using cli::number_at;
using cli::text_at;

// Every committed round has one digest from all that took part, and says what it moved and took.
void expect_good_round(const Json& round, std::size_t members) {
  EXPECT_EQ(text_at(round, "state"), "committed");
  std::set<std::string> digests;
  const Json& contributions = round.at("contributions");
  EXPECT_EQ(contributions.size(), members);
  for (const Json& contribution : contributions) {
    digests.insert(text_at(contribution, "digest"));
    EXPECT_GT(number_at(contribution, "bytes_sent"), 0);
    EXPECT_GT(number_at(contribution, "bytes_received"), 0);
    EXPECT_GT(number_at(contribution, "phases/train_s"), 0);
    EXPECT_TRUE(at_path(contribution, "phases/reduce_s"));
  }
  EXPECT_EQ(digests, std::set<std::string>{text_at(round, "digest")});
}

class FirstRun : public SharedClusterTest {
 protected:
  static void SetUpTestSuite() { start(2); }
};

TEST_F(FirstRun, TrainersHaveTheEnvironmentOfTheirThreads) {
  const cli::ProcessRef agent = cluster_->state().agents.at(0);
  std::vector<pid_t> trainers;
  ASSERT_TRUE(eventually(20, [&] {
    trainers = children_of(agent.pid, "shoal-trainer");
    return !trainers.empty();
  }));
  std::ifstream in("/proc/" + std::to_string(trainers[0]) + "/environ", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  for (const EnvironmentEntry& entry : kThreadEnvironment) {
    const std::string wanted = std::string(entry.name) + "=" + entry.value;
    EXPECT_NE(all.find(wanted), std::string::npos) << wanted;
  }
}

TEST_F(FirstRun, TrainsAndDeliversAModel) {
  const Finished checked = cluster_->shoal({"job", "validate", cluster_->write_job({})});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  const Finished trained = cluster_->shoal(
      {"job", "submit", cluster_->write_job({}), "--wait", "--timeout", "120", "--json"}, 150);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json job = Json::parse(trained.out);
  EXPECT_EQ(text_at(job, "status/phase"), "completed");
  EXPECT_EQ(number_at(job, "status/progress/inner_step"), 30);
  EXPECT_EQ(number_at(job, "status/progress/rounds_committed"), 3);
  EXPECT_EQ(number_at(job, "status/progress/tokens"), 30 * 4 * 32 * 2);
  EXPECT_LT(number_at(job, "status/train_loss"), 5.545);  // ln 256: better than knowing nothing
  EXPECT_GT(number_at(job, "status/validation_loss"), 0);

  const auto rounds = cluster_->items("/jobs/tiny/rounds");
  ASSERT_EQ(rounds.size(), 3u);
  for (const Json& round : rounds) expect_good_round(round, 2);

  const std::string folder = cluster_->folder().path("checkpoint");
  const Finished fetched =
      cluster_->shoal({"checkpoint", "download", "tiny", "-o", folder, "--json"});
  ASSERT_EQ(fetched.exit_code, 0) << fetched.err;
  const std::string newest = text_at(Json::parse(fetched.out), "checkpoint");
  for (const Json& checkpoint : cluster_->items("/jobs/tiny/checkpoints")) {
    EXPECT_EQ(text_at(checkpoint, "final") == "true", text_at(checkpoint, "id") == newest);
  }
  EXPECT_TRUE(fs::exists(folder + "/model.safetensors"));
  EXPECT_TRUE(fs::exists(folder + "/config.json"));

  const std::vector<std::string> sample = {"generate", "--checkpoint", folder,   "--prompt", "the ",
                                           "--tokens", "20",           "--seed", "3"};
  const Finished first = cluster_->shoal(sample), second = cluster_->shoal(sample);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_GE(first.out.size(), 20u);
  EXPECT_EQ(first.out, second.out) << "the same seed gives the same text";
}

TEST_F(FirstRun, ADownloadGoesOnAndDamageIsFound) {
  std::string id;
  ASSERT_TRUE(eventually(150, [&] { return cluster_->phase_of("tiny") == "completed"; }));
  for (const Json& checkpoint : cluster_->items("/jobs/tiny/checkpoints"))
    id = text_at(checkpoint, "id");
  const std::string folder = cluster_->folder().path("again");
  ASSERT_EQ(cluster_->shoal({"checkpoint", "download", id, "-o", folder}).exit_code, 0);
  const std::string model = folder + "/model.safetensors";
  const auto size = fs::file_size(model);
  fs::rename(model, model + ".part");
  fs::resize_file(model + ".part", size / 2);
  ASSERT_EQ(cluster_->shoal({"checkpoint", "download", id, "-o", folder}).exit_code, 0);
  EXPECT_EQ(fs::file_size(model), size);
  fs::remove(model);
  cluster_->folder().write("again/model.safetensors.part", std::string(size, 'x'));
  EXPECT_NE(cluster_->shoal({"checkpoint", "download", id, "-o", folder}).exit_code, 0);
  EXPECT_FALSE(fs::exists(model));
}

TEST_F(FirstRun, ListsAreForPeopleAndMachines) {
  for (const auto& command : std::vector<std::vector<std::string>>{{"job", "ls"},
                                                                   {"agent", "ls"},
                                                                   {"round", "ls", "tiny"},
                                                                   {"checkpoint", "ls", "tiny"},
                                                                   {"events"}}) {
    const Finished table = cluster_->shoal(command);
    EXPECT_EQ(table.exit_code, 0) << command[0] << table.err;
    EXPECT_NE(table.out, "");
    EXPECT_EQ(table.out.find('\033'), std::string::npos) << "color without a terminal";
    std::vector<std::string> for_machines = command;
    for_machines.push_back("--json");
    const Finished json = cluster_->shoal(for_machines);
    const Json parsed = Json::parse(json.out, nullptr, false);
    ASSERT_TRUE(parsed.is_object()) << command[0] << json.out;
    EXPECT_TRUE(parsed.at("items").is_array());
  }
  EXPECT_EQ(cluster_->items("/agents").size(), 2u);
}

TEST_F(FirstRun, OneRoundAndTheSubmittedTextAreShown) {
  const Finished round = cluster_->shoal({"round", "get", "tiny", "3"});
  EXPECT_EQ(round.exit_code, 0) << round.err;
  EXPECT_NE(round.out.find("committed"), std::string::npos) << round.out;
  EXPECT_NE(round.out.find("agent-2"), std::string::npos) << round.out;
  const std::string file = cluster_->write_job({});
  std::ostringstream written;
  written << std::ifstream(file).rdbuf();
  EXPECT_EQ(cluster_->shoal({"job", "spec", "tiny"}).out, written.str());
}

// The round that is meant without a number is the newest one; each object in both forms.
TEST_F(FirstRun, OneObjectIsShownWithoutSayingMuch) {
  const std::pair<std::vector<std::string>, const char*> commands[] = {
      {{"round", "get", "tiny"}, "round 3 "},
      {{"agent", "get", "agent-1"}, "violations"},
      {{"job", "get", "tiny"}, "took"},
      {{"version"}, "coordinator  "}};
  for (const auto& [command, shown] : commands) {
    const Finished text = cluster_->shoal(command);
    EXPECT_EQ(text.exit_code, 0) << command[0] << text.err;
    EXPECT_NE(text.out.find(shown), std::string::npos) << text.out;
    std::vector<std::string> for_machines = command;
    for_machines.push_back("--json");
    EXPECT_TRUE(Json::parse(cluster_->shoal(for_machines).out, nullptr, false).is_object())
        << command[0];
  }
}

// What the scripts of `shoal completion` ask for.
TEST_F(FirstRun, NamesAreOfferedToAShell) {
  const auto offered = [&](std::vector<std::string> words) {
    const std::string http = cluster_->state().addresses.http;
    words.insert(words.begin(), {binary("shoal"), "__complete", "--addr", http, "--token-file",
                                 cluster_->state().addresses.admin_token_file});
    return run(words, 30).out;
  };
  EXPECT_EQ(offered({"job", "get", "ti"}), "tiny\n");
  EXPECT_EQ(offered({"agent", "drain", "agent-2"}), "agent-2\n");
  EXPECT_EQ(offered({"job", "submit", ""}), "");
  EXPECT_EQ(cluster_->shoal({"completion", "bash"}).exit_code, 0);
}

TEST_F(FirstRun, PrometheusAcceptsTheMetrics) {
  if (!has_program("promtool")) GTEST_SKIP() << "promtool (Debian: prometheus) is not installed";
  cli::HttpRequest request;
  request.url = cluster_->state().addresses.http + "/metrics";
  request.accept = "text/plain";
  request.token = *identity::read_token_file(cluster_->state().addresses.admin_token_file);
  const auto metrics = cli::send(request);
  ASSERT_TRUE(metrics.ok());
  ASSERT_EQ(metrics->status, 200);
  const std::string file = cluster_->folder().write("metrics.txt", metrics->body);
  const Finished checked = run({"sh", "-c", "promtool check metrics < " + file}, 30);
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
}

TEST_F(FirstRun, ASecondUpOnTheFolderIsRefused) {
  const Finished second =
      run({binary("shoal"), "up", "--agents", "1", "--detach", "--http", "127.0.0.1:0", "--grpc",
           "127.0.0.1:0", "--data-dir", cluster_->state().data_dir},
          60);
  EXPECT_EQ(second.exit_code, 5);
  EXPECT_NE(second.err.find(cluster_->state().data_dir), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("shoal down"), std::string::npos) << second.err;
}

TEST(UpDown, DownLeavesNoProcess) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  Cluster cluster(1);
  ASSERT_EQ(cluster.problem(), "");
  const auto trainers = children_of(cluster.state().agents[0].pid, "shoal-trainer");
  const Finished down = run({binary("shoal"), "down", "--data-dir", cluster.state().data_dir}, 60);
  EXPECT_EQ(down.exit_code, 0) << down.err;
  for (const cli::ProcessRef& process : cluster.state().all()) EXPECT_FALSE(cli::is_alive(process));
  for (const pid_t trainer : trainers) EXPECT_NE(kill(trainer, 0), 0);
}

}  // namespace
}  // namespace shoal::integration
