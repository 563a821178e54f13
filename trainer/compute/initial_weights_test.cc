// Folders of `transformers` become the parameters of a job, whole and by stage; every kind of
// mistake is named.
#include "trainer/compute/initial_weights.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replica/checkpoint/safetensors.h"
#include "threads/file_content.h"
#include "trainer/compute/checkpoint.h"
#include "trainer/compute/hugging_face_config.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

fs::path golden(const char* name) { return fs::path(SHOAL_GOLDEN_DIR) / "transformers" / name; }

// The job that begins from a folder.
JobSpec job_from(const fs::path& folder) {
  JobSpec spec;
  auto model = read_model_config(file_content(folder / "config.json").value(), "config.json");
  EXPECT_TRUE(model.ok()) << to_string(model.error());
  spec.model = *model;
  spec.model.init = "hf:" + folder.string();
  return with_derived_fields(spec);
}

Result<std::vector<float>> read(const JobSpec& spec, UnitRange units) {
  std::vector<float> flat(
      static_cast<std::size_t>(value_count(parameter_layout(spec.model, units))));
  const Status read = read_initial_weights(spec, units, data::DataRoots::whole_host(), {}, flat);
  if (!read) return read.error();
  return flat;
}

Error refusal(const JobSpec& spec) {
  const auto flat = read(spec, whole_model(spec.model));
  EXPECT_FALSE(flat.ok());
  return flat.ok() ? Error{} : flat.error();
}

class InitialWeights : public testing::Test {
 protected:
  InitialWeights() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("shoal_weights_") + test->name());
    fs::remove_all(folder_);
    fs::copy(golden("llama3"), folder_);
    spec_ = job_from(folder_);
  }
  // Writes the weights again, with what `change` makes of the list of tensors.
  template <typename Change>
  void rewrite(const Change& change) {
    const auto layout = parameter_layout(spec_.model, whole_model(spec_.model));
    values_ = std::move(*read(spec_, whole_model(spec_.model)));
    std::vector<replica::TensorToWrite> tensors;
    for (const TensorSlot& slot : layout) {
      tensors.push_back(
          {slot.name, slot.shape,
           std::span<const float>(values_).subspan(static_cast<std::size_t>(slot.first),
                                                   static_cast<std::size_t>(slot.count))});
    }
    change(tensors);
    ASSERT_TRUE(replica::write_safetensors(folder_ / "model.safetensors", tensors, {}).ok());
  }

  fs::path folder_;
  JobSpec spec_;
  std::vector<float> values_;
};

TEST_F(InitialWeights, AreTheTensorsOfTheFile) {
  const auto flat = read(spec_, whole_model(spec_.model));
  ASSERT_TRUE(flat.ok()) << to_string(flat.error());
  const auto file = replica::SafetensorsFile::open(folder_ / "model.safetensors");
  for (const TensorSlot& slot : parameter_layout(spec_.model, whole_model(spec_.model))) {
    std::vector<float> expected(static_cast<std::size_t>(slot.count));
    ASSERT_TRUE(file->read(slot.name, slot.shape, expected).ok());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), flat->begin() + slot.first))
        << slot.name;
  }
}

// Each stage reads its part, out of several files in half precision.
TEST_F(InitialWeights, OfStagesAddUpToTheWhole) {
  const JobSpec spec = job_from(golden("linear"));
  const auto whole = read(spec, whole_model(spec.model));
  ASSERT_TRUE(whole.ok()) << to_string(whole.error());
  std::vector<float> together;
  for (const UnitRange stage : {UnitRange{0, 2}, UnitRange{2, 4}}) {
    const auto part = read(spec, stage);
    ASSERT_TRUE(part.ok()) << to_string(part.error());
    together.insert(together.end(), part->begin(), part->end());
  }
  EXPECT_EQ(together, *whole);
}

TEST_F(InitialWeights, AnUntiedHeadBeginsAsTheTiedEmbedding) {
  JobSpec spec = job_from(golden("qwen2"));
  const auto tied = read(spec, whole_model(spec.model));
  ASSERT_TRUE(tied.ok()) << to_string(tied.error());
  spec.swarm.stages = 2;
  spec.model.tie_embeddings = false;
  const auto head = read(spec, {3, 4});
  ASSERT_TRUE(head.ok()) << to_string(head.error());
  const std::size_t matrix = 256 * 32;
  ASSERT_EQ(head->size(), matrix + 32);  // behind the last norm
  EXPECT_TRUE(std::equal(head->begin() + 32, head->end(), tied->begin()));
}

