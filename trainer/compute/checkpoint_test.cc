// What is written is read back with the same digests, for both families; damage and mix-ups are
// refused.
#include "trainer/compute/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "job/sync_spec_test_util.h"
#include "replica/checkpoint/safetensors.h"
#include "threads/file_content.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/plain/parameter_layout.h"
#include "transfer/file_writer.h"

namespace shoal::trainer {
namespace {

class CheckpointTest : public testing::TestWithParam<ModelFamily> {
 protected:
  CheckpointTest() {
    spec_.name = "test";
    spec_.model = {GetParam(), 2, 16, 2, 0, 0, 8, 256};
    spec_.data.train = "/data/text";
    spec_ = with_derived_fields(spec_);
    const auto size = static_cast<std::size_t>(parameter_count(spec_.model));
    for (auto* vector : {&anchor_, &momentum_, &m_, &v_}) vector->resize(size);
    const auto layout = parameter_layout(spec_.model, whole_model(spec_.model));
    initialize(layout, 1, anchor_);
    initialize(layout, 2, momentum_);
    initialize(layout, 3, m_);
    initialize(layout, 4, v_);
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("shoal_checkpoint_test_") + to_string(GetParam()));
    std::filesystem::remove_all(folder_);
  }
  CheckpointContent content() {
    return {spec_,
            {whole_model(spec_.model)},
            0,
            {JobId(7), 1, 12},
            Steps(600),
            anchor_,
            {{"momentum", momentum_}},
            m_,
            v_,
            599};
  }
  // The part of one stage, with its slices of the vectors.
  CheckpointContent part(const std::vector<UnitRange>& cut, StageIndex stage) {
    std::size_t first = 0, first_second = 0;
    for (StageIndex s = 0; s < stage; ++s) {
      first += count_of(cut[static_cast<std::size_t>(s)]);
      first_second += seconds_of(cut[static_cast<std::size_t>(s)]);
    }
    const UnitRange units = cut[static_cast<std::size_t>(stage)];
    const auto slice = [&](const std::vector<float>& all) {
      return std::span<const float>(all).subspan(first, count_of(units));
    };
    return {spec_,
            cut,
            stage,
            {JobId(7), 1, 12},
            Steps(600),
            slice(anchor_),
            {{"momentum", slice(momentum_)}},
            slice(m_),
            std::span<const float>(v_).subspan(first_second, seconds_of(units)),
            590 + stage};
  }
  std::size_t count_of(UnitRange units) {
    return static_cast<std::size_t>(value_count(parameter_layout(spec_.model, units)));
  }
  std::size_t seconds_of(UnitRange units) {  // second moments
    const auto layout = parameter_layout(spec_.model, units);
    return static_cast<std::size_t>(optimizer_layout(layout, spec_.train.optimizer).second_moments);
  }
  // With values for every unit of the model as it is now.
  void fill_vectors() {
    const auto layout = parameter_layout(spec_.model, whole_model(spec_.model));
    std::uint64_t seed = 10;
    for (auto* vector : {&anchor_, &momentum_, &m_, &v_}) {
      vector->resize(static_cast<std::size_t>(value_count(layout)));
      initialize(layout, ++seed, *vector);
    }
    v_.resize(seconds_of(whole_model(spec_.model)));
  }
  void write_cut(const std::filesystem::path& folder, const std::vector<UnitRange>& cut) {
    for (StageIndex stage = 0; stage < std::ssize(cut); ++stage) {
      ASSERT_TRUE(write_checkpoint(folder, part(cut, stage)).ok());
    }
  }
  // All parts, with an untied head, into the folder.
  std::vector<UnitRange> write_parts() {
    spec_.model.tie_embeddings = false;
    const std::vector<UnitRange> cut = {{0, 1}, {1, 3}, {3, 4}};
    fill_vectors();
    for (StageIndex stage = 0; stage < 3; ++stage) {
      EXPECT_TRUE(write_checkpoint(folder_, part(cut, stage)).ok());
    }
    return cut;
  }

