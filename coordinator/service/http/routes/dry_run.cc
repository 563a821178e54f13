#include "coordinator/service/http/routes/dry_run.h"

#include <algorithm>
#include <optional>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include "job/data_rules.h"
#include "threads/descriptor.h"

namespace shoal::coordinator::rest {
namespace {

constexpr std::int64_t kHeadBytes = std::int64_t{4} << 20;  // of a file that are looked at
constexpr std::size_t kNamed = 5;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}

  std::optional<std::int64_t> size() const {  // none: no regular file
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    return info.st_size;
  }
  std::vector<std::byte> head(std::int64_t size) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(size, kHeadBytes)));
    std::size_t read = 0;
    while (read < bytes.size()) {
      const auto more =
          ::pread(fd_.get(), bytes.data() + read, bytes.size() - read, static_cast<off_t>(read));
      if (more <= 0) break;
      read += static_cast<std::size_t>(more);
    }
    bytes.resize(read);
    return bytes;
  }

 private:
  Descriptor fd_;
};

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
  const bool async = spec.sync.algorithm == SyncAlgorithm::kAsync;
  const auto placed = static_cast<std::int64_t>(plan.places.size());
  const std::int64_t quorum = async ? spec.sync.quorum : 0;
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
  if (parse_data_path(path).root.empty() && !path.starts_with('/')) {
    return "data.train is a relative path, which every agent refuses. Give an absolute one, or "
           "ROOT:PATH.";
  }
  return "data.train was not checked: no file " + path +
         " lies beneath a data root of the coordinator's host. Every agent reads its own.";
}

}  // namespace

DataVerdict look_at_data(const JobSpec& spec, const data::DataRoots& roots) {
  if (!datasets_of(spec.data).empty()) return {.checked = true, .problem = {}, .remedy = {}};
  const auto opened = roots.open(spec.data.train);
  if (!opened) return {};
  const File file(*opened);
  const auto size = file.size();
  if (!size) return {};
  const std::string& path = spec.data.train;
  const DataNeeds needs = data_needs(spec);
  Status good = check_data_size(needs, *size, path);
  if (good.ok()) good = check_data_tokens(needs, file.head(*size), 0, path);
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
