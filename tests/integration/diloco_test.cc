// A job ends with the bits that examples/diloco.py computes for it (docs/diloco.md): the parameters
// and the outer momentum of its last checkpoint. Its replicas run the inner steps of that file, so
// this compares everything else: data, pseudo-gradients, clip, weights, sum, outer step, commit.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

constexpr const char* kExamples = SHOAL_SOURCE_FOLDER "/examples";
constexpr const char* kText = SHOAL_SOURCE_FOLDER "/LICENSE";
constexpr const char* kJob = "one-page";
constexpr int kReplicas = 3, kRounds = 4;

bool has_libraries() { return run({SHOAL_PYTHON, "-c", "import numpy, torch"}, 60).exit_code == 0; }

std::vector<std::string> options(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"--trainer-root", kExamples, "--python", SHOAL_PYTHON};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Trains the job of the example to its end, with `more` options of `shoal job submit`.
void train(const Cluster& cluster, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command{"job", "submit", std::string(kExamples) + "/python/diloco.toml"};
  command.insert(command.end(), more.begin(), more.end());
  const Finished submitted = cluster.shoal(command);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(eventually(240, [&] { return cluster.phase_of(kJob) == "completed"; }))
      << cluster.job(kJob).dump(2) << cluster.shoal({"logs", kJob}).out;
}

// The contributions of all rounds, of which every replica has one in each.
std::vector<Json> contributions(const Cluster& cluster) {
  std::vector<Json> all;
  const auto rounds = cluster.items("/jobs/" + std::string(kJob) + "/rounds?order=asc");
  EXPECT_EQ(rounds.size(), static_cast<std::size_t>(kRounds));
  for (const Json& round : rounds) {
    EXPECT_EQ(text_at(round, "state"), "committed") << round.dump(2);
    EXPECT_EQ(round.at("contributions").size(), static_cast<std::size_t>(kReplicas));
    for (const Json& one : round.at("contributions")) all.push_back(one);
  }
  return all;
}

std::set<double> values_of(const std::vector<Json>& contributions, const std::string& field) {
  std::set<double> values;
  for (const Json& one : contributions) values.insert(number_at(one, field));
  return values;
}

// The SHA-256 of the values at the end of a safetensors file that has one tensor.
std::string digest_in(const std::string& file) {
  const std::string bytes = std::to_string(256 * 256 * sizeof(float));
  return run({"sh", "-c", "tail -c " + bytes + " '" + file + "' | sha256sum"}, 10)
      .out.substr(0, 64);
}

// The two lines with which the example ends, of what is in the checkpoint.
std::string trained(const Cluster& cluster) {
  const std::string folder = cluster.folder().path("model");
  const Finished download = cluster.shoal({"checkpoint", "download", kJob, "-o", folder});
  EXPECT_EQ(download.exit_code, 0) << download.err;
  return "anchor " + digest_in(folder + "/model.safetensors") + "\nmomentum " +
         digest_in(folder + "/outer.safetensors") + "\n";
}

std::string computed(const std::vector<std::string>& rounds = {}) {
  std::vector<std::string> command{SHOAL_PYTHON, std::string(kExamples) + "/diloco.py", kText};
  command.insert(command.end(), rounds.begin(), rounds.end());
  const Finished finished = run(command, 60);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  return finished.out.substr(std::min(finished.out.find("anchor "), finished.out.size()));
}

TEST(DilocoPage, AJobEndsWithTheBitsOfTheExample) {
  if (!has_libraries()) GTEST_SKIP() << SHOAL_PYTHON " has no torch and numpy";
  Cluster cluster(kReplicas, options());
  ASSERT_EQ(cluster.problem(), "");
  ASSERT_NO_FATAL_FAILURE(train(cluster));
  const std::vector<Json> all = contributions(cluster);
  ASSERT_EQ(values_of(all, "steps"), (std::set<double>{10})) << "asked to report early";
  EXPECT_LT(*values_of(all, "clip_factor").begin(), 1) << "some contribution is clipped";
  EXPECT_EQ(trained(cluster), computed());
}

TEST(DilocoPage, UnequalWorkIsWeighedAndClippedAsInTheExample) {
  if (!has_libraries()) GTEST_SKIP() << SHOAL_PYTHON " has no torch and numpy";
  Cluster cluster(kReplicas, options({"--speeds", "1,1,0.4"}));
  ASSERT_EQ(cluster.problem(), "");
  ASSERT_NO_FATAL_FAILURE(train(cluster, {"--set", "sync.balance=speed"}));
  const std::vector<Json> all = contributions(cluster);
  EXPECT_GT(values_of(all, "weight").size(), 1u) << "the slow replica trained less";
  const Finished rounds = cluster.shoal({"round", "ls", kJob, "--json"});
  ASSERT_EQ(rounds.exit_code, 0) << rounds.err;
  EXPECT_EQ(trained(cluster), computed({cluster.folder().write("rounds.json", rounds.out)}));
}

}  // namespace
}  // namespace shoal::integration
