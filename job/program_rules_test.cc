#include "job/program_rules.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

const TrainerSpec kBeneathRoot{TrainerKind::kPython, "train.py", ""};
const TrainerSpec kUploaded{TrainerKind::kPython, "train.py", "sha256:" + std::string(64, 'a')};

std::string option(const TrainerSpec& runs, const std::string& owner,
                   const AllowedPrograms& allowed) {
  const auto refusal = why_not_run(runs, owner, allowed);
  return refusal ? refusal->option : "";
}

TEST(ProgramRules, TheTrainerRunsEverywhere) { EXPECT_EQ(option({}, "ada", {}), ""); }

TEST(ProgramRules, ProgramsOfTheHostNeedARoot) {
  EXPECT_EQ(option(kBeneathRoot, "ada", {false, {"ada", "*"}}), "--trainer-root FOLDER");
  EXPECT_EQ(option(kBeneathRoot, "ada", {true, {}}), "");
}

TEST(ProgramRules, UploadedCodeNeedsItsOwner) {
  EXPECT_EQ(option(kUploaded, "ada", {true, {}}), "--allow-code-from ada");
  EXPECT_EQ(option(kUploaded, "ada", {true, {"bob"}}), "--allow-code-from ada");
  EXPECT_EQ(option(kUploaded, "ada", {false, {"bob", "ada"}}), "");
  EXPECT_EQ(option(kUploaded, "eve", {false, {"*"}}), "");
  EXPECT_EQ(why_not_run(kUploaded, "eve", {})->what, "code of eve");
  EXPECT_EQ(why_not_run(kUploaded, "eve", {})->pointer, "/trainer/code");
}

TEST(ProgramRules, AnOwnerThatIsNotKnownIsNobody) {
  EXPECT_EQ(option(kUploaded, "", {false, {"ada", ""}}), "--allow-code-from '*'");
  EXPECT_EQ(option(kUploaded, "", {false, {"*"}}), "");
}

}  // namespace
}  // namespace shoal
