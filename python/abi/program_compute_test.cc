#include "python/abi/program_compute.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job/job_rules.h"
#include "replica/checkpoint/object_bundle.h"

namespace shoal::python {
namespace {

namespace fs = std::filesystem;

// A program of two tensors, which writes one object to each checkpoint.
class Program {
 public:
  explicit Program(Orders& orders) : orders_(orders) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  std::vector<float> values{1, 2, 3};
  std::vector<TensorShape> tensors{{"blocks.0.weight", {1, 2}, "F32"}, {"head", {}, "F32"}};
  double loss = 1.5;
  shoal_order model = {};  // SHOAL_MODEL, when it was answered
  shoal_order trained = {};
  int begun = 0;  // how often SHOAL_BEGIN came
  std::string seeded = "not yet";
  std::vector<FileEntry> files{{"buffers.safetensors", Bytes(12), std::string(64, 'a'), "buffers"}};
  std::string object = "statistics";
  bool refuses = false;                             // to write objects
  std::string folder_read;                          // of SHOAL_READ_CHECKPOINT
  std::map<std::string, std::string> objects_read;  // by role

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto order = orders_.next(milliseconds(5));
      if (order.ok() && *order && (*order)->kind != SHOAL_END) obey(**order);
    }
  }
  void obey(const shoal_order& order) {
    const std::span given(order.values, static_cast<std::size_t>(order.value_count));
    switch (order.kind) {
      case SHOAL_MODEL:
        model = order;
        EXPECT_TRUE(orders_.answer(order.kind, {tensors, {7, 8}, 0, 0}).ok());
        return;
      case SHOAL_TRAIN:
        trained = order;
        EXPECT_TRUE(
            orders_.answer(order.kind, {.loss = loss, .lr = 0.5, .logged = {{"norm", {}, 3}}})
                .ok());
        return;
      case SHOAL_EVALUATE:
        EXPECT_TRUE(orders_.answer(order.kind, {.loss = loss}).ok());
        return;
      case SHOAL_BEGIN:
        ++begun;
        break;
      case SHOAL_SEED:
        seeded = order.text;
        break;
      case SHOAL_READ:
        std::ranges::copy(values, given.begin());
        break;
      case SHOAL_WRITE:
        values.assign(given.begin(), given.end());
        break;
      case SHOAL_WRITE_CHECKPOINT:
        if (refuses) return orders_.fail({ReplicaFailure::kInternal, "not finite"}, false);
        EXPECT_TRUE(fs::is_directory(order.text));
        std::ofstream(fs::path(order.text) / files[0].path) << object;
        files[0].size = Bytes(std::ssize(object));
        EXPECT_TRUE(orders_.answer(order.kind, {.files = files}).ok());
        return;
      case SHOAL_READ_CHECKPOINT:
        read_objects(order);
        break;
    }
    EXPECT_TRUE(orders_.answer(0, {}).ok());
  }

  void read_objects(const shoal_order& order) {
    const std::string folder = order.text;
    folder_read = folder;
    objects_read.clear();
    const auto listed = replica::list_objects(folder, static_cast<StageIndex>(order.index));
    ASSERT_TRUE(listed.ok());
    for (const FileEntry& file : *listed) {
      std::ifstream content(fs::path(folder) / file.path);
      objects_read[file.role] = {std::istreambuf_iterator<char>(content), {}};
    }
  }

  Orders& orders_;
  std::jthread thread_;
};

JobSpec spec_of_job() {
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  spec.name = "job";
  spec.data.train = "/data/text";
  spec.train.batch = 2;
  spec.model.context = 8;
  spec.trainer.kind = TrainerKind::kPython;
  spec.trainer.entry = "train.py";
  return with_derived_fields(spec);
}

struct Rig {
  Orders orders{seconds(10)};
  ProgramHost host{orders};
  Program program{orders};
  JobSpec spec = spec_of_job();
  std::vector<UnitRange> cut{{0, 6}};
  std::unique_ptr<replica::Compute> compute;

  MaybeFailure make() { return host.make({spec, cut, 0}, compute); }
};