  JobSpec spec_;
  std::vector<float> anchor_, momentum_, m_, v_;
  std::filesystem::path folder_;
};

TEST_P(CheckpointTest, MuonHasFewerSecondMoments) {
  spec_.train.optimizer = Optimizer::kMuon;
  const auto layout = parameter_layout(spec_.model, whole_model(spec_.model));
  v_.resize(static_cast<std::size_t>(optimizer_layout(layout, Optimizer::kMuon).second_moments));
  ASSERT_LT(v_.size(), m_.size());
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  const auto read = read_checkpoint(folder_, 0);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->spec.train.optimizer, Optimizer::kMuon);
  EXPECT_EQ(read->adam_m, m_);
  EXPECT_EQ(read->adam_v, v_);
}

// The moments of the outer step are others than those of the inner optimizer.
TEST_P(CheckpointTest, EveryVectorOfTheOuterOptimizerComesBack) {
  change_sync(spec_, [](SyncSpec& sync) { sync.outer.method = OuterMethod::kAdam; });
  CheckpointContent whole = content();
  whole.outer = {{"adam_m", momentum_}, {"adam_v", v_}};
  const auto written = write_checkpoint(folder_, whole);
  ASSERT_TRUE(written.ok()) << to_string(written.error());
  for (const char* role : {"outer/adam_m", "outer/adam_v"}) {
    EXPECT_EQ(std::ranges::count(written->files, role, &FileEntry::role), 1) << role;
  }
  const auto read = read_checkpoint(folder_, 0);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->outer, (NamedVectors{{"adam_m", momentum_}, {"adam_v", v_}}));
  EXPECT_EQ(read->adam_m, m_);
  EXPECT_EQ(read->adam_v, v_);
  std::filesystem::remove(folder_ / "outer_adam_v.safetensors");
  EXPECT_FALSE(read_checkpoint(folder_, 0).ok());
}

TEST_P(CheckpointTest, RoundTrip) {
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  const auto read = read_checkpoint(folder_, std::nullopt);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->spec, spec_);
  EXPECT_EQ(read->key, (RoundKey{JobId(7), 1, 12}));
  EXPECT_EQ(read->step, Steps(600));
  EXPECT_EQ(read->adam_step, 599);
  EXPECT_EQ(read->anchor, anchor_);
  EXPECT_EQ(vector_of(read->outer, "momentum"), momentum_);
  EXPECT_EQ(read->adam_m, m_);
  EXPECT_EQ(read->adam_v, v_);
  const auto model = StoredModel::open(folder_);
  ASSERT_TRUE(model.ok()) << to_string(model.error());
  EXPECT_TRUE(model->is_mapped());
  EXPECT_TRUE(std::ranges::equal(model->values(), anchor_));
  EXPECT_EQ(model->step(), Steps(600));
}

// What versions before 0.2 wrote, of a whole model: shoal.json in place of the part file, and one
// file of state.
TEST_P(CheckpointTest, TheSecondFormatIsStillRead) {
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  auto json = nlohmann::json::parse(file_content(folder_ / "part-00.json").value());
  json["format"] = 2;
  for (const char* later : {"trainer", "stage", "vectors", "files"}) json.erase(later);
  for (const char* later : {"part-00.json", "outer.safetensors", "optimizer.safetensors"})
    ASSERT_TRUE(std::filesystem::remove(folder_ / later));
  ASSERT_TRUE(write_whole_file(folder_ / "shoal.json", json.dump()).ok());
  const std::vector<std::int64_t> flat = {std::ssize(anchor_)};
  const auto hex = [](const std::vector<float>& values) { return to_hex(digest_of(values)); };
  ASSERT_TRUE(replica::write_safetensors(
                  folder_ / "shoal_state.safetensors",
                  {{"outer_momentum", flat, momentum_}, {"adam_m", flat, m_}, {"adam_v", flat, v_}},
                  {{"round", "job_7/1/12"},
                   {"outer_momentum", hex(momentum_)},
                   {"adam_m", hex(m_)},
                   {"adam_v", hex(v_)},
                   {"adam_step", "599"}})
                  .ok());
  const auto read = read_checkpoint(folder_, 0);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->spec, spec_);
  EXPECT_EQ(read->adam_step, 599);
  EXPECT_EQ(read->anchor, anchor_);
  EXPECT_EQ(vector_of(read->outer, "momentum"), momentum_);
  EXPECT_EQ(read->adam_v, v_);
  EXPECT_TRUE(StoredModel::open(folder_).ok());
}