// Such a job would train more parameters than the folder's model has.
TEST_F(InitialWeights, OnOneStageAFolderWithTiedEmbeddingsNeedsAJobThatTiesThem) {
  JobSpec spec = job_from(golden("qwen2"));
  spec.model.tie_embeddings = false;
  const Error error = refusal(spec);
  EXPECT_EQ(error.code, Code::kIncompatible);
  EXPECT_THAT(error.message, HasSubstr("model.tie_embeddings is false in the job and true there"));
  EXPECT_EQ(error.remedy, "set model.tie_embeddings = true");
  EXPECT_EQ(weights_failure(spec, error).kind, ReplicaFailure::kModelDoesNotFit);
}

// A checkpoint of three stages, for a job of one.
TEST_F(InitialWeights, AShoalCheckpointOfAnotherCutIsSuchAFolder) {
  JobSpec old = spec_;
  old.name = "old", old.data.train = "/x", old.model.init.clear();
  const std::vector<UnitRange> cut = {{0, 1}, {1, 3}, {3, 4}};
  const auto folder = folder_ / "checkpoint";
  std::vector<float> together;
  for (StageIndex stage = 0; stage < 3; ++stage) {
    const auto part = read(spec_, cut[static_cast<std::size_t>(stage)]);
    ASSERT_TRUE(part.ok());
    together.insert(together.end(), part->begin(), part->end());
    ASSERT_TRUE(write_checkpoint(folder, {old,
                                          cut,
                                          stage,
                                          {JobId(1), 0, 5},
                                          Steps(9),
                                          *part,
                                          {{"momentum", *part}},
                                          *part,
                                          *part,
                                          9})
                    .ok());
  }
  spec_.model.init = "hf:" + folder.string();
  const auto flat = read(spec_, whole_model(spec_.model));
  ASSERT_TRUE(flat.ok()) << to_string(flat.error());
  EXPECT_EQ(*flat, together);
  // As the agent fetched it.
  spec_.model.init = "ckpt_7";
  std::vector<float> fetched(flat->size());
  const auto read_fetched = [&] {
    return read_initial_weights(spec_, whole_model(spec_.model), {}, folder, fetched);
  };
  const Status whole = read_fetched();
  ASSERT_TRUE(whole.ok()) << to_string(whole.error());
  EXPECT_EQ(fetched, together);
  fs::remove(folder / "model-00002-of-00003.safetensors");
  const Error missing = read_fetched().error();
  EXPECT_THAT(missing.message, HasSubstr("model-00002-of-00003.safetensors"));
  EXPECT_EQ(weights_failure(spec_, missing).kind, ReplicaFailure::kSourceLost);
}

TEST_F(InitialWeights, AShorterContextIsTheJobsBusiness) {
  spec_.model.context = 16;
  EXPECT_TRUE(read(spec_, whole_model(spec_.model)).ok());
  spec_.model.context = 65;
  EXPECT_THAT(refusal(spec_).message, HasSubstr("model.context is 65 in the job and 64 there"));
}

TEST_F(InitialWeights, EveryFieldThatDiffersIsNamed) {
  spec_.model.rope.theta = 10'000;
  spec_.model.layers = 3;
  const Error error = refusal(spec_);
  EXPECT_EQ(error.code, Code::kIncompatible);
  EXPECT_EQ(error.field, "model.init");
  EXPECT_THAT(
      error.message,
      AllOf(HasSubstr(folder_.string()), HasSubstr("model.layers is 3 in the job and 2 there"),
            HasSubstr("model.rope.theta is 10000 in the job and 5e+05 there"),
            Not(HasSubstr("ffn"))));
  EXPECT_EQ(weights_failure(spec_, error).kind, ReplicaFailure::kModelDoesNotFit);
}

TEST_F(InitialWeights, MissingExtraAndMisshapedTensorsAreNamed) {
  const std::vector<float> three(3);
  rewrite([&](std::vector<replica::TensorToWrite>& tensors) {
    tensors[1].name = "model.layers.9.mlp.gate_proj.weight";
    tensors[2].shape = {static_cast<std::int64_t>(tensors[2].values.size()), 1};
    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {3}, three});
  });
  const std::string message = refusal(spec_).message;
  EXPECT_THAT(message, HasSubstr("model.layers.0.input_layernorm.weight is missing"));
  EXPECT_THAT(message, HasSubstr("model.layers.9.mlp.gate_proj.weight is not of this model"));
  EXPECT_THAT(message, HasSubstr("q_proj.weight has the shape [1536, 1] instead of [48, 32]"));
  EXPECT_THAT(message, Not(HasSubstr("inv_freq")));
}