TEST(ProgramCompute, IsWhatTheProgramSays) {
  Rig rig;
  ASSERT_FALSE(rig.make().has_value());
  EXPECT_EQ(rig.compute->value_count(), 3);
  EXPECT_EQ(rig.compute->sizes().blocks, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(rig.compute->data(), (Digest{7, 8}));
  EXPECT_EQ(rig.compute->tensors(), rig.program.tensors);
  std::vector<float> read(3);
  rig.compute->read_parameters(read);
  EXPECT_EQ(read, (std::vector<float>{1, 2, 3}));
  rig.compute->write_parameters(std::vector<float>{4, 5, 6});
  EXPECT_EQ(rig.program.values, (std::vector<float>{4, 5, 6}));
}

// They would not fit in a message: sizes and digests are all that models are compared by.
TEST(ProgramCompute, ManyTensorsOrOddNamesAreNotTold) {
  for (const bool many : {false, true}) {
    Rig rig;
    if (many) {
      rig.program.tensors.assign(kTensorsMax + 1, {"head", {}, "F32"});
    } else {
      rig.program.tensors.back().name = std::string(kTensorNameBytesMax + 1, 'n');
    }
    ASSERT_FALSE(rig.make().has_value());
    EXPECT_TRUE(rig.compute->tensors().empty());
    EXPECT_EQ(rig.compute->value_count(), many ? std::int64_t{kTensorsMax} + 1 : 3);
  }
}

TEST(ProgramCompute, AJoinerGetsTheObjectsOfItsSource) {
  Rig source, joiner;
  ASSERT_FALSE(source.make().has_value() || joiner.make().has_value());
  source.program.object = "of the source";
  EXPECT_TRUE(source.compute->has_own_state());
  joiner.compute->take_own_state(source.compute->own_state());
  EXPECT_EQ(joiner.program.objects_read,
            (std::map<std::string, std::string>{{"buffers", "of the source"}}));
  EXPECT_FALSE(fs::exists(joiner.program.folder_read)) << "it was made for this";
}

TEST(ProgramCompute, WithoutObjectsOfItsSourceAJoinerBeginsAnew) {
  Rig source, joiner;
  ASSERT_FALSE(source.make().has_value() || joiner.make().has_value());
  source.program.refuses = true;
  joiner.compute->take_own_state(source.compute->own_state());
  EXPECT_TRUE(joiner.program.objects_read.empty());
  joiner.program.folder_read.clear();
  for (const std::vector<float>& none : {std::vector<float>(), std::vector<float>(9, 1.0f)}) {
    joiner.compute->take_own_state(none);
    EXPECT_EQ(joiner.program.folder_read, "") << "no bundle";
  }
}

TEST(ProgramCompute, BeginsAsTheProgramBuiltItOrFromTheCheckpointOfTheJob) {
  Rig built;
  ASSERT_FALSE(built.make().has_value());
  ASSERT_FALSE(built.compute->seed("/fetched/old").has_value());
  EXPECT_EQ(built.program.seeded, "");
  Rig from;
  from.spec.model.init = "ckpt_7";
  ASSERT_FALSE(from.make().has_value());
  ASSERT_FALSE(from.compute->seed("/fetched/ckpt_7").has_value());
  EXPECT_EQ(from.program.seeded, "/fetched/ckpt_7");
}

TEST(ProgramCompute, CountsLossPerTokenAndLeavesOutMissingBatches) {
  Rig rig;
  ASSERT_FALSE(rig.make().has_value());
  replica::StepResult step;
  ASSERT_FALSE(rig.compute->train_step(Steps(1), 0, step).has_value());
  EXPECT_EQ(step.loss, 1.5);
  EXPECT_EQ(step.lr, 0.5);
  EXPECT_EQ(step.logged, (std::vector<LoggedValue>{{"norm", Steps(2), 3}}));
  replica::EvalSum sum;
  ASSERT_FALSE(rig.compute->evaluate_batch(0, 2, sum).has_value());
  EXPECT_EQ(sum.loss_sum, 1.5 * 16);
  rig.program.loss = std::numeric_limits<double>::quiet_NaN();
  ASSERT_FALSE(rig.compute->evaluate_batch(1, 2, sum).has_value());
  EXPECT_EQ(sum.tokens, Tokens(16));
}

TEST(ProgramCompute, TellsHowFarItsSequencesGoOn) {
  Rig rig;
  ASSERT_FALSE(rig.make().has_value());
  rig.compute->will_train({{40, 6}, {90, 4}});
  replica::StepResult step;
  for (const auto& [first, count] : {std::pair{40, 6}, {44, 2}, {90, 4}}) {
    ASSERT_FALSE(rig.compute->train_step(Steps(1), first, step).has_value());
    EXPECT_EQ(rig.program.trained.count, count) << first;
  }
}

TEST(ProgramCompute, TheOrdersEndWithTheReplicaAndThereIsNoSecondOne) {
  Rig rig;
  ASSERT_FALSE(rig.make().has_value());
  rig.compute.reset();
  const auto last = rig.orders.next(seconds(10));
  ASSERT_TRUE(last.ok() && *last);
  EXPECT_EQ((*last)->kind, SHOAL_END);
  EXPECT_TRUE(rig.make().has_value());
}

TEST(ProgramCompute, RefusesWhatAProgramCannotDoByTheNameOfTheField) {
  const std::map<std::string, std::function<void(Rig&)>> bad = {
      {"swarm.schedule",
       [](Rig& rig) { rig.spec.swarm.schedule = PipelineSchedule::kTwoBufferedWeights; }},
      {"sync.algorithm", [](Rig& rig) { rig.spec.sync = default_spec(SyncAlgorithm::kDdp).sync; }},
      {"model.init", [](Rig& rig) { rig.spec.model.init = "hf:/models/llama"; }},
      {"no parameter", [](Rig& rig) { rig.program.tensors.clear(); }},
      {"the parameter head", [](Rig& rig) { rig.program.tensors.back().shape = {0}; }}};
  for (const auto& [name, spoil] : bad) {
    Rig rig;
    spoil(rig);
    const auto failure = rig.make();
    ASSERT_TRUE(failure.has_value()) << name;
    EXPECT_NE(failure->detail.find(name), std::string::npos) << failure->detail;
  }
}

TEST(ProgramCompute, IsToldItsStageAndHowLargeTheJobSaysTheModelIs) {
  Rig rig;
  rig.cut = {{0, 3}, {3, 6}};
  ASSERT_FALSE(rig.host.make({rig.spec, rig.cut, 1}, rig.compute));
  EXPECT_EQ(rig.program.model.index, 1);
  EXPECT_EQ(rig.program.model.count, 2);
  EXPECT_EQ(rig.program.model.value_count, parameter_count(rig.spec.model));
  EXPECT_EQ(rig.program.begun, 0);
  const auto stage = rig.compute->make_stage();
  EXPECT_EQ(rig.program.begun, 1) << "gradients of a former stage are gone";
}

class Checkpoints : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "shoal-python-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    ASSERT_FALSE(rig_.make().has_value());
    const replica::CheckpointContent content{
        rig_.spec, rig_.cut, 0, {JobId(3), 1, 4}, Steps(40), anchor_, {{"momentum", momentum_}},
        {},        {},       0};
    const auto part = rig_.host.write_checkpoint(folder_, content);
    ASSERT_TRUE(part.ok());
    part_ = *part;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Rig rig_;
  fs::path folder_;
  replica::WrittenPart part_;
  std::vector<float> anchor_{1, 2, 3}, momentum_{4, 5, 6};
};

