// Models that `transformers` made (scripts/transformers_fixtures.py) give its logits: rotary
// positions with both scalings, grouped heads of another size, biases, tied embeddings, three
// number formats.
#include <filesystem>

#include <gtest/gtest.h>

#include "replica/checkpoint/safetensors.h"
#include "trainer/model/model.h"

namespace shoal::trainer {
namespace {

struct Fixture {
  const char* folder;
  ModelSpec model;
};

// The sizes that all have.
ModelSpec small() {
  ModelSpec model{ModelFamily::kLlama, 2, 32, 4, 2, 48, 64, 256, false};
  model.norm_eps = 1e-6;
  return model;
}

ModelSpec llama3() {
  ModelSpec model = small();
  model.head_dim = 12;
  model.rope = {500'000, RopeScaling::kLlama3, 8, 1, 4, 16};
  return model;
}

ModelSpec linear() {
  ModelSpec model = small();
  model.norm_eps = 1e-5;
  model.rope = {.scaling = RopeScaling::kLinear, .factor = 4};
  return model;
}

ModelSpec qwen2() {
  ModelSpec model = small();
  model.tie_embeddings = true;
  model.qkv_bias = true;
  model.rope.theta = 1e6;
  return model;
}

std::vector<replica::SafetensorsFile> weight_files(const std::filesystem::path& folder) {
  std::vector<replica::SafetensorsFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("model")) continue;
    if (entry.path().extension() != ".safetensors") continue;
    auto file = replica::SafetensorsFile::open(entry.path());
    EXPECT_TRUE(file.ok()) << to_string(file.error());
    if (file) files.push_back(std::move(*file));
  }
  return files;
}

void read_weights(const std::filesystem::path& folder, Model& model) {
  const auto files = weight_files(folder);
  for (const TensorSlot& slot : model.layout()) {
    std::vector<float> values(static_cast<std::size_t>(slot.count));
    const auto file =
        std::find_if(files.begin(), files.end(),
                     [&](const replica::SafetensorsFile& each) { return each.has(slot.name); });
    ASSERT_NE(file, files.end()) << slot.name;
    const Status read = file->read(slot.name, slot.shape, values);
    ASSERT_TRUE(read.ok()) << to_string(read.error());
    model.flat()
        .narrow(0, slot.first, slot.count)
        .copy_(torch::from_blob(values.data(), {slot.count}));
  }
}

torch::Tensor golden(const replica::SafetensorsFile& file, const char* name,
                     const std::vector<std::int64_t>& shape) {
  auto out = torch::empty(shape);
  const Status read =
      file.read(name, shape, {out.data_ptr<float>(), static_cast<std::size_t>(out.numel())});
  EXPECT_TRUE(read.ok()) << to_string(read.error());
  return out;
}

class TransformersLogits : public testing::TestWithParam<Fixture> {};

TEST_P(TransformersLogits, AreOurs) {
  const std::filesystem::path folder =
      std::filesystem::path(SHOAL_GOLDEN_DIR) / "transformers" / GetParam().folder;
  JobSpec spec;
  spec.model = GetParam().model;
  spec = with_derived_fields(spec);
  Model model(spec.model, whole_model(spec.model), Precision::kFp32, torch::kCPU);
  read_weights(folder, model);
  const auto file = replica::SafetensorsFile::open(folder / "golden.safetensors");
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  const auto tokens = golden(*file, "tokens", {2, 12}).to(torch::kInt64);
  const auto expected = golden(*file, "logits", {2, 12, 256});
  const torch::NoGradGuard no_grad;
  const auto logits = model.logits(tokens).view({2, 12, 256});
  EXPECT_GT(expected.abs().max().item<double>(), 0.5);
  EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, TransformersLogits,
                         testing::Values(Fixture{"llama3", llama3()}, Fixture{"linear", linear()},
                                         Fixture{"qwen2", qwen2()}),
                         [](const auto& each) { return std::string(each.param.folder); });

}  // namespace
}  // namespace shoal::trainer