TEST_F(InitialWeights, TenAreNamedAndTheRestCounted) {
  rewrite([](std::vector<replica::TensorToWrite>& tensors) { tensors.resize(1); });
  const std::string message = refusal(spec_).message;
  EXPECT_THAT(message, HasSubstr("model.layers.1.input_layernorm.weight is missing; and 10 more"));
}

TEST_F(InitialWeights, ACutFileIsNamed) {
  const auto path = folder_ / "model.safetensors";
  fs::resize_file(path, fs::file_size(path) - 1000);
  const Error error = refusal(spec_);
  EXPECT_EQ(error.code, Code::kDataLoss);
  EXPECT_THAT(error.message, AllOf(HasSubstr(path.string()), HasSubstr("was cut")));
  EXPECT_EQ(weights_failure(spec_, error).kind, ReplicaFailure::kDataInvalid);
}

// Saving a model into the folder of an older one leaves its index there.
TEST_F(InitialWeights, TheSingleFileWinsOverALeftOverIndex) {
  const auto expected = read(spec_, whole_model(spec_.model));
  ASSERT_TRUE(expected.ok());
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  };
  write("model.safetensors.index.json",
        R"({"weight_map": {"model.norm.weight": "gone.safetensors"}})");
  EXPECT_EQ(*read(spec_, whole_model(spec_.model)), *expected);
  // With the older shard, whose values are others.
  rewrite([&](std::vector<replica::TensorToWrite>& tensors) {
    std::string map;
    for (const replica::TensorToWrite& tensor : tensors) {
      map +=
          (map.empty() ? "\"" : ", \"") + tensor.name + "\": \"model-00001-of-00001.safetensors\"";
    }
    write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
    std::vector<float> larger = values_;
    for (float& value : larger) value *= 250;
    std::vector<replica::TensorToWrite> old = tensors;
    std::size_t first = 0;
    for (replica::TensorToWrite& tensor : old) {
      tensor.values = std::span<const float>(larger).subspan(first, tensor.values.size());
      first += tensor.values.size();
    }
    ASSERT_TRUE(
        replica::write_safetensors(folder_ / "model-00001-of-00001.safetensors", old, {}).ok());
  });
  EXPECT_EQ(*read(spec_, whole_model(spec_.model)), *expected);
  fs::remove(folder_ / "model.safetensors");
  const auto old = read(spec_, whole_model(spec_.model));
  ASSERT_TRUE(old.ok()) << to_string(old.error());
  EXPECT_EQ((*old)[0], (*expected)[0] * 250);
}

TEST_F(InitialWeights, AnIndexThatIsNotOneIsNamed) {
  fs::remove(folder_ / "model.safetensors");
  const auto with_index = [&](const std::string& text) {
    std::ofstream(folder_ / "model.safetensors.index.json", std::ios::trunc) << text;
    return refusal(spec_).message;
  };
  EXPECT_THAT(with_index("{oops"), HasSubstr("index.json is not JSON at line 1"));
  EXPECT_THAT(with_index("[]"), HasSubstr("index.json has no weight_map"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": 1}})"), HasSubstr("names no file for a tensor"));
  EXPECT_THAT(with_index(R"({"weight_map": {"a": "b.safetensors"}})"), HasSubstr("b.safetensors"));
  EXPECT_THAT(with_index(R"({"weight_map": {}, "metadata": {"total_size": NaN}})"),
              HasSubstr("model.embed_tokens.weight is missing"));
}

TEST_F(InitialWeights, AFolderOfAnotherKindIsNamed) {
  fs::remove(folder_ / "model.safetensors");
  std::ofstream(folder_ / "pytorch_model.bin") << "x";
  EXPECT_THAT(refusal(spec_).remedy, HasSubstr("pytorch_model.bin: load it with transformers"));
  fs::remove(folder_ / "config.json");
  std::ofstream(folder_ / "adapter_config.json") << "{}";
  EXPECT_THAT(refusal(spec_).remedy, HasSubstr("holds an adapter (LoRA)"));
}

TEST_F(InitialWeights, WhatIsNotThereIsNamed) {
  fs::remove(folder_ / "model.safetensors");
  const Error error = refusal(spec_);
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr((folder_ / "model.safetensors").string()));
  EXPECT_EQ(weights_failure(spec_, error).kind, ReplicaFailure::kDataMissing);
  std::vector<float> flat;
  const Status outside =
      read_initial_weights(spec_, whole_model(spec_.model), data::DataRoots(), {}, flat);
  EXPECT_EQ(outside.error().code, Code::kNotFound);
  EXPECT_EQ(outside.error().field, "model.init");
}

}  // namespace
}  // namespace shoal::trainer