// As version 1 wrote them: nothing in the files' metadata, everything in shoal.json.
TEST_P(CheckpointTest, TheFirstFormatIsStillRead) {
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  auto json = nlohmann::json::parse(file_content(folder_ / "part-00.json").value());
  for (const char* later : {"part-00.json", "outer.safetensors", "optimizer.safetensors"})
    ASSERT_TRUE(std::filesystem::remove(folder_ / later));
  json["format"] = 1;
  json.erase("cut");
  json["spec"]["model"].erase("tie_embeddings");
  json["adam_step"] = 599;
  json["digests"] = {{"anchor", to_hex(digest_of(std::span<const float>(anchor_)))},
                     {"momentum", to_hex(digest_of(std::span<const float>(momentum_)))},
                     {"adam_m", to_hex(digest_of(std::span<const float>(m_)))},
                     {"adam_v", to_hex(digest_of(std::span<const float>(v_)))}};
  const auto write = [&] { return write_whole_file(folder_ / "shoal.json", json.dump()); };
  ASSERT_TRUE(write().ok());
  const std::vector<std::int64_t> flat = {static_cast<std::int64_t>(anchor_.size())};
  const std::vector<replica::TensorToWrite> state = {
      {"outer_momentum", flat, momentum_}, {"adam_m", flat, m_}, {"adam_v", flat, v_}};
  ASSERT_TRUE(replica::write_safetensors(folder_ / "shoal_state.safetensors", state, {}).ok());

  const auto read = read_checkpoint(folder_, 0);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->spec, spec_);
  EXPECT_EQ(read->adam_step, 599);
  EXPECT_EQ(read->anchor, anchor_);
  EXPECT_EQ(read->adam_v, v_);
  json["digests"]["adam_m"] = json["digests"]["adam_v"];
  ASSERT_TRUE(write().ok());
  EXPECT_EQ(read_checkpoint(folder_, 0).error().code, Code::kDataLoss);
}

TEST_P(CheckpointTest, ReportDescribesEveryFileInTheFolder) {
  const auto part = write_checkpoint(folder_, content(), "{}");
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->anchor, digest_of(anchor_));
  std::map<std::string, std::string> roles;
  for (const FileEntry& file : part->files) {
    const std::string bytes = file_content(folder_ / file.path).value();
    EXPECT_EQ(file.size, Bytes(std::ssize(bytes))) << file.path;
    EXPECT_EQ(file.sha256, sha256_of(bytes)) << file.path;
    roles[file.path] = file.role;
  }
  EXPECT_EQ(roles, (std::map<std::string, std::string>{{"config.json", "description"},
                                                       {"generation_config.json", "description"},
                                                       {"model.safetensors", "weights"},
                                                       {"optimizer.safetensors", "inner/optimizer"},
                                                       {"outer.safetensors", "outer/momentum"},
                                                       {"part-00.json", "part"},
                                                       {"tokenizer.json", "description"}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}),
            std::ssize(part->files));
}

TEST_P(CheckpointTest, ConfigNamesTheArchitecture) {
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  const auto config = nlohmann::json::parse(file_content(folder_ / "config.json").value());
  const bool llama = GetParam() == ModelFamily::kLlama;
  EXPECT_EQ(config["architectures"][0], llama ? "LlamaForCausalLM" : "GPT2LMHeadModel");
  EXPECT_EQ(config["model_type"], llama ? "llama" : "gpt2");
  EXPECT_EQ(config["vocab_size"], 256);
  EXPECT_EQ(config[llama ? "hidden_size" : "n_embd"], 16);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "generation_config.json"));
}

