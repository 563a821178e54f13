// A text of one's own: a tokenizer is trained on it, shards are made, a job trains on the tokens,
// and what comes back is text.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;
using cli::number_at;
using cli::text_at;

class Tokens : public SharedClusterTest {
 protected:
  static void SetUpTestSuite() { start(2); }

  static std::string text() {
    std::string text;
    for (int i = 0; text.size() < 200'000; ++i) {
      text += "Shoals swim along coast number " + std::to_string(i % 97) + " for food.\n";
    }
    return text;
  }
  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Finished done(std::vector<std::string> arguments, double limit_s = 60) const {
    Finished finished = cluster_->shoal(std::move(arguments), limit_s);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished;
  }
  static std::string head_of(const std::string& name, int vocabulary) {
    return "name = \"" + name +
           "\"\n[model]\nlayers = 2\nhidden = 32\nheads = 2\ncontext = 32\nvocab = " +
           std::to_string(vocabulary) + "\n[data]\n";
  }
  static constexpr const char* kTail =
      "[train]\nbatch = 4\nlr = 0.01\nwarmup = 5\nsteps = 60\n[sync]\nevery = 20\n"
      "[eval]\nbatches = 2\n";
  // A job over a dataset of the cluster, which carries its tokenizer.
  std::string write_stored_job(const std::string& name, const std::string& dataset,
                               int vocabulary) const {
    return cluster_->folder().write(name + ".toml", head_of(name, vocabulary) + "dataset = \"" +
                                                        dataset + "\"\ntokenizer = \"uint16\"\n" +
                                                        kTail);
  }
  // A job over the shard in `folder`.
  std::string write_job(const std::string& name, const std::string& folder, int vocabulary) const {
    return cluster_->folder().write(name + ".toml",
                                    head_of(name, vocabulary) + "train = \"" + folder +
                                        "/shard_00000.bin\"\ntokenizer = \"uint16\"\n"
                                        "tokenizer_file = \"" +
                                        folder + "/tokenizer.json\"\n" + kTail);
  }
};

TEST_F(Tokens, FromTextToTextOverAJob) {
  const std::string file = cluster_->folder().write("corpus.txt", text());
  const std::string tokenizer = cluster_->folder().path("tokenizer.json");
  const std::string dataset = cluster_->folder().path("dataset");
  done({"tokenizer", "train", file, "--vocab", "320", "-o", tokenizer});
  const Json prepared = Json::parse(
      done({"dataset", "prepare", file, "--tokenizer", tokenizer, "-o", dataset, "--json"}).out);
  EXPECT_EQ(number_at(prepared, "token_bytes"), 2);
  EXPECT_EQ(number_at(prepared, "text_bytes"), static_cast<double>(text().size()));

  const Finished small = cluster_->shoal(
      {"job", "submit", write_job("small", "dataset", 300), "--wait", "--timeout", "60"});
  EXPECT_NE(small.exit_code, 0);
  EXPECT_NE((small.out + small.err).find("model.vocab"), std::string::npos) << small.err;

  done({"dataset", "add", "coast", dataset});
  const Finished needless =
      cluster_->shoal({"dataset", "add", "again", dataset, "--tokens", "uint32"});
  EXPECT_NE(needless.err.find("the folder says it"), std::string::npos) << needless.err;
  done({"job", "submit", write_stored_job("words", "coast", 320), "--wait", "--timeout", "120"},
       150);
  const auto checkpoints = cluster_->items("/jobs/words/checkpoints");
  ASSERT_FALSE(checkpoints.empty());
  EXPECT_NE(text_at(checkpoints.back(), "sample").find("oa"), std::string::npos)
      << "letters, no numbers: " << checkpoints.back().dump();

  const std::string folder = cluster_->folder().path("model");
  done({"checkpoint", "download", "words", "-o", folder});
  EXPECT_EQ(read(fs::path(folder) / "tokenizer.json"), read(tokenizer));
  const Finished said = done({"generate", "--checkpoint", folder, "--prompt", "Shoals swim",
                              "--tokens", "12", "--temperature", "0"});
  EXPECT_EQ(said.out.substr(0, 12), "Shoals swim ") << "a word follows, no number: " << said.out;
  const std::string exported = cluster_->folder().path("exported");
  done({"checkpoint", "export", folder, "-o", exported});
  EXPECT_EQ(read(fs::path(exported) / "tokenizer.json"), read(tokenizer));
  EXPECT_TRUE(fs::exists(exported + "/tokenizer_config.json"));
}

}  // namespace
}  // namespace shoal::integration
