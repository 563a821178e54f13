#include "coordinator/service/http/routes/dry_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "job/data_rules.h"

namespace shoal::coordinator::rest {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHeadBytes = std::int64_t{4} << 20;  // of a file that are looked at
constexpr std::size_t kNamed = 5;

std::vector<std::byte> head_of(std::ifstream& file, std::int64_t size) {
  std::vector<std::byte> head(static_cast<std::size_t>(std::min(size, kHeadBytes)));
  file.read(reinterpret_cast<char*>(head.data()), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (count++ == kNamed) return text + " and others";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

// Without a speed the planner takes a device for an average one.
std::string guess_note(const DryRunFacts& facts) {
  std::set<std::string> unmeasured;
  bool any = false;
  for (const PlannedAgent& agent : facts.agents) {
    if (!agent.measured) unmeasured.insert(agent.name);
    any = any || agent.measured;
  }
  if (unmeasured.empty()) return "";
  if (!any) {
    return "The plan is a guess: the speed of no agent is measured yet, so all are taken as "
           "equally fast. Ask again in a few seconds.";
  }
  return "The plan is a guess: the speed of " + joined(unmeasured) +
         " is not measured yet and taken as the average of the others. Ask again in a few seconds.";
}

void add_lone_stages(const PlacementDecision& plan, const DryRunFacts& facts,
                     std::vector<std::string>& notes) {
  for (std::size_t stage = 0; plan.cut.size() > 1 && stage < plan.cut.size(); ++stage) {
    std::set<std::string> names;
    for (std::size_t i = 0; i < plan.places.size() && i < facts.agents.size(); ++i) {
      if (plan.places[i].stage == static_cast<StageIndex>(stage)) {
        names.insert(facts.agents[i].name);
      }
    }
    if (names.size() != 1) continue;
    notes.push_back("Stage " + std::to_string(stage) + " depends on " + *names.begin() +
                    " alone: if that agent is lost, the job rolls back to its newest checkpoint.");
  }
}

std::string quorum_note(const JobSpec& spec, const PlacementDecision& plan) {
  const bool async = spec.sync.algorithm() == SyncAlgorithm::kAsync;
  const auto placed = static_cast<std::int64_t>(plan.places.size());
  const std::int64_t quorum = async ? spec.sync.quorum() : 0;
  if (quorum <= placed || placed == 0) return "";
  return "sync.quorum is " + std::to_string(quorum) + ", but only " + std::to_string(placed) +
         (placed == 1 ? " replica is" : " replicas are") +
         " placed: every round waits for all of them.";
}

std::string data_note(const JobSpec& spec, const DataVerdict& verdict) {
  const std::string& path = spec.data.train;
  if (!verdict.problem.empty())
    return "data.train: " + verdict.problem + "; " + verdict.remedy + ".";
  if (verdict.checked) return "";
  if (!path.starts_with('/')) {
    return "data.train is a relative path: every agent looks for it in the folder that it was "
           "started in. An absolute path is safer.";
  }
  return "data.train was not checked: the coordinator's host has no file " + path +
         " to read. Every agent reads its own.";
}

}  // namespace

DataVerdict look_at_data(const JobSpec& spec) {
  const std::string& path = spec.data.train;
  std::error_code failure;
  if (!path.starts_with('/') || !fs::is_regular_file(path, failure)) return {};
  const auto size = static_cast<std::int64_t>(fs::file_size(path, failure));
  std::ifstream file(path, std::ios::binary);
  if (failure || !file) return {};
  const DataNeeds needs = data_needs(spec);
  Status good = check_data_size(needs, size, path);
  if (good.ok()) good = check_data_tokens(needs, head_of(file, size), 0, path);
  if (good.ok()) return {.checked = true, .problem = {}, .remedy = {}};
  return {true, good.error().message, good.error().remedy};
}

Json data_json(const DataVerdict& verdict) {
  const auto known = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json json;
  json["checked"] = verdict.checked;
  json["problem"] = known(verdict.problem);
  json["remedy"] = known(verdict.remedy);
  return json;
}

std::vector<std::string> dry_run_notes(const JobSpec& spec, const PlacementDecision& plan,
                                       const DryRunFacts& facts) {
  std::vector<std::string> notes;
  const auto add = [&](std::string note) {
    if (!note.empty()) notes.push_back(std::move(note));
  };
  if (!facts.name_taken_by.empty()) {
    add("The name " + spec.name + " is taken by " + facts.name_taken_by +
        ": to submit this one, give it another name or wait for that job to end.");
  }
  add(data_note(spec, facts.data));
  add(quorum_note(spec, plan));
  add_lone_stages(plan, facts, notes);
  add(guess_note(facts));
  return notes;
}

}  // namespace shoal::coordinator::rest