// Without biases a Llama, with those of q, k and v a Qwen2.
TEST(CheckpointConfig, SaysWhatTheLibrariesNeedForTheSameLogits) {
  JobSpec spec;
  spec.model.head_dim = 24;
  spec.model.norm_eps = 1e-6;
  spec.model.rope = {5e5, RopeScaling::kLlama3, 8, 1, 4, 8192};
  const auto llama = nlohmann::json::parse(model_config(with_derived_fields(spec).model));
  EXPECT_EQ(llama["model_type"], "llama");
  EXPECT_EQ(llama["attention_bias"], false);
  EXPECT_EQ(llama["head_dim"], 24);
  EXPECT_EQ(llama["rms_norm_eps"], 1e-6);
  EXPECT_EQ(llama["rope_theta"], 5e5);
  const nlohmann::json scaling = {{"rope_type", "llama3"},
                                  {"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", 8192}};
  EXPECT_EQ(llama["rope_scaling"], scaling);
  spec.model.qkv_bias = true;
  spec.model.rope = {};
  const auto qwen2 = nlohmann::json::parse(model_config(with_derived_fields(spec).model));
  EXPECT_EQ(qwen2["architectures"][0], "Qwen2ForCausalLM");
  EXPECT_EQ(qwen2["model_type"], "qwen2");
  EXPECT_EQ(qwen2["use_sliding_window"], false);
  EXPECT_TRUE(qwen2["rope_scaling"].is_null());
}

TEST_P(CheckpointTest, StagesReadTheirPartsAndTogetherTheyAreTheModel) {
  const auto cut = write_parts();
  const auto whole = read_checkpoint(folder_, std::nullopt);
  ASSERT_TRUE(whole.ok()) << to_string(whole.error());
  EXPECT_EQ(whole->spec, spec_);
  EXPECT_EQ(whole->cut, cut);
  EXPECT_EQ(whole->anchor, anchor_);
  EXPECT_EQ(vector_of(whole->outer, "momentum"), momentum_);
  EXPECT_EQ(whole->adam_v, v_);
  for (StageIndex stage = 0; stage < 3; ++stage) {
    const auto expected = part(cut, stage);
    const auto read = read_checkpoint(folder_, stage);
    ASSERT_TRUE(read.ok()) << to_string(read.error());
    const auto same = [](std::span<const float> a, const std::vector<float>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    };
    EXPECT_TRUE(same(expected.anchor, read->anchor));
    EXPECT_TRUE(same(expected.outer.at(0).values, vector_of(read->outer, "momentum")));
    EXPECT_TRUE(same(expected.adam_m, read->adam_m));
    EXPECT_TRUE(same(expected.adam_v, read->adam_v));
    EXPECT_EQ(read->adam_step, 590 + stage);
  }
  EXPECT_EQ(read_checkpoint(folder_, 3).error().code, Code::kIncompatible);
  const auto model = StoredModel::open(folder_);
  ASSERT_TRUE(model.ok()) << to_string(model.error());
  EXPECT_FALSE(model->is_mapped()) << "its stages are files of their own";
  EXPECT_TRUE(std::ranges::equal(model->values(), anchor_));
}

// Two stages, then three, then one: every vector is the same again, bit for bit.
TEST_P(CheckpointTest, AStageOfAnotherCutIsMadeOfThePartsThatHaveItsUnits) {
  for (const Optimizer optimizer : {Optimizer::kAdamw, Optimizer::kMuon}) {
    spec_.model.tie_embeddings = false;
    spec_.train.optimizer = optimizer;
    fill_vectors();
    const std::filesystem::path folders[] = {folder_ / "two", folder_ / "three"};
    write_cut(folders[0], {{0, 2}, {2, 4}});
    const std::vector<UnitRange> cut = {{0, 1}, {1, 3}, {3, 4}};
    for (StageIndex stage = 0; stage < 3; ++stage) {
      const auto read = read_units(folders[0], cut[static_cast<std::size_t>(stage)]);
      ASSERT_TRUE(read.ok()) << to_string(read.error());
      EXPECT_EQ(read->adam_step, stage == 0 ? 590 : 591) << "the larger one of its parts";
      const CheckpointContent content{spec_,
                                      cut,
                                      stage,
                                      read->key,
                                      read->step,
                                      read->anchor,
                                      views_of(read->outer),
                                      read->adam_m,
                                      read->adam_v,
                                      read->adam_step};
      ASSERT_TRUE(write_checkpoint(folders[1], content).ok());
    }
    const auto whole = read_units(folders[1], whole_model(spec_.model));
    ASSERT_TRUE(whole.ok()) << to_string(whole.error());
    EXPECT_EQ(whole->anchor, anchor_);
    EXPECT_EQ(vector_of(whole->outer, "momentum"), momentum_);
    EXPECT_EQ(whole->adam_m, m_);
    EXPECT_EQ(whole->adam_v, v_);
    EXPECT_EQ(whole->cut, cut) << "that of the files";
    std::filesystem::remove_all(folder_);
  }
}

