#include "coordinator/service/http/routes/dry_run.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/service/http/cluster_test_util.h"

namespace shoal::coordinator::rest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

PlacementDecision planned(std::vector<Place> places, std::size_t stages) {
  PlacementDecision plan;
  plan.reason = PlacementReason::kPlaced;
  plan.places = std::move(places);
  for (std::size_t i = 0; i < stages; ++i) plan.cut.push_back({});
  return plan;
}

DryRunFacts facts_of(std::vector<PlannedAgent> agents) {
  DryRunFacts facts;
  facts.agents = std::move(agents);
  facts.data.checked = true;
  return facts;
}

std::string file_with(const std::string& content) {
  const std::string path = ::testing::TempDir() + "/dry_run_data.txt";
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(DryRunNotes, NothingIsSaidOfAJobWithoutSurprises) {
  const JobSpec spec = testing::small_spec("mine");
  const auto plan = planned({{AgentId(1), 0, 0}}, 1);
  EXPECT_THAT(dry_run_notes(spec, plan, facts_of({{"agent-1", true}})), IsEmpty());
}

TEST(DryRunNotes, ATakenNameIsANote) {
  DryRunFacts facts = facts_of({{"agent-1", true}});
  facts.name_taken_by = "job_2, which is training";
  EXPECT_THAT(dry_run_notes(testing::small_spec("mine"), planned({{AgentId(1), 0, 0}}, 1), facts),
              ElementsAre(StartsWith("The name mine is taken by job_2, which is training")));
}

TEST(DryRunNotes, APlanWithoutSpeedsIsCalledAGuess) {
  const JobSpec spec = testing::small_spec("mine");
  const auto plan = planned({{AgentId(1), 0, 0}, {AgentId(2), 0, 0}}, 1);
  EXPECT_THAT(dry_run_notes(spec, plan, facts_of({{"agent-1", false}, {"agent-2", false}})),
              ElementsAre(HasSubstr("the speed of no agent is measured yet")));
  EXPECT_THAT(dry_run_notes(spec, plan, facts_of({{"agent-1", true}, {"agent-2", false}})),
              ElementsAre(HasSubstr("the speed of agent-2 is not measured yet")));
}

TEST(DryRunNotes, AStageOfOneAgentIsNamed) {
  const auto plan = planned({{AgentId(1), 0, 0}, {AgentId(2), 0, 0}, {AgentId(3), 0, 1}}, 2);
  EXPECT_THAT(dry_run_notes(testing::small_spec("mine"), plan,
                            facts_of({{"a", true}, {"b", true}, {"c", true}})),
              ElementsAre(StartsWith("Stage 1 depends on c alone")));
}

TEST(DryRunNotes, AQuorumOfMoreThanThereAreIsSaid) {
  JobSpec spec = testing::small_spec("mine");
  spec.sync.algorithm = SyncAlgorithm::kAsync;
  spec.sync.quorum = 9;
  const auto plan = planned({{AgentId(1), 0, 0}, {AgentId(2), 0, 0}}, 1);
  const DryRunFacts facts = facts_of({{"a", true}, {"b", true}});
  EXPECT_THAT(dry_run_notes(spec, plan, facts),
              ElementsAre(HasSubstr("sync.quorum is 9, but only 2 replicas are placed")));
}

TEST(DryRunData, ATextThatIsTooShortIsFound) {
  JobSpec spec = testing::small_spec("mine");
  spec.data.train = file_with("abc");
  const DataVerdict verdict = look_at_data(spec, data::DataRoots::whole_host());
  EXPECT_TRUE(verdict.checked);
  EXPECT_THAT(verdict.problem, HasSubstr("is too short: 3 tokens"));
  EXPECT_FALSE(verdict.remedy.empty());
  DryRunFacts facts = facts_of({});
  facts.data = verdict;
  EXPECT_THAT(dry_run_notes(spec, {}, facts), ElementsAre(StartsWith("data.train: ")));
}

TEST(DryRunData, TokensOfAnotherTokenizerAreFound) {
  JobSpec spec = testing::small_spec("mine");
  spec.data.train = file_with(std::string(100'000, 'B'));
  EXPECT_TRUE(look_at_data(spec, data::DataRoots::whole_host()).checked);
  EXPECT_EQ(look_at_data(spec, data::DataRoots::whole_host()).problem, "");
  spec.data.tokenizer = Tokenizer::kUint16;
  EXPECT_THAT(look_at_data(spec, data::DataRoots::whole_host()).problem,
              HasSubstr("position 0 is not below model.vocab"));
}

TEST(DryRunData, OnlyTheDataRootsOfThisHostAreLookedAt) {
  JobSpec spec = testing::small_spec("mine");
  spec.data.train = file_with("abc");
  EXPECT_FALSE(look_at_data(spec, data::DataRoots()).checked);
  const std::string elsewhere = ::testing::TempDir() + "elsewhere";
  std::filesystem::create_directories(elsewhere);
  const std::vector<std::string> roots{"texts=" + elsewhere};
  const auto one = data::DataRoots::parse(roots, "--data-root").value();
  EXPECT_FALSE(look_at_data(spec, one).checked);
  std::ofstream(elsewhere + "/short") << "abc";
  spec.data.train = "texts:short";
  EXPECT_THAT(look_at_data(spec, one).problem, HasSubstr("texts:short is too short"));
}

TEST(DryRunData, WhatIsNotOnThisHostIsNotJudged) {
  JobSpec spec = testing::small_spec("mine");
  for (const char* path : {"relative.txt", "/there/is/none", "/dev/zero", "/tmp"}) {
    spec.data.train = path;
    EXPECT_FALSE(look_at_data(spec, data::DataRoots::whole_host()).checked) << path;
    EXPECT_EQ(look_at_data(spec, data::DataRoots::whole_host()).problem, "") << path;
    DryRunFacts facts = facts_of({});
    facts.data = look_at_data(spec, data::DataRoots::whole_host());
    EXPECT_EQ(dry_run_notes(spec, {}, facts).size(), 1u) << path;
  }
  EXPECT_EQ(data_json({}), (Json{{"checked", false}, {"problem", nullptr}, {"remedy", nullptr}}));
}

}  // namespace
}  // namespace shoal::coordinator::rest
