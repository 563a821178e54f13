#include "cli/commands/job_text.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/number_text.h"
#include "base/text.h"
#include "cli/format.h"
#include "cli/http_client.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

constexpr std::size_t kReplicasMax = 500, kWarningsMax = 50;
constexpr std::size_t kLoggedShown = 12;

std::string loss_cell(const std::optional<double>& loss) { return loss ? fixed(*loss, 3) : "-"; }

// "of rounds 12, 12, 11": of each stage the newest round that a copy of it holds; empty: there are
// none.
std::string copied_rounds(const Json& job) {
  const Json::json_pointer stages("/status/stages");
  if (!job.contains(stages)) return "";
  std::string rounds;
  bool any = false;
  for (const Json& stage : job.at(stages)) {
    any = any || number_at(stage, "copies", 0) > 0;
    rounds += (rounds.empty() ? "of rounds " : ", ") + text_at(stage, "copied_round");
  }
  return any ? rounds : "";
}

// From the first round that it trained to its end; empty before.
std::string time_taken(const Json& job) {
  const auto started = parse_rfc3339(text_at(job, "status/started_at", ""));
  const auto finished = parse_rfc3339(text_at(job, "status/finished_at", ""));
  return started && finished ? human_duration(*finished - *started) : "";
}

bool holds_devices(const std::string& phase) {
  return phase == "gathering" || phase == "warming" || phase == "training" || phase == "stalled" ||
         phase == "finalizing";
}

bool serves(const Json& replica) {
  const std::string state = text_at(replica, "state");
  return state == "serving" || state == "averaging";
}

bool has_ended(const Json& replica) {
  const std::string state = text_at(replica, "state");
  return state == "released" || state == "failed";
}

const Json* agent_of(const Json& replica, const Json& agents) {
  for (const Json& agent : agents) {
    if (text_at(agent, "id") == text_at(replica, "agent")) return &agent;
  }
  return nullptr;
}

Json with_names(const Json& replicas, const Json& agents) {
  Json named = replicas;
  for (Json& replica : named) {
    const Json* agent = agent_of(replica, agents);
    replica["agent_name"] = agent == nullptr ? text_at(replica, "agent") : text_at(*agent, "name");
  }
  return named;
}

// By stage, the names of the agents whose replicas serve it.
std::map<int, std::vector<std::string>> servers(const Json& named) {
  std::map<int, std::vector<std::string>> found;
  for (const Json& replica : named) {
    const int stage = static_cast<int>(number_at(replica, "stage"));
    if (!has_ended(replica)) found[stage];
    if (serves(replica)) found[stage].push_back(text_at(replica, "agent_name"));
  }
  return found;
}

// ", 1 loads, 1 is absent (agent-3)" of those that do not serve.
std::string others_text(const Json& named) {
  int loading = 0;
  std::vector<std::string> absent;
  for (const Json& replica : named) {
    const std::string state = text_at(replica, "state");
    if (state == "absent") absent.push_back(text_at(replica, "agent_name"));
    if (state == "assigned" || state == "loading") ++loading;
  }
  std::string text = loading == 0 ? "" : ", " + std::to_string(loading) + " loading";
  if (!absent.empty()) {
    text += ", " + std::to_string(absent.size()) + " out of reach (" + joined(absent) + ")";
  }
  return text;
}

// After a restore from a backup the epoch continues from the time in milliseconds
// (docs/backup.md): it is no count of anything then.
constexpr double kEpochOfARestore = 1e9;

bool is_of_going_back(const Json& event) {
  const std::string kind = text_at(event, "kind");
  return kind == "job_rolled_back" || kind == "job_restored";
}

// "2 times; 12 s ago: round 6 is lost …"; empty: it never did.
std::string went_back_text(const Json& job, const JobAround& around, double now) {
  const double epoch = number_at(job, "status/epoch");
  if (epoch == 0) return "";
  std::string text = epoch >= kEpochOfARestore
                         ? "after a restore from a backup"
                         : "to a checkpoint, " + plural(static_cast<int>(epoch), "time");
  for (const Json& event : around.warnings) {
    if (!is_of_going_back(event)) continue;
    return text + "; " + human_age(text_at(event, "at"), now) + ": " + text_at(event, "message");
  }
  return text;
}

// A job that has failed names what came before: reason and detail tell the failure itself. A
// rollback has a line of its own.
std::string last_warning(const std::string& phase, const JobAround& around, double now) {
  if (phase == "completed" || phase == "cancelled") return "";
  for (const Json& event : around.warnings) {
    if (phase == "failed" && text_at(event, "kind") == "job_phase") continue;
    if (is_of_going_back(event)) return "";
    return human_age(text_at(event, "at"), now) + ": " + text_at(event, "message");
  }
  return "";
}