TEST_F(Checkpoints, ComeBackAsTheyWere) {
  const auto read = rig_.host.read_checkpoint(folder_, 0);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->anchor, anchor_);
  EXPECT_EQ(vector_of(read->outer, "momentum"), momentum_);
  EXPECT_EQ(read->spec, rig_.spec);
  EXPECT_EQ(read->key, (RoundKey{JobId(3), 1, 4}));
  EXPECT_EQ(read->step, Steps(40));
  EXPECT_EQ(read->cut, rig_.cut);
  EXPECT_EQ(rig_.program.folder_read, folder_.string()) << "it takes its objects from there";
}

TEST_F(Checkpoints, AnotherModelIsRefusedByTheNamesOfItsTensors) {
  Rig rig;
  rig.program.tensors = {{"blocks.0.weight", {2, 1}, "F32"}, {"tail", {}, "F32"}};
  ASSERT_FALSE(rig.make().has_value());
  const auto read = rig.host.read_checkpoint(folder_, 0);
  EXPECT_EQ(read.error().code, Code::kIncompatible);
  EXPECT_EQ(read.error().message,
            "the checkpoint is of another model: blocks.0.weight has shape [1, 2], the model's has "
            "[2, 1]; tail is missing; head is not in the model");
  EXPECT_EQ(rig.program.folder_read, "");
}

