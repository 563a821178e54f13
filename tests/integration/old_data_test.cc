// What a coordinator of 0.1.0 left behind (tests/data/v0.1.0: a completed job and a paused one,
// made with `shoal up`) is taken over: the database is migrated, the paused job continues from its
// checkpoint, and the completed one's model can be sampled.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;
using cli::number_at;
using cli::text_at;

constexpr const char* kText = "/tmp/shoal_0.1.0.txt";  // that the jobs name

void write_text() {
  std::ofstream out(kText, std::ios::binary);
  for (int i = 0; i < 400; ++i) out << "the quick brown fox jumps over the lazy dog. ";
}

void put_old_data(const std::string& data_dir) {
  fs::create_directories(data_dir);
  fs::copy(SHOAL_OLD_DATA_DIR, data_dir + "/coordinator", fs::copy_options::recursive);
  fs::permissions(data_dir + "/coordinator", fs::perms::owner_all);
}

// Stored under the names of 0.1.0, shown under those of today.
void expect_new_names(const Cluster& cluster) {
  std::size_t frozen = 0;
  for (const Json& event : cluster.items("/events?limit=500")) {
    frozen += text_at(event, "kind") == "round_frozen" ? 1 : 0;
  }
  EXPECT_EQ(frozen, 4u + 19u) << "one for each round of the two jobs";
  for (const Json& round : cluster.items("/jobs/tiny/rounds")) {
    EXPECT_TRUE(round.contains("epoch") && round.contains("reduces")) << round.dump();
  }
}

TEST(OldData, OfTheVersionBeforeContinues) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  write_text();
  Cluster cluster(2, {}, put_old_data);
  ASSERT_EQ(cluster.problem(), "");
  EXPECT_EQ(cluster.phase_of("tiny"), "completed");
  EXPECT_EQ(cluster.rounds_committed("tiny"), 4);
  EXPECT_NEAR(number_at(cluster.job("tiny"), "status/validation_loss"), 5.105, 0.001);
  EXPECT_EQ(cluster.phase_of("paused"), "paused");
  ASSERT_EQ(cluster.rounds_committed("paused"), 19);
  expect_new_names(cluster);

  const Finished resumed =
      cluster.shoal({"job", "resume", "paused", "--wait", "--timeout", "90"}, 120);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed("paused") >= 25; }));
  for (const Json& round : cluster.items("/jobs/paused/rounds?limit=500&order=asc")) {
    if (number_at(round, "round") < 20 || text_at(round, "state") != "committed") continue;
    EXPECT_LT(number_at(round, "train_loss"), 3.2) << "an untrained model has 5.5";
  }
}

TEST(OldData, AModelOfTheVersionBeforeWritesText) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  const Finished written =
      run({binary("shoal-trainer"), "generate", "--checkpoint",
           std::string(SHOAL_OLD_DATA_DIR) + "/checkpoints/ckpt_2", "--tokens", "8", "--json"},
          60);
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_NE(written.out.find("text"), std::string::npos) << written.out;
}

}  // namespace
}  // namespace shoal::integration
