// Which lists of files are a whole part of a checkpoint.
#include "coordinator/core/decisions/checkpoint_part.h"

#include <gtest/gtest.h>

#include "job/job_rules.h"

namespace shoal::coordinator {
namespace {

const Digest kAnchor{1, 2};

FileEntry file(const std::string& path, const std::string& role = {}) {
  return {path, Bytes(4), std::string(64, 'a'), role};
}

struct Part {
  JobSpec spec;
  StageIndex stage = 0;
  std::size_t stages = 1;
  std::vector<FileEntry> files;
  Digest anchor = {};

  PartVerdict verdict() const { return check_part({spec, stage, stages, kAnchor, files, anchor}); }
  // Each of the files is missed by its name, and together they are enough.
  void needs_all() const {
    EXPECT_EQ(verdict(), PartVerdict());
    for (std::size_t i = 0; i < files.size(); ++i) {
      Part less = *this;
      less.files.erase(less.files.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(less.verdict(), (PartVerdict{PartProblem::kMissing, files[i].path}));
    }
  }
};

TEST(CheckpointPart, OfAWholeModelHasWeightsStateAndHead) {
  Part part;
  part.files = {file("model.safetensors"), file("shoal_state.safetensors"), file("shoal.json")};
  part.needs_all();
  part.files.push_back(file("config.json"));
  EXPECT_EQ(part.verdict(), PartVerdict());
}

TEST(CheckpointPart, OfAStageHasThatStagesFiles) {
  Part part{.spec = {}, .stage = 1, .stages = 4, .files = {}};
  part.files = {file("model-00002-of-00004.safetensors"),
                file("shoal_state-00002-of-00004.safetensors")};
  part.needs_all();
  part.stage = 2;
  EXPECT_EQ(part.verdict().file, "model-00003-of-00004.safetensors");
}

TEST(CheckpointPart, OfAProgramHasWeightsMomentumAndHead) {
  Part part;
  part.spec.trainer.kind = TrainerKind::kPython;
  part.files = {file("model.safetensors"), file("outer.safetensors"), file("shoal.json")};
  part.needs_all();
  part.stage = 3, part.stages = 4;
  part.files = {file("model-00004-of-00004.safetensors"), file("outer-00004-of-00004.safetensors"),
                file("shoal-00004-of-00004.json")};
  part.needs_all();
}

TEST(CheckpointPart, WithoutFilesIsNone) {
  EXPECT_EQ(Part().verdict(), (PartVerdict{PartProblem::kMissing, "model.safetensors"}));
}

TEST(CheckpointPart, WithRolesIsKnownByThem) {
  Part part;
  part.files = {file("a", "weights"), file("b", "outer/momentum"), file("c", "a role of later"),
                file("d", "part")};
  part.anchor = kAnchor;
  EXPECT_EQ(part.verdict(), PartVerdict());
  part.files[1].role = "file/b";
  EXPECT_EQ(part.verdict(), (PartVerdict{PartProblem::kMissing, "outer/momentum"}));
  part.files[1].role = "outer/momentum";
  part.files[0].role = "buffers";
  EXPECT_EQ(part.verdict(), (PartVerdict{PartProblem::kMissing, "weights"}));
  part.files[0].role = "weights";
  part.files[3].role = "description";
  EXPECT_EQ(part.verdict(), (PartVerdict{PartProblem::kMissing, "part"}));
  part.files[3].role = "part";
  part.files[2].role = "";
  EXPECT_EQ(part.verdict(), (PartVerdict{PartProblem::kWithoutRole, "c"}));
}

TEST(CheckpointPart, HasEveryVectorOfTheOuterOptimizer) {
  Part part;
  part.spec.sync.outer.method = OuterMethod::kAdam;
  part.files = {file("a", "weights"), file("b", "outer/adam_m"), file("c", "part")};
  part.anchor = kAnchor;
  EXPECT_EQ(part.verdict(), (PartVerdict{PartProblem::kMissing, "outer/adam_v"}));
  part.files.push_back(file("d", "outer/adam_v"));
  EXPECT_EQ(part.verdict(), PartVerdict());
}

TEST(CheckpointPart, OfDdpHasNoMomentum) {
  Part part;
  part.spec = default_spec(SyncAlgorithm::kDdp);
  part.files = {file("a", "weights"), file("b", "part")};
  part.anchor = kAnchor;
  EXPECT_EQ(part.verdict(), PartVerdict());
}

TEST(CheckpointPart, OfAnotherAnchorIsRefused) {
  Part part;
  part.files = {file("model.safetensors"), file("shoal_state.safetensors"), file("shoal.json")};
  part.anchor = {9, 9};
  EXPECT_EQ(part.verdict().problem, PartProblem::kOtherAnchor);
  part.files = {file("a", "weights"), file("b", "outer/momentum"), file("c", "part")};
  part.anchor = {};
  EXPECT_EQ(part.verdict().problem, PartProblem::kOtherAnchor) << "with roles it must be said";
}

TEST(CheckpointPart, NamesNoFileTwice) {
  Part part;
  part.files = {file("a", "weights"), file("a", "outer/momentum")};
  EXPECT_EQ(part.verdict(), (PartVerdict{PartProblem::kTwice, "a"}));
}

}  // namespace
}  // namespace shoal::coordinator
