// A job uses the checkpoints of its submitter only, wherever its specification names them.
#include "coordinator/core/object_access.h"

#include <iterator>

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "job/references.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A stored checkpoint of a job whose owner has no name, and jobs of others that name it.
struct Shared : PairRig {
  static JobSpec spec_of_owner() {
    JobSpec spec = small_job("old");
    spec.train.steps = Steps(1000);
    spec.swarm.max_replicas = 2;
    spec.checkpoint.every_rounds = 1;
    return spec;
  }
  Shared() : PairRig(spec_of_owner()) {
    report(a, rep_a, key(1)), report(b, rep_b, key(1));
    finish(1);
    checkpoint = std::prev(state().checkpoints.end())->first;
    upload(checkpoint, 0);
  }
  // Names the checkpoint in the field of a rule. A rule without a case here fails its test.
  static JobSpec naming(std::string_view pointer, const std::string& text) {
    JobSpec spec = spec_of_owner();
    spec.name = "new";
    if (pointer == "/model/init") spec.model.init = text;
    if (pointer == "/train/continue_from") spec.train.continue_from = text;
    EXPECT_EQ(objects_of(spec).size(), 1u) << "say here how " << pointer << " names a checkpoint";
    return spec;
  }
  Reply submit_as(const std::string& owner, JobSpec spec, bool dry_run = false,
                  Reach reach = Reach::kOwn) {
    input(SubmitJob{RequestId{7}, std::move(spec), dry_run, {}, owner, 0, reach});
    return replies.back();
  }
  CheckpointId checkpoint;
};

std::vector<std::string> fields_of_checkpoints() {
  std::vector<std::string> pointers;
  for (const ReferenceRule& rule : reference_rules()) {
    if (rule.kind == Reference::kCheckpoint) pointers.emplace_back(rule.pointer);
  }
  return pointers;
}

// The only field error, with the number of the checkpoint cut out.
std::string sentence_of(const Reply& reply, const std::string& checkpoint) {
  EXPECT_EQ(reply.fields.size(), 1u);
  if (reply.fields.empty()) return {};
  std::string text = reply.fields[0].pointer + ": " + reply.fields[0].detail;
  const std::size_t at = text.find(checkpoint);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? text : text.erase(at, checkpoint.size());
}

TEST(ObjectAccess, AForbiddenCheckpointIsAnsweredLikeOneThatDoesNotExist) {
  for (const std::string& pointer : fields_of_checkpoints()) {
    for (const bool dry_run : {false, true}) {
      Shared rig;
      const std::string here = to_string(rig.checkpoint);
      const Reply forbidden = rig.submit_as("bob", Shared::naming(pointer, here), dry_run);
      const Reply unknown = rig.submit_as("bob", Shared::naming(pointer, "ckpt_99"), dry_run);
      ASSERT_FALSE(forbidden.result.ok()) << pointer;
      ASSERT_FALSE(unknown.result.ok()) << pointer;
      EXPECT_EQ(forbidden.result.error(), unknown.result.error());
      EXPECT_EQ(sentence_of(forbidden, here), sentence_of(unknown, "ckpt_99"));
      EXPECT_EQ(forbidden.forbidden, here + " of nobody");
      EXPECT_THAT(unknown.forbidden, IsEmpty());
    }
  }
}

TEST(ObjectAccess, TheOwnerAndWhoMayDownloadAnyCheckpointUseIt) {
  for (const std::string& pointer : fields_of_checkpoints()) {
    Shared rig;
    const JobSpec spec = Shared::naming(pointer, to_string(rig.checkpoint));
    EXPECT_TRUE(rig.submit_as("", spec, true).result.ok()) << pointer;
    EXPECT_TRUE(rig.submit_as("root", spec, true, Reach::kAny).result.ok()) << pointer;
    EXPECT_FALSE(rig.submit_as("", spec, true, Reach::kNone).result.ok()) << pointer;
  }
}

// As a coordinator left it that did not authorize what jobs name: bob's job is paused, and has
// nothing of its own.
TEST(ObjectAccess, AResumeAuthorizesWhatTheJobStillHasToRead) {
  Shared rig;
  const JobSpec spec = Shared::naming("/model/init", to_string(rig.checkpoint));
  const Reply made = rig.submit_as("bob", spec, false, Reach::kAny);
  ASSERT_TRUE(made.result.ok());
  rig.input(PauseJob{RequestId{8}, *made.result});
  ASSERT_EQ(rig.job(*made.result).phase, JobPhase::kPaused);
  rig.input(ResumeJob{RequestId{9}, *made.result, {.name = "bob"}});
  ASSERT_FALSE(rig.replies.back().result.ok());
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kValidation);
  EXPECT_EQ(rig.job(*made.result).desired, JobDesired::kPause);
  EXPECT_THAT(rig.replies.back().forbidden, HasSubstr(to_string(rig.checkpoint)));
  rig.input(ResumeJob{RequestId{10}, *made.result, {.name = "root", .checkpoints = Reach::kAny}});
  EXPECT_TRUE(rig.replies.back().result.ok()) << "a resume by a person who may use it";
}

TEST(ObjectAccess, AJobThatRunsGoesOnAfterARestart) {
  Shared rig;
  const JobSpec spec = Shared::naming("/model/init", to_string(rig.checkpoint));
  const Reply made = rig.submit_as("bob", spec, false, Reach::kAny);
  ASSERT_TRUE(made.result.ok());
  rig.restart();
  EXPECT_FALSE(is_terminal(rig.job(*made.result).phase));
  EXPECT_FALSE(
      rig.submit_as("bob", Shared::naming("/model/init", to_string(rig.checkpoint))).result.ok())
      << "after a restart, too";
}

}  // namespace
}  // namespace shoal::coordinator
