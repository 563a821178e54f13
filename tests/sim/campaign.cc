// Runs, their comparison and the report: see campaign.h.
#include "tests/sim/campaign.h"

#include <atomic>
#include <thread>

#include "tests/sim/world.h"

namespace shoal::sim {

namespace {

std::string_view name_of(Bug bug) {
  for (const PlantedBug& planted : planted_bugs()) {
    if (planted.bug == bug) return planted.name;
  }
  return {};
}

void add(CampaignResult& all, const RunResult& run) {
  ++all.runs;
  all.events += run.events;
  all.virtual_s += run.virtual_s;
  if (run.recovery_s > all.recovery_s_max) {
    all.recovery_s_max = run.recovery_s;
    all.recovery_seed = run.seed;
  }
  all.jobs_completed += run.jobs_completed;
  all.jobs_over += run.jobs_over;
  all.rounds_committed += run.rounds_committed;
  all.faults.add(run.faults);
  for (const auto& [name, count] : run.transitions) all.transitions[name] += count;
}

std::vector<std::string> never_happened(const CampaignResult& all, FaultSet set) {
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < kFaults; ++i) {
    const Fault fault = static_cast<Fault>(i);
    if (set == FaultSet::kEndured && !is_endured(fault)) continue;
    if (all.faults.of(fault) == 0) missing.push_back(std::string("fault ") + to_string(fault));
  }
  for (const std::string& name : expected_transitions()) {
    if (!all.transitions.contains(name)) missing.push_back("transition " + name);
  }
  return missing;
}

// The drawn options, with the fault that the bug needs.
SimOptions options_of(std::uint64_t seed, Bug bug, FaultSet faults) {
  SimOptions options = draw_options(seed, faults);
  for (const PlantedBug& planted : planted_bugs()) {
    if (planted.bug != bug || !planted.needs) continue;
    options.set_mean(*planted.needs, draw_options(seed, FaultSet::kAll).mean_of(*planted.needs));
  }
  return options;
}

// Twice, unless the first run breaks something.
RunResult run_twice(std::uint64_t seed, Bug bug, FaultSet faults) {
  RunResult first = run_seed(seed, bug, false, faults);
  if (first.broken) return first;
  const RunResult second = run_seed(seed, bug, false, faults);
  if (second.trace != first.trace) {
    first.broken =
        BrokenInvariant{"determinism", "the second run gave the trace " + to_hex(second.trace) +
                                           ", the first " + to_hex(first.trace)};
  }
  return first;
}

// The seeds of a campaign as its threads take them, in order.
class Runs {
 public:
  explicit Runs(const Campaign& campaign)
      : campaign_(campaign), results_(static_cast<std::size_t>(campaign.seeds)) {}

  void work() {
    for (std::int64_t i = next_++; i < campaign_.seeds && !stopped_; i = next_++) {
      const std::uint64_t seed = campaign_.from + static_cast<std::uint64_t>(i);
      if (campaign_.about_to_run) campaign_.about_to_run(seed);
      auto& result = results_[static_cast<std::size_t>(i)];
      result = run_twice(seed, campaign_.bug, campaign_.faults);
      if (result->broken && !campaign_.go_on) stopped_ = true;
    }
  }
  std::vector<std::optional<RunResult>>& results() { return results_; }

 private:
  const Campaign& campaign_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::vector<std::optional<RunResult>> results_;
};

}  // namespace

RunResult run_seed(std::uint64_t seed, Bug bug, bool print_trace, FaultSet faults) {
  World world(options_of(seed, bug, faults), bug, print_trace);
  world.run();
  const Sim& sim = world.sim();
  RunResult result;
  result.seed = seed;
  result.trace = sim.trace.digest();
  result.lines = sim.trace.lines();
  result.events = sim.queue.executed();
  result.virtual_s = (sim.now() - kStart).seconds();
  result.recovery_s = world.recovery().seconds();
  result.faults = sim.faults;
  result.transitions = sim.transitions;
  result.broken = sim.broken;
  if (sim.broken) result.last_lines = sim.trace.last();
  result.bug_fired = sim.bug_fired;
  for (const auto& [id, job] : world.tables().jobs) {
    result.jobs_completed += job.phase == coordinator::JobPhase::kCompleted;
    result.jobs_over += is_terminal(job.phase);
  }
  for (const auto& [key, round] : world.tables().rounds) {
    result.rounds_committed += round.state == coordinator::RoundState::kCommitted;
  }
  return result;
}

