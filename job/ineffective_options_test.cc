// Which fields are ineffective under which others; that they are refused only where somebody wrote
// them is tested in proto/job_spec_text_test.cc.
#include "job/ineffective_options.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

using testing::HasSubstr;

// A pipeline of a llama3 with cosine and sparse2 reads every field.
JobOptions busy() {
  JobOptions options;
  options.name = "kjv";
  options.data.train = "/data/kjv.txt";
  options.model.rope.scaling = RopeScaling::kLlama3;
  options.swarm.stages = 2;
  options.sync.codec = CodecKind::kSparse2;
  options.sync.topology = Topology::kAuto;
  options.sync.outer = {1, 0};
  return options;
}

TEST(IneffectiveOptions, NoneWhereEverythingIsRead) {
  EXPECT_THAT(validate(busy()), testing::IsEmpty());
  EXPECT_THAT(ineffective_options(busy()), testing::IsEmpty());
  JobOptions planned = busy();
  planned.swarm.stages = 0;  // "auto" may become more than one
  EXPECT_THAT(ineffective_options(planned), testing::IsEmpty());
}

struct Ineffective {
  std::vector<std::string> pointers;
  const char* remedy;  // part of the detail of the first
  std::function<void(JobOptions&)> change;
};

void PrintTo(const Ineffective& ineffective, std::ostream* out) {
  *out << ineffective.pointers.front();
}

class IneffectiveUnder : public testing::TestWithParam<Ineffective> {};

TEST_P(IneffectiveUnder, ByNameWithTheRemedy) {
  JobOptions options = busy();
  GetParam().change(options);
  ASSERT_THAT(validate(options), testing::IsEmpty());
  std::vector<std::string> pointers;
  const auto ineffective = ineffective_options(options);
  for (const FieldError& field : ineffective) pointers.push_back(field.pointer);
  EXPECT_EQ(pointers, GetParam().pointers);
  ASSERT_FALSE(ineffective.empty());
  EXPECT_THAT(ineffective[0].detail, HasSubstr("has no effect with "));
  EXPECT_THAT(ineffective[0].detail, HasSubstr(GetParam().remedy));
}

const std::vector<std::string> kPipeline = {"/swarm/activations", "/swarm/schedule",
                                            "/swarm/copies_min", "/swarm/recut"};

std::vector<std::string> also_of_a_pipeline(std::vector<std::string> pointers) {
  pointers.insert(pointers.end(), kPipeline.begin(), kPipeline.end());
  return pointers;
}

const Ineffective kIneffective[] = {
    {{"/model/rope/theta", "/model/rope/scaling", "/model/rope/factor",
      "/model/rope/low_freq_factor", "/model/rope/high_freq_factor",
      "/model/rope/original_context"},
     "choose 'llama'",
     [](JobOptions& s) { s.model.family = ModelFamily::kGpt2; }},
    {{"/model/rope/factor", "/model/rope/low_freq_factor", "/model/rope/high_freq_factor",
      "/model/rope/original_context"},
     "set model.rope.scaling to 'linear' or 'llama3'",
     [](JobOptions& s) { s.model.rope.scaling = RopeScaling::kNone; }},
    {{"/model/rope/low_freq_factor", "/model/rope/high_freq_factor",
      "/model/rope/original_context"},
     "set model.rope.scaling = 'llama3'",
     [](JobOptions& s) { s.model.rope.scaling = RopeScaling::kLinear; }},
    {{"/train/min_lr"},
     "set train.schedule = 'cosine'",
     [](JobOptions& s) { s.train.schedule = Schedule::kConstant; }},
    {{"/sync/feedback"},
     "sync.codec = 'int8', which sends every value",
     [](JobOptions& s) { s.sync.codec = CodecKind::kInt8; }},
    {{"/sync/feedback", "/sync/audit"},
     "set sync.codec = 'sparse2'",
     [](JobOptions& s) { s.sync.codec = CodecKind::kInt8, s.sync.topology = Topology::kRing; }},
    {kPipeline, "set swarm.stages above 1", [](JobOptions& s) { s.swarm.stages = 1; }},
    {{"/swarm/activations", "/swarm/schedule", "/swarm/copies_min", "/swarm/recut",
      "/swarm/recompute"},
     "set swarm.stages above 1",
     [](JobOptions& s) {
       s.trainer.kind = TrainerKind::kPython, s.trainer.entry = "train.py";
       s.train.join = JoinMoments::kAuto;
       s.swarm.stages = 1;
     }},
    {also_of_a_pipeline({"/sync/balance"}), "set sync.every to a number of inner steps",
     [](JobOptions& s) { s.sync.every_s = 60, s.swarm.stages = 1; }},
    {also_of_a_pipeline({"/sync/balance", "/sync/topology", "/sync/codec", "/sync/feedback",
                         "/sync/aggregator", "/sync/clip", "/sync/audit", "/sync/outer/lr",
                         "/sync/outer/momentum"}),
     "choose another sync.algorithm",
     [](JobOptions& s) { s.sync.algorithm = SyncAlgorithm::kNone, s.swarm.stages = 1; }},
};
INSTANTIATE_TEST_SUITE_P(All, IneffectiveUnder, testing::ValuesIn(kIneffective));

}  // namespace
}  // namespace shoal
