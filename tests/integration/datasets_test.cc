// A dataset from files of one person to trainers that share no file with them: uploaded, named,
// trained on out of the agents' caches, through damage to a cache and the death of the coordinator.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;
using cli::number_at;
using cli::text_at;
using ::testing::HasSubstr;

class Datasets : public SharedClusterTest {
 protected:
  static void SetUpTestSuite() {
    start(3);
    if (!cluster_ || !cluster_->problem().empty()) return;
    std::vector<std::string> command{"dataset", "add", "books"};
    for (int shard = 0; shard < 5; ++shard) command.push_back(write_shard(shard));
    added_ = cluster_->shoal(command);
  }

  // 60,000 bytes of words, another text in each shard.
  static std::string write_shard(int shard) {
    std::string text;
    for (int word = 0; text.size() < 60'000; ++word) {
      text += "shard " + std::to_string(shard) + " says word " + std::to_string(word * 7 % 1'000) +
              ", ";
    }
    return cluster_->folder().write("shard-" + std::to_string(shard) + ".txt", text);
  }

  static std::string write_job(const std::string& name, int steps, const std::string& data) {
    return cluster_->folder().write(
        name + ".toml",
        "name = \"" + name +
            "\"\n[model]\nfamily = \"llama\"\nlayers = 2\nhidden = 32\nheads = 2\ncontext = 32\n"
            "vocab = 256\n" +
            data + "\n[train]\nbatch = 4\nlr = 0.003\nmin_lr = 0.0003\nwarmup = 5\nsteps = " +
            std::to_string(steps) +
            "\n[sync]\nevery = 10\n[swarm]\nmin_replicas = 2\n[eval]\nevery_rounds = 1\n"
            "batches = 2\n");
  }

  // Whatever lies in the caches of all agents.
  static std::vector<std::string> cached() {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < 3; ++i) {
      std::error_code none;
      for (fs::recursive_directory_iterator at(cluster_->agent_folder(i) + "/data_cache", none),
           end;
           !none && at != end; at.increment(none)) {
        if (at->is_regular_file(none)) files.push_back(at->path().string());
      }
    }
    return files;
  }

  static inline Finished added_;
};

TEST_F(Datasets, AreAddedListedAndVerified) {
  ASSERT_EQ(added_.exit_code, 0) << added_.err;
  EXPECT_THAT(added_.err, HasSubstr("data.dataset = \"books\""));
  const Finished listed = cluster_->shoal({"dataset", "ls", "--json"});
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  const Json dataset = Json::parse(listed.out)["items"][0];
  EXPECT_EQ(text_at(dataset, "name"), "books");
  EXPECT_EQ(number_at(dataset, "shards"), 5);
  EXPECT_EQ(cluster_->shoal({"dataset", "verify", "books"}).exit_code, 0);
  const Finished again = cluster_->shoal({"dataset", "add", "books", write_shard(0)});
  EXPECT_EQ(again.exit_code, cli::kExitConflict) << again.err;
}

TEST_F(Datasets, JobsTrainOnThemWithoutAFileOfTheirHosts) {
  const std::string file = write_job("reader", 30, "[data]\ndataset = \"books\"");
  const Finished checked = cluster_->shoal({"job", "validate", file});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  const Finished trained =
      cluster_->shoal({"job", "submit", file, "--wait", "--timeout", "120", "--json"}, 150);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json job = Json::parse(trained.out);
  EXPECT_EQ(text_at(job, "status/phase"), "completed");
  EXPECT_THAT(text_at(job, "spec/data/dataset"), ::testing::MatchesRegex("books@[0-9a-f]+"));
  EXPECT_LT(number_at(job, "status/train_loss"), 5.545);
  EXPECT_GT(number_at(job, "status/validation_loss"), 0);
  EXPECT_FALSE(cached().empty());
}

TEST_F(Datasets, AMixtureIsTrainedOn) {
  ASSERT_EQ(
      cluster_->shoal({"dataset", "add", "more", write_shard(7), write_shard(8), write_shard(9)})
          .exit_code,
      0);
  const std::string file =
      write_job("mixed", 20, "[data]\n[data.mixture]\nbooks = 0.7\nmore = 0.3");
  const Finished trained =
      cluster_->shoal({"job", "submit", file, "--wait", "--timeout", "120"}, 150);
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
}

TEST_F(Datasets, ADamagedCacheAndADeadCoordinatorLoseNothing) {
  const std::string file = write_job("tried", 400, "[data]\ndataset = \"books\"");
  ASSERT_EQ(cluster_->shoal({"job", "submit", file}).exit_code, 0);
  ASSERT_TRUE(eventually(120, [&] { return cluster_->rounds_committed("tried") >= 2; }));
  const Finished busy = cluster_->shoal({"dataset", "rm", "books"});
  EXPECT_EQ(busy.exit_code, cli::kExitConflict) << busy.err;
  EXPECT_THAT(busy.err, HasSubstr("job tried trains on dataset books"));
  bool cut = false;
  for (const std::string& path : cached()) {
    std::error_code gone;
    if ((cut = !cut)) {
      fs::resize_file(path, fs::file_size(path, gone) / 2, gone);
    } else {
      std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).put('\0');
    }
  }
  cluster_->kill_coordinator();
  ASSERT_TRUE(cluster_->restart_coordinator());
  ASSERT_TRUE(cluster_->end_agent(1, SIGKILL));
  ASSERT_TRUE(cluster_->start_agent(1));
  ASSERT_TRUE(eventually(200, [&] { return cluster_->phase_of("tried") == "completed"; }))
      << cluster_->job("tried").dump(1);
}

TEST_F(Datasets, WhatCannotBeTrainedOnIsRefusedAtTheDoor) {
  const auto refused = [&](const std::string& data) {
    const Finished said = cluster_->shoal({"job", "submit", write_job("bad", 10, data)});
    EXPECT_EQ(said.exit_code, cli::kExitValidation) << said.err;
    return said.err;
  };
  EXPECT_THAT(refused("[data]\ndataset = \"nothing\""), HasSubstr("there is no dataset 'nothing'"));
  EXPECT_THAT(refused("[data]\ndataset = \"books\"\ntokenizer = \"uint16\""),
              HasSubstr("set data.tokenizer = 'bytes'"));
  const std::string words = cluster_->folder().write("words.bin", std::string(200'000, '\xff'));
  ASSERT_EQ(cluster_->shoal({"dataset", "add", "words", words, "--tokens", "uint16"}).exit_code, 0);
  EXPECT_THAT(
      refused("[data]\ndataset = \"words\"\ntokenizer = \"uint16\""),
      HasSubstr("shard words.bin: the token at position 0 is 65535, not below model.vocab"));
  EXPECT_EQ(cluster_->shoal({"dataset", "rm", "words"}).exit_code, 0);
}

}  // namespace
}  // namespace shoal::integration
