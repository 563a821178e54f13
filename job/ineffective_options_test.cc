// Which fields are ineffective under which others; that they are refused only where somebody wrote
// them is tested in proto/job_spec_text_test.cc.
#include "job/ineffective_options.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

using testing::HasSubstr;

// A pipeline of a llama3 with cosine and sparse2 reads every field but those of other outer
// optimizers.
JobSpec busy() {
  JobSpec options;
  options.name = "kjv";
  options.data.train = "/data/kjv.txt";
  options.model.rope.scaling = RopeScaling::kLlama3;
  options.swarm.stages = 2;
  options.sync.codec = CodecKind::kSparse2;
  options.sync.topology = Topology::kAuto;
  options.sync.outer = {1, 0};
  return options;
}

// Without the options that another outer optimizer would read.
std::vector<FieldError> found_in(const JobSpec& options) {
  std::vector<FieldError> found = ineffective_options(options);
  std::erase_if(found, [](const FieldError& field) {
    return field.detail.find("choose a method that reads it") != std::string::npos;
  });
  return found;
}

TEST(IneffectiveOptions, NoneWhereEverythingIsRead) {
  EXPECT_THAT(validate(busy()), testing::IsEmpty());
  EXPECT_THAT(found_in(busy()), testing::IsEmpty());
  JobSpec planned = busy();
  planned.swarm.stages = 0;  // "auto" may become more than one
  EXPECT_THAT(found_in(planned), testing::IsEmpty());
}

TEST(IneffectiveOptions, AnOuterOptimizerReadsItsOwn) {
  const auto pointers = [](OuterMethod method) {
    JobSpec options = busy();
    options.sync.codec = CodecKind::kInt8;
    options.sync.outer.method = method;
    std::vector<std::string> unread;
    for (const FieldError& field : ineffective_options(options)) {
      if (field.pointer.starts_with("/sync/outer/")) unread.push_back(field.pointer);
    }
    return unread;
  };
  const std::vector<std::string> adams{"/sync/outer/beta1", "/sync/outer/beta2", "/sync/outer/eps"};
  EXPECT_EQ(pointers(OuterMethod::kNesterov), adams);
  EXPECT_EQ(pointers(OuterMethod::kSgd), adams);
  EXPECT_EQ(pointers(OuterMethod::kAdam), std::vector<std::string>{"/sync/outer/momentum"});
}

struct Ineffective {
  std::vector<std::string> pointers;
  const char* remedy;  // part of the detail of the first
  std::function<void(JobSpec&)> change;
};

void PrintTo(const Ineffective& ineffective, std::ostream* out) {
  *out << ineffective.pointers.front();
}

class IneffectiveUnder : public testing::TestWithParam<Ineffective> {};

TEST_P(IneffectiveUnder, ByNameWithTheRemedy) {
  JobSpec options = busy();
  GetParam().change(options);
  ASSERT_THAT(validate(options), testing::IsEmpty());
  std::vector<std::string> pointers;
  const auto ineffective = found_in(options);
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
     [](JobSpec& s) { s.model.family = ModelFamily::kGpt2; }},
    {{"/model/rope/factor", "/model/rope/low_freq_factor", "/model/rope/high_freq_factor",
      "/model/rope/original_context"},
     "set model.rope.scaling to 'linear' or 'llama3'",
     [](JobSpec& s) { s.model.rope.scaling = RopeScaling::kNone; }},
    {{"/model/rope/low_freq_factor", "/model/rope/high_freq_factor",
      "/model/rope/original_context"},
     "set model.rope.scaling = 'llama3'",
     [](JobSpec& s) { s.model.rope.scaling = RopeScaling::kLinear; }},
    {{"/train/min_lr"},
     "set train.schedule = 'cosine'",
     [](JobSpec& s) { s.train.schedule = Schedule::kConstant; }},
    {{"/sync/feedback"},
     "sync.codec = 'int8', which sends every value",
     [](JobSpec& s) { s.sync.codec = CodecKind::kInt8; }},
    {{"/sync/feedback", "/sync/audit"},
     "set sync.codec = 'sparse2'",
     [](JobSpec& s) { s.sync.codec = CodecKind::kInt8, s.sync.topology = Topology::kRing; }},
    {kPipeline, "set swarm.stages above 1", [](JobSpec& s) { s.swarm.stages = 1; }},
    {{"/swarm/activations", "/swarm/schedule", "/swarm/copies_min", "/swarm/recut",
      "/swarm/recompute"},
     "set swarm.stages above 1",
     [](JobSpec& s) {
       s.trainer.kind = TrainerKind::kPython, s.trainer.entry = "train.py";
       s.train.join = JoinMoments::kAuto;
       s.swarm.stages = 1;
     }},
    {also_of_a_pipeline({"/sync/balance"}), "set sync.every to a number of inner steps",
     [](JobSpec& s) { s.sync.every_s = 60, s.swarm.stages = 1; }},
    {also_of_a_pipeline({"/sync/balance", "/sync/topology", "/sync/codec", "/sync/feedback",
                         "/sync/aggregator", "/sync/clip", "/sync/audit", "/sync/outer/lr",
                         "/sync/outer/momentum", "/sync/outer/method", "/sync/outer/beta1",
                         "/sync/outer/beta2", "/sync/outer/eps"}),
     "choose another sync.algorithm",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kNone, s.swarm.stages = 1; }},
};
INSTANTIATE_TEST_SUITE_P(All, IneffectiveUnder, testing::ValuesIn(kIneffective));

}  // namespace
}  // namespace shoal