// "norm 0.31, aux 4.5" of what the job's program logs: the newest values.
std::string logged_text(const Json& series) {
  constexpr std::string_view kOfProgram = "log.";
  std::vector<std::string> parts;
  std::size_t more = 0;
  for (const Json& one : series) {
    const std::string name = text_at(one, "name");
    if (!name.starts_with(kOfProgram) || at_path(one, "newest/value") == nullptr) continue;
    if (parts.size() == kLoggedShown) {
      ++more;
      continue;
    }
    parts.push_back(name.substr(kOfProgram.size()) + " " +
                    four_digits(number_at(one, "newest/value", 0)));
  }
  return joined(parts) + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

// "agent-2, agent-3": agents that do not allow its program.
std::string not_run_by(const Json& job) {
  std::vector<std::string> names;
  const Json* list = at_path(job, "status/not_run_by");
  if (list == nullptr) return "";
  for (const Json& name : *list) names.push_back(name.get<std::string>());
  return joined(names);
}

class Lines {
 public:
  void add(const std::string& label, const std::string& value) {
    if (value.empty() || value == "-") return;
    text_ += label + std::string(kColumn - label.size(), ' ');
    for (const char c : value)
      text_ += c == '\n' ? "\n" + std::string(kColumn, ' ') : std::string(1, c);
    text_ += "\n";
  }
  const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t kColumn = 18;  // of the values
  std::string text_;
};

void add_progress(Lines& lines, const Json& job, const JobProgress& progress, double now) {
  lines.add("round", fixed(progress.round, 0) +
                         (progress.rounds ? " of " + fixed(*progress.rounds, 0) : ""));
  lines.add("outer lr", text_at(job, "status/outer_lr"));
  lines.add("priority", text_at(job, "status/priority"));
  lines.add("inner step", fixed(progress.step, 0) + " of " + fixed(progress.steps, 0));
  lines.add("tokens", human_count(progress.tokens));
  if (progress.tokens_per_s) lines.add("speed", human_count(*progress.tokens_per_s) + " tokens/s");
  lines.add("last commit", human_age(text_at(job, "status/committed_at"), now));
  lines.add("copies", copied_rounds(job));
  lines.add("took", time_taken(job));
  lines.add("train loss", loss_cell(progress.train_loss));
  lines.add("validation loss", loss_cell(progress.validation_loss));
  if (progress.bytes_sent > 0) lines.add("sent", size_text(progress.bytes_sent));
  if (progress.bytes_data_parallel && *progress.bytes_data_parallel > 0) {
    lines.add("data parallel", size_text(*progress.bytes_data_parallel) + " would have been sent");
  }
}

}  // namespace

Result<JobAround> ask_around(const Api& api, const Json& job) {
  const std::string id = url_escape(text_at(job, "id"));
  auto replicas = api.list("/jobs/" + id + "/replicas?order=desc", kReplicasMax);
  if (!replicas) return replicas.error();
  auto agents = api.list("/agents?gone=true");
  if (!agents) return agents.error();
  auto warnings = api.list("/events?job=" + id + "&severity=warning&order=desc", kWarningsMax);
  if (!warnings) return warnings.error();
  auto series = api.get("/jobs/" + id + "/series");  // has no pages, and takes no `limit`
  if (!series) return series.error();
  const Json* all_series = at_path(*series, "items");
  return JobAround{replicas->at("items"), agents->at("items"), warnings->at("items"),
                   all_series == nullptr ? Json::array() : *all_series};
}

std::string replicas_text(const Json& job, const JobAround& around) {
  if (!holds_devices(text_at(job, "status/phase"))) return "";
  const Json named = with_names(around.replicas, around.agents);
  const auto by_stage = servers(named);
  if (by_stage.empty()) return "none";
  if (by_stage.size() == 1) {
    const auto count = static_cast<int>(by_stage.begin()->second.size());
    return std::to_string(count) + (count == 1 ? " serves" : " serve") + others_text(named);
  }
  std::vector<std::string> parts;
  for (const auto& [stage, names] : by_stage) {
    parts.push_back("stage " + std::to_string(stage) + ": " + std::to_string(names.size()));
  }
  const std::string lone = lone_stages(named);
  return joined(parts) + others_text(named) + (lone.empty() ? "" : "; " + lone);
}

std::string lost_text(const JobAround& around, double now_unix_s) {
  std::vector<std::string> lost;
  std::set<std::string> seen;
  for (const Json& replica : around.replicas) {
    const Json* agent = agent_of(replica, around.agents);
    if (agent == nullptr || text_at(*agent, "gone_reason") != "lost") continue;
    if (text_at(replica, "state") == "released") continue;
    if (!seen.insert(text_at(*agent, "id")).second) continue;
    lost.push_back(text_at(*agent, "name") + ", " +
                   human_age(text_at(*agent, "updated_at"), now_unix_s));
  }
  return joined(lost, "; ");
}

std::string lone_stages(const Json& replicas) {
  const auto by_stage = servers(replicas);
  if (by_stage.size() < 2) return "";
  std::vector<std::string> lone;
  for (const auto& [stage, names] : by_stage) {
    if (std::set<std::string>(names.begin(), names.end()).size() != 1) continue;
    lone.push_back("stage " + std::to_string(stage) + " depends on " + names.front() + " alone");
  }
  return joined(lone, "; ");
}

std::string job_text(const Json& job, const JobAround& around, double now_unix_s, bool color) {
  const JobProgress progress = read_progress(job);
  Lines lines;
  lines.add("name", progress.name);
  lines.add("id", progress.id);
  lines.add("description", text_at(job, "description", ""));
  lines.add("phase", paint(progress.phase, color_of_state(progress.phase), color));
  lines.add("reason", progress.reason == "none" ? "" : words(progress.reason));
  lines.add("detail", progress.detail);
  lines.add("replicas", replicas_text(job, around));
  if (!progress.finished()) lines.add("lost agents", lost_text(around, now_unix_s));
  lines.add("not run by", not_run_by(job));
  lines.add("rolled back", went_back_text(job, around, now_unix_s));
  lines.add("last warning", last_warning(progress.phase, around, now_unix_s));
  add_progress(lines, job, progress, now_unix_s);
  lines.add("logged", logged_text(around.series));
  lines.add("created", text_at(job, "created_at"));
  return lines.text();
}

}  // namespace shoal::cli