TEST_P(CheckpointTest, AStageOfAnotherCutNeedsAllItsPartsOfOneRound) {
  const auto cut = write_parts();
  EXPECT_EQ(read_units(folder_, {0, 5}).error().code, Code::kIncompatible);
  auto later = part(cut, 1);
  ++later.key.round;
  ASSERT_TRUE(write_checkpoint(folder_, later).ok());
  EXPECT_EQ(read_units(folder_, {0, 2}).error().code, Code::kDataLoss);
  EXPECT_TRUE(read_units(folder_, {0, 1}).ok());
  std::filesystem::remove(folder_ / "outer-00003-of-00003.safetensors");
  EXPECT_EQ(read_units(folder_, {3, 4}).error().code, Code::kNotFound);
}

TEST_P(CheckpointTest, TheIndexNamesTheShardOfEveryTensor) {
  write_parts();
  const auto index =
      nlohmann::json::parse(file_content(folder_ / "model.safetensors.index.json").value());
  EXPECT_EQ(index["metadata"]["total_size"], anchor_.size() * sizeof(float));
  const auto layout = parameter_layout(spec_.model, whole_model(spec_.model));
  EXPECT_EQ(index["weight_map"].size(), layout.size());
  EXPECT_EQ(index["weight_map"][layout.front().name], "model-00001-of-00003.safetensors");
  EXPECT_EQ(index["weight_map"]["lm_head.weight"], "model-00003-of-00003.safetensors");
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const auto shard = replica::SafetensorsFile::open(folder_ / file.get<std::string>());
    ASSERT_TRUE(shard.ok());
    EXPECT_TRUE(shard->has(tensor)) << tensor;
    EXPECT_EQ(shard->metadata().at("format"), "pt");
  }
  const auto config = nlohmann::json::parse(file_content(folder_ / "config.json").value());
  EXPECT_EQ(config["tie_word_embeddings"], false);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model.safetensors"));
}

TEST_P(CheckpointTest, ShardsOfAnotherRoundOrDamagedOrMissingAreRefused) {
  const auto cut = write_parts();
  auto later = part(cut, 1);
  ++later.key.round;
  ASSERT_TRUE(write_checkpoint(folder_, later).ok());
  EXPECT_EQ(read_checkpoint(folder_, 1)->key.round, 13) << "the caller compares the round";
  EXPECT_EQ(read_checkpoint(folder_, std::nullopt).error().code, Code::kDataLoss);
  EXPECT_EQ(StoredModel::open(folder_).error().code, Code::kDataLoss);
  EXPECT_TRUE(read_checkpoint(folder_, 2).ok());
  const auto path = folder_ / "optimizer-00003-of-00003.safetensors";
  std::string bytes = file_content(path).value();
  bytes[bytes.size() - 3] ^= 1;
  ASSERT_TRUE(write_whole_file(path, bytes).ok());
  EXPECT_EQ(read_checkpoint(folder_, 2).error().code, Code::kDataLoss);
  std::filesystem::remove(path);
  EXPECT_EQ(read_checkpoint(folder_, 2).error().code, Code::kNotFound);
}

TEST_P(CheckpointTest, DamageIsNoticedByDigest) {
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  std::string bytes = file_content(folder_ / "model.safetensors").value();
  bytes[bytes.size() - 3] ^= 1;
  ASSERT_TRUE(write_whole_file(folder_ / "model.safetensors", bytes).ok());
  const auto read = StoredModel::open(folder_);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kDataLoss);
}

TEST_P(CheckpointTest, APythonProgramsModelIsRefusedWithWhatReadsIt) {
  spec_.trainer = {.kind = TrainerKind::kPython, .entry = "train.py"};
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  const Error error = StoredModel::open(folder_).error();
  EXPECT_EQ(error.code, Code::kIncompatible);
  EXPECT_NE(to_string(error).find("shoal.load_checkpoint()"), std::string::npos);
}

TEST_P(CheckpointTest, MissingFolderIsNotFound) {
  EXPECT_EQ(read_checkpoint(folder_, std::nullopt).error().code, Code::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Families, CheckpointTest,
                         testing::Values(ModelFamily::kLlama, ModelFamily::kGpt2));

}  // namespace
}  // namespace shoal::trainer