TEST_F(Checkpoints, ReportTheProgramsFilesAndThoseOfTheLibrary) {
  ASSERT_EQ(part_.files.size(), 4u);
  EXPECT_EQ(part_.files[0], rig_.program.files[0]);
  EXPECT_EQ(part_.files[1].role, "weights");
  EXPECT_EQ(part_.files[2].role, "outer/momentum");
  EXPECT_EQ(part_.files[3].path, "part-00.json");
  EXPECT_EQ(part_.files[3].role, "part");
  EXPECT_EQ(part_.anchor, digest_of(anchor_));
}

// As versions before 0.2 wrote it.
TEST_F(Checkpoints, AnOldHeadIsStillRead) {
  auto json = nlohmann::json::parse(std::ifstream(folder_ / "part-00.json"));
  fs::remove(folder_ / "part-00.json");
  json["format"] = "python-1";
  json["value_count"] = json["momentum_count"] = 3;
  json["digests"] = {{"anchor", json["vectors"]["anchor"]["digest"]},
                     {"outer_momentum", json["vectors"]["outer_momentum"]["digest"]}};
  for (const char* later : {"trainer", "stage", "vectors", "files"}) json.erase(later);
  std::ofstream(folder_ / "shoal.json") << json.dump();
  const auto read = rig_.host.read_checkpoint(folder_, 0);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(vector_of(read->outer, "momentum"), momentum_);
  EXPECT_EQ(read->key, (RoundKey{JobId(3), 1, 4}));
}

TEST_F(Checkpoints, EachStageOfAPipelineHasAPartFileOfItsOwn) {
  Rig rig;
  rig.cut = {{0, 3}, {3, 6}};
  ASSERT_FALSE(rig.host.make({rig.spec, rig.cut, 1}, rig.compute));
  const fs::path folder = folder_ / "cut";
  const replica::CheckpointContent content{
      rig.spec, rig.cut, 1, {JobId(3), 1, 4}, Steps(40), anchor_, {{"momentum", momentum_}},
      {},       {},      0};
  ASSERT_TRUE(rig.host.write_checkpoint(folder, content).ok());
  EXPECT_TRUE(fs::exists(folder / "part-01.json"));
  EXPECT_EQ(rig.host.read_checkpoint(folder, 1)->cut, rig.cut);
  EXPECT_EQ(rig.host.read_checkpoint(folder, 0).error().code, Code::kNotFound);
}

TEST_F(Checkpoints, OtherValuesAndDamagedPartFilesAreFound) {
  const fs::path elsewhere = folder_ / "other";
  const replica::CheckpointContent other{
      rig_.spec, rig_.cut, 0, {JobId(3), 1, 4}, Steps(40), momentum_, {{"momentum", momentum_}},
      {},        {},       0};
  ASSERT_TRUE(rig_.host.write_checkpoint(elsewhere, other).ok());
  fs::copy_file(elsewhere / "model.safetensors", folder_ / "model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(rig_.host.read_checkpoint(folder_, 0).error().code, Code::kDataLoss);
  std::ofstream(folder_ / "part-00.json") << R"({"format": 3})";
  EXPECT_EQ(rig_.host.read_checkpoint(folder_, 0).error().code, Code::kDataLoss);
  std::ofstream(folder_ / "part-00.json") << R"({"format": 4})";
  EXPECT_EQ(rig_.host.read_checkpoint(folder_, 0).error().code, Code::kIncompatible);
  fs::remove(folder_ / "part-00.json");
  EXPECT_EQ(rig_.host.read_checkpoint(folder_, 0).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace shoal::python
