// shoal-sim: runs the real cores in virtual time with seeded faults.
//
//   shoal-sim --seeds N [--from S] [--json]      a campaign; each seed runs twice
//   shoal-sim --seed N [--trace]                 one run again
//   … --threads N                                seeds side by side; default: one per processor
//   … --go-on                                    after a bad seed, to list them all
//   … --all-faults                               also those that the rules do not endure yet
//   shoal-sim --bug NAME [--seeds N | --seed N]  with a planted bug; fails, as it should
//   shoal-sim --list-bugs
//   shoal-sim swarm …                            the pipeline simulator, see swarm/command.cc
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "tests/sim/campaign.h"
#include "tests/sim/swarm/command.h"

namespace shoal::sim {
namespace {

struct Arguments {
  std::optional<std::uint64_t> seed;
  std::int64_t seeds = 200;
  std::uint64_t from = 1;
  std::int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool trace = false, json = false, list_bugs = false, help = false, go_on = false;
  FaultSet faults = FaultSet::kEndured;
  const PlantedBug* bug = nullptr;
  std::string error;
};

constexpr const char* kUsage =
    "shoal-sim --seeds N [--from S] [--threads N] [--json] [--go-on] [--all-faults] [--bug NAME]\n"
    "shoal-sim --seed N [--trace] [--all-faults] [--bug NAME]\n"
    "shoal-sim --list-bugs\n"
    "shoal-sim swarm --help\n";

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc && a.error.empty(); ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> const char* {
      if (i + 1 < argc) return argv[++i];
      a.error = flag + " needs a value";
      return "";
    };
    const auto number = [&]() -> std::int64_t {
      const char* text = value();
      char* end = nullptr;
      const long long n = std::strtoll(text, &end, 10);
      if (a.error.empty() && (*text == '\0' || *end != '\0' || n < 0)) {
        a.error = flag + ": must be a whole number, got '" + text + "'";
      }
      return n;
    };
    if (flag == "--seed")
      a.seed = static_cast<std::uint64_t>(number());
    else if (flag == "--seeds")
      a.seeds = number();
    else if (flag == "--from")
      a.from = static_cast<std::uint64_t>(number());
    else if (flag == "--threads")
      a.threads = number();
    else if (flag == "--go-on")
      a.go_on = true;
    else if (flag == "--all-faults")
      a.faults = FaultSet::kAll;
    else if (flag == "--trace")
      a.trace = true;
    else if (flag == "--json")
      a.json = true;
    else if (flag == "--list-bugs")
      a.list_bugs = true;
    else if (flag == "--help" || flag == "-h")
      a.help = true;
    else if (flag == "--bug") {
      const std::string name = value();
      a.bug = find_bug(name);
      if (a.error.empty() && a.bug == nullptr) a.error = "no bug '" + name + "'; see --list-bugs";
    } else
      a.error = "unknown flag '" + flag + "'";
  }
  return a;
}

// A broken CHECK in a core aborts; the seed must be told nevertheless.
thread_local std::uint64_t running_seed = 0;
void on_abort(int) {
  std::fflush(stdout);  // the trace up to here
  char line[96];
  const int n = std::snprintf(line, sizeof line, "replay: shoal-sim --seed %llu --trace\n",
                              static_cast<unsigned long long>(running_seed));
  if (n > 0) std::fwrite(line, 1, static_cast<std::size_t>(n), stderr);
}

int run_one(const Arguments& a, Bug bug) {
  running_seed = *a.seed;
  const RunResult run = run_seed(*a.seed, bug, a.trace, a.faults);
  std::printf("seed %llu: trace %s, %lld events, %.0f virtual seconds, %lld rounds committed\n",
              static_cast<unsigned long long>(run.seed), to_hex(run.trace).c_str(),
              static_cast<long long>(run.events), run.virtual_s,
              static_cast<long long>(run.rounds_committed));
  if (!run.broken) return 0;
  std::fputs(failure_text(run, bug, a.faults).c_str(), stderr);
  return 1;
}

void print(const CampaignResult& all) {
  std::printf(
      "%lld seeds, %lld events, %.0f virtual seconds, %lld rounds committed, %lld jobs over, "
      "%lld of them completed\n",
      static_cast<long long>(all.runs), static_cast<long long>(all.events), all.virtual_s,
      static_cast<long long>(all.rounds_committed), static_cast<long long>(all.jobs_over),
      static_cast<long long>(all.jobs_completed));
  std::printf("slowest recovery after the last fault: %.1f s, seed %llu\n", all.recovery_s_max,
              static_cast<unsigned long long>(all.recovery_seed));
  for (std::size_t i = 0; i < kFaults; ++i) {
    const Fault fault = static_cast<Fault>(i);
    std::printf("  %-24s %lld\n", to_string(fault), static_cast<long long>(all.faults.of(fault)));
  }
  for (const auto& [name, count] : all.transitions) {
    std::printf("  %-36s %lld\n", name.c_str(), static_cast<long long>(count));
  }
}

int run_many(const Arguments& a, Bug bug) {
  const CampaignResult all =
      run_campaign({.from = a.from,
                    .seeds = a.seeds,
                    .bug = bug,
                    .faults = a.faults,
                    .threads = static_cast<int>(a.threads),
                    .go_on = a.go_on,
                    .about_to_run = [](std::uint64_t seed) { running_seed = seed; }});
  if (a.json) {
    std::printf("%s\n", to_json(all).c_str());
  } else {
    print(all);
  }
  for (const RunResult& failure : all.failures) {
    if (all.failures.size() > 1) {
      std::fprintf(stderr, "seed %llu breaks %s: %s\n",
                   static_cast<unsigned long long>(failure.seed), failure.broken->checker.c_str(),
                   failure.broken->what.c_str());
    } else {
      std::fputs(failure_text(failure, bug, a.faults).c_str(), stderr);
    }
  }
  for (const std::string& name : all.missing)
    std::fprintf(stderr, "never happened: %s\n", name.c_str());
  return all.ok() ? 0 : 1;
}

int list_bugs() {
  for (const PlantedBug& bug : planted_bugs()) {
    std::printf("%-22s %-24s %s\n", std::string(bug.name).c_str(), std::string(bug.checker).c_str(),
                std::string(bug.what).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace shoal::sim

int main(int argc, char** argv) {
  using namespace shoal::sim;
  if (argc > 1 && std::strcmp(argv[1], "swarm") == 0) return swarm::run_command(argc - 1, argv + 1);
  const Arguments arguments = parse(argc, argv);
  if (!arguments.error.empty()) {
    std::fprintf(stderr, "%s\n%s", arguments.error.c_str(), kUsage);
    return 2;
  }
  if (arguments.help) return std::fputs(kUsage, stdout), 0;
  if (arguments.list_bugs) return list_bugs();
  std::signal(SIGABRT, on_abort);
  const Bug bug = arguments.bug == nullptr ? Bug::kNone : arguments.bug->bug;
  return arguments.seed ? run_one(arguments, bug) : run_many(arguments, bug);
}
