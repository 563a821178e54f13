// What the replica asks of libtorch's compute beside steps, which learner_test and
// stage_compute_test have.
#include "trainer/compute/torch_compute.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "replica/checkpoint/safetensors.h"
#include "threads/file_content.h"
#include "trainer/compute/hugging_face_config.h"
#include "trainer/model/tiny_job_test_util.h"
#include "trainer/plain/data.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

class TorchComputeTest : public testing::Test {
 protected:
  std::unique_ptr<replica::Compute> make(const std::vector<UnitRange>& cut, StageIndex stage) {
    std::unique_ptr<replica::Compute> compute;
    failure_ = host_.make({spec_, cut, stage}, compute);
    return compute;
  }

  TorchHost host_{{}, data::DataRoots::whole_host()};
  JobSpec spec_ = tiny_job(SyncAlgorithm::kDiloco, 2, Steps(30));
  std::vector<UnitRange> whole_{whole_model(spec_.model)};
  MaybeFailure failure_;
};

TEST_F(TorchComputeTest, AWholeModelSaysWhatItIs) {
  const auto compute = make(whole_, 0);
  ASSERT_FALSE(failure_) << failure_->detail;
  EXPECT_EQ(compute->value_count(), parameter_count(spec_.model));
  const outer_opt::StageSizes sizes = compute->sizes();
  std::int64_t values = sizes.embedding + sizes.head;
  for (const std::int64_t block : sizes.blocks) values += block;
  EXPECT_EQ(values, compute->value_count());
  EXPECT_FALSE(compute->decay_ranges().empty());
  EXPECT_EQ(compute->data(), (*Dataset::open(spec_, data::DataRoots::whole_host()))->digest());
}

TEST_F(TorchComputeTest, ItBeginsFromWeightsOfAFolder) {
  const auto folder = std::filesystem::path(SHOAL_GOLDEN_DIR) / "transformers" / "qwen2";
  const auto model = read_model_config(file_content(folder / "config.json").value(), "config.json");
  ASSERT_TRUE(model.ok()) << to_string(model.error());
  spec_.model = *model;
  spec_.model.context = 12;
  spec_.model.init = "hf:" + folder.string();
  const auto compute = make({whole_model(spec_.model)}, 0);
  ASSERT_FALSE(failure_) << failure_->detail;
  ASSERT_FALSE(compute->seed({}));
  const auto file = replica::SafetensorsFile::open(folder / "golden.safetensors");
  std::vector<float> tokens(2 * 12), logits(2 * 12 * 256), ours;
  ASSERT_TRUE(file->read("tokens", {2, 12}, tokens).ok());
  ASSERT_TRUE(file->read("logits", {2, 12, 256}, logits).ok());
  const std::vector<std::int64_t> text(tokens.begin() + 12, tokens.end());
  ASSERT_FALSE(compute->next_logits(text, ours));
  for (std::size_t i = 0; i < 256; ++i) EXPECT_NEAR(ours[i], logits[logits.size() - 256 + i], 1e-4);
  spec_.model.init += "/none";
  const auto without = make({whole_model(spec_.model)}, 0);
  ASSERT_FALSE(failure_) << failure_->detail;
  EXPECT_EQ(without->seed({})->kind, ReplicaFailure::kDataMissing);
}

TEST_F(TorchComputeTest, ItsCheckpointsNameTheEndOfTextOfItsTokenizer) {
  const auto tokens = std::filesystem::path(testing::TempDir()) / "special_tokens.bin";
  std::ofstream(tokens, std::ios::binary) << std::string(40'000, '\0');
  spec_.model.vocab = 702;
  spec_.data.train = tokens.string();
  spec_.data.tokenizer = Tokenizer::kUint16;
  spec_.data.tokenizer_file = std::string(SHOAL_GOLDEN_DIR) + "/tokenizer/qwen2.json";
  const auto compute = make({whole_model(spec_.model)}, 0);
  ASSERT_FALSE(failure_) << failure_->detail;
  const auto end = compute->tokenizer()->end_of_text();
  ASSERT_TRUE(end);
  const std::vector<float> zeros(static_cast<std::size_t>(compute->value_count()));
  const auto folder = std::filesystem::path(testing::TempDir()) / "special_tokens_checkpoint";
  const std::vector<UnitRange> cut = {whole_model(spec_.model)};
  const auto written = host_.write_checkpoint(
      folder,
      {spec_, cut, 0, {JobId(1), 0, 5}, Steps(9), zeros, {{"momentum", zeros}}, zeros, zeros, 9});
  ASSERT_TRUE(written.ok()) << to_string(written.error());
  for (const char* file : {"config.json", "generation_config.json"}) {
    const auto json = nlohmann::json::parse(file_content(folder / file).value());
    EXPECT_EQ(json["eos_token_id"], *end) << file;
  }
}

TEST_F(TorchComputeTest, ThePromptIsHeldOutText) {
  const auto compute = make(whole_, 0);
  ASSERT_FALSE(failure_) << failure_->detail;
  const auto data = std::move(*Dataset::open(spec_, data::DataRoots::whole_host()));
  const std::int64_t held_out = data->validation_sequences(spec_.eval.batches * spec_.train.batch);
  std::vector<std::int64_t> wanted(static_cast<std::size_t>(spec_.model.context) + 1);
  ASSERT_TRUE(data->validation_sequence(0, held_out, wanted).ok());
  wanted.pop_back();
  EXPECT_EQ(compute->prompt(), wanted);
}

TEST_F(TorchComputeTest, DataThatIsNotThereIsNamed) {
  spec_.data.train += ".missing";
  make(whole_, 0);
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->kind, ReplicaFailure::kDataMissing);
  EXPECT_THAT(failure_->detail, testing::HasSubstr(spec_.data.train));
}

TEST_F(TorchComputeTest, ALaterStageReadsNoData) {
  spec_.model.tie_embeddings = false;
  spec_ = with_derived_fields(spec_);
  const UnitRange all = whole_[0];
  const std::vector<UnitRange> cut{{all.first, all.first + 2}, {all.first + 2, all.last}};
  spec_.data.train += ".missing";
  const auto compute = make(cut, 1);
  ASSERT_FALSE(failure_) << failure_->detail;
  EXPECT_EQ(compute->data(), Digest());
  EXPECT_NE(compute->make_stage(), nullptr);
}

}  // namespace
}  // namespace shoal::trainer