CampaignResult run_campaign(const Campaign& campaign) {
  Runs runs(campaign);
  std::vector<std::thread> threads;
  for (int i = 1; i < campaign.threads; ++i) threads.emplace_back([&runs] { runs.work(); });
  runs.work();
  for (std::thread& thread : threads) thread.join();
  CampaignResult all;
  for (std::optional<RunResult>& run : runs.results()) {
    if (!run) continue;
    add(all, *run);
    if (run->broken) all.failures.push_back(std::move(*run));
    if (!all.failures.empty() && !campaign.go_on) return all;
  }
  const bool covers = campaign.seeds >= kSeedsForCoverage && campaign.bug == Bug::kNone;
  if (covers) all.missing = never_happened(all, campaign.faults);
  return all;
}

std::string catch_bug(const PlantedBug& bug, std::int64_t seeds) {
  std::int64_t fired = 0;
  std::string others;  // what its consequences broke first in some seed
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    const RunResult run = run_seed(static_cast<std::uint64_t>(seed), bug.bug, false);
    fired += run.bug_fired;
    if (!run.broken) continue;
    if (run.broken->checker == bug.checker) return {};
    if (!others.empty()) continue;
    others = "caught by " + run.broken->checker + " instead of " + std::string(bug.checker) + ": " +
             failure_text(run, bug.bug);
  }
  if (!others.empty()) return others;
  return "not caught in " + std::to_string(seeds) + " seeds, in which it struck " +
         std::to_string(fired) + " times";
}

std::string failure_text(const RunResult& run, Bug bug, FaultSet faults) {
  std::string text = "seed " + std::to_string(run.seed) + " breaks " + run.broken->checker + ": " +
                     run.broken->what + "\nlast events:\n";
  for (const std::string& line : run.last_lines) text += line + "\n";
  text += "replay: shoal-sim --seed " + std::to_string(run.seed) + " --trace";
  if (faults == FaultSet::kAll) text += " --all-faults";
  if (bug != Bug::kNone) text += " --bug " + std::string(name_of(bug));
  return text + "\n";
}

// Names are our own words without quotes; only its text needs escaping.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

std::string to_json(const CampaignResult& result) {
  std::string json = "{\"ok\": " + std::string(result.ok() ? "true" : "false");
  json += ", \"seeds\": " + std::to_string(result.runs);
  json += ", \"events\": " + std::to_string(result.events);
  json += ", \"virtual_seconds\": " + std::to_string(static_cast<std::int64_t>(result.virtual_s));
  json += ", \"recovery_seconds_max\": " + std::to_string(result.recovery_s_max);
  json += ", \"jobs_over\": " + std::to_string(result.jobs_over);
  json += ", \"jobs_completed\": " + std::to_string(result.jobs_completed);
  json += ", \"rounds_committed\": " + std::to_string(result.rounds_committed) + ", \"faults\": {";
  for (std::size_t i = 0; i < kFaults; ++i) {
    const Fault fault = static_cast<Fault>(i);
    json += (i == 0 ? "\"" : ", \"") + std::string(to_string(fault)) +
            "\": " + std::to_string(result.faults.of(fault));
  }
  json += "}, \"transitions\": {";
  bool first = true;
  for (const auto& [name, count] : result.transitions) {
    json += (first ? "\"" : ", \"") + name + "\": " + std::to_string(count);
    first = false;
  }
  json += "}, \"missing\": [";
  for (std::size_t i = 0; i < result.missing.size(); ++i) {
    json += (i == 0 ? "" : ", ") + quoted(result.missing[i]);
  }
  json += "]";
  json += ", \"failures\": [";
  for (std::size_t i = 0; i < result.failures.size(); ++i) {
    const RunResult& failure = result.failures[i];
    json += (i == 0 ? "{\"seed\": " : ", {\"seed\": ") + std::to_string(failure.seed) +
            ", \"checker\": " + quoted(failure.broken->checker) +
            ", \"what\": " + quoted(failure.broken->what) + "}";
  }
  return json + "]}";
}

}  // namespace shoal::sim
