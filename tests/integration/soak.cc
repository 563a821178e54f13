// shoal-soak: a real cluster trains while a random trainer is killed every few seconds. It prints
// what every kill did, and fails when the job stood still for too long, a committed round was lost,
// replicas of a stage disagreed, or the tokens counted are not those of the rounds. Minutes long,
// so no ctest entry: `./dev soak`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <CLI/CLI.hpp>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;
using Clock = std::chrono::steady_clock;

struct Options {
  int agents = 4, stages = 2, seconds = 300, kill_every = 20;
  double standstill_s = 10;
  std::string schedule = "flush";
  unsigned seed = 1;
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What the status said from poll to poll.
struct Watch {
  Clock::time_point moved = Clock::now();
  double tokens = 0, rounds = 0, worst_s = 0;
  bool round_lost = false;

  void look(const Json& job) {
    const double now = number_at(job, "status/progress/tokens", -1);
    const double committed = number_at(job, "status/progress/rounds_committed", -1);
    if (now < 0) return;  // the coordinator did not answer: the clock continues
    worst_s = std::max(worst_s, since(moved));
    // Tokens of a round that was not committed may be lost with their replica.
    if (now != tokens) moved = Clock::now();
    tokens = now;
    round_lost |= committed < rounds;
    rounds = std::max(rounds, committed);
  }
};

TinyJob endless_job(const Options& options) {
  TinyJob job;
  job.name = "soak";
  job.steps = 1'000'000;
  job.every = 50;
  job.stages = options.stages;
  job.min_replicas = 1;
  job.schedule = options.schedule;
  return job;
}

std::vector<pid_t> all_trainers(const Cluster& cluster) {
  std::vector<pid_t> found;
  for (const auto& agent : cluster.state().agents) {
    const auto of_agent = children_of(agent.pid, "shoal-trainer");
    found.insert(found.end(), of_agent.begin(), of_agent.end());
  }
  return found;
}

void kill_one(const Cluster& cluster, std::mt19937& random) {
  const auto trainers = all_trainers(cluster);
  if (trainers.empty()) return;
  const pid_t victim = trainers[random() % trainers.size()];
  kill(victim, SIGKILL);
}

Watch run_and_kill(const Cluster& cluster, const std::string& job, const Options& options) {
  std::mt19937 random(options.seed);
  const auto start = Clock::now();
  Watch watch;
  for (int kills = 0; since(start) < options.seconds;) {
    watch.look(cluster.job(job));
    if (since(start) >= (kills + 1) * options.kill_every) {
      kill_one(cluster, random);
      std::printf("%4.0f s  kill %d: %.0f rounds, %.0f tokens, worst standstill so far %.1f s\n",
                  since(start), ++kills, watch.rounds, watch.tokens, watch.worst_s);
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return watch;
}

// The sum over the committed rounds; below 0: something in a round is wrong, and was printed.
double tokens_of_rounds(const std::vector<Json>& rounds) {
  double sum = 0;
  for (const Json& round : rounds) {
    if (text_at(round, "state") != "committed") continue;
    double first_stage = 0;
    std::map<double, std::set<std::string>> digests;
    for (const Json& one : round.at("contributions")) {
      if (text_at(one, "state") != "committed") continue;
      const double stage = number_at(one, "stage", -1);
      digests[stage].insert(text_at(one, "digest"));
      if (stage == 0) first_stage += number_at(one, "tokens", 0);
    }
    const bool equal = std::all_of(digests.begin(), digests.end(), [](const auto& of_stage) {
      return of_stage.second.size() == 1;
    });
    const double counted = number_at(round, "tokens", -1);
    if (!equal || counted != first_stage) {
      std::printf("round %.0f: %s, %.0f tokens counted, %.0f trained by its routers\n",
                  number_at(round, "round", -1), equal ? "digests are equal" : "digests differ",
                  counted, first_stage);
      return -1;
    }
    sum += counted;
  }
  return sum;
}

int soak(const Options& options) {
  const Cluster cluster(options.agents);
  if (!cluster.problem().empty()) {
    std::fprintf(stderr, "%s\n", cluster.problem().c_str());
    return 1;
  }
  const TinyJob job = endless_job(options);
  const Finished submitted = cluster.shoal({"job", "submit", cluster.write_job(job)});
  if (submitted.exit_code != 0 ||
      !eventually(120, [&] { return cluster.rounds_committed(job.name) >= 1; })) {
    std::fprintf(stderr, "the job does not start: %s\n%s\n", submitted.err.c_str(),
                 cluster.job(job.name).dump(2).c_str());
    return 1;
  }
  const Watch watch = run_and_kill(cluster, job.name, options);
  cluster.shoal({"job", "cancel", job.name});
  const bool ended = eventually(30, [&] { return cluster.phase_of(job.name) == "cancelled"; });
  const double counted = number_at(cluster.job(job.name), "status/progress/tokens", -1);
  const double trained = tokens_of_rounds(cluster.items("/jobs/" + job.name + "/rounds"));
  const bool good =
      ended && !watch.round_lost && watch.worst_s <= options.standstill_s && counted == trained;
  std::printf(
      "%s: %.0f rounds, worst standstill %.1f s (limit %.0f), committed rounds %s, %.0f tokens "
      "counted, "
      "%.0f in the rounds\n",
      good ? "good" : "BAD", watch.rounds, watch.worst_s, options.standstill_s,
      watch.round_lost ? "LOST" : "kept", counted, trained);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace shoal::integration

int main(int argc, char** argv) {
  shoal::integration::Options options;
  CLI::App app("Kills random trainers of a job that trains, and checks that it continues",
               "shoal-soak");
  app.add_option("--agents", options.agents)->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--stages", options.stages)->check(CLI::Range(1, 2))->capture_default_str();
  app.add_option("--seconds", options.seconds)->check(CLI::Range(1, 86400))->capture_default_str();
  app.add_option("--kill-every", options.kill_every, "Seconds between two kills")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  app.add_option("--standstill", options.standstill_s, "Longest one that is good, seconds")
      ->capture_default_str();
  app.add_option("--schedule", options.schedule)->capture_default_str();
  app.add_option("--seed", options.seed, "Of the choice of victims")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return shoal::integration::soak(options);
}
