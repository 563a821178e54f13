// The words in which scenarios are told: a cluster of hosts with one job, time that passes until
// something is true, and the misfortunes one can bring about at an exact moment. All checkers
// watch.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "job/sync_spec_test_util.h"
#include "tests/sim/world.h"

namespace shoal::sim {

class Cluster {
 public:
  explicit Cluster(int hosts, std::uint64_t seed = 1, bool print_trace = false)
      : Cluster(with_hosts(hosts, seed), print_trace) {}

  // Hosts number `hosts`, `hosts` + 1, ... are reducers.
  static Cluster with_reducers(int hosts, int reducers, std::uint64_t seed = 1) {
    SimOptions options = with_hosts(hosts, seed);
    options.reducers = reducers;
    return Cluster(options, false);
  }

  static JobSpec small_job(std::int64_t rounds) {
    JobSpec spec;
    spec.name = "story";
    spec.model = {.layers = 1, .hidden = 8, .heads = 1, .context = 8, .vocab = 16};
    spec.data.train = "/data/corpus.bin";
    spec.data.tokenizer = Tokenizer::kUint16;
    spec.train.batch = 2;
    spec.train.warmup = Steps(0);
    change_sync(spec, [](SyncSpec& sync) { sync.every = Steps(5); });
    spec.train.steps = Steps(5 * rounds);
    spec.checkpoint.every_rounds = 0;
    return spec;
  }

  void submit(const JobSpec& spec) { world_.coordinator().submit(spec); }

  // Everything below fails (false) when a checker objects or the time is over.
  bool until(const std::function<bool()>& condition, Duration limit = seconds(120)) {
    return world_.run_until(condition, limit);
  }
  bool until_round(RoundNumber round, Duration limit = seconds(120)) {
    return until([&] { return job() && job()->committed_round >= round; }, limit);
  }
  bool until_phase(coordinator::JobPhase phase, Duration limit = seconds(600)) {
    return until([&] { return job() && job()->phase == phase; }, limit);
  }
  bool until_somebody_reduces() {
    return until([&] { return reducing_trainer() != nullptr; });
  }
  void pass(Duration length) { world_.run_for(length); }

  const coordinator::JobRecord* job() const {
    const auto& jobs = world_.tables().jobs;
    return jobs.empty() ? nullptr : &jobs.rbegin()->second;
  }
  const coordinator::RoundRecord* round(RoundNumber number) const {
    const auto it = world_.tables().rounds.find({job()->id, job()->epoch, number});
    return it == world_.tables().rounds.end() ? nullptr : &it->second;
  }
  // Contributions of a round of the job's epoch in this state.
  int count(RoundNumber number, coordinator::ContributionState state) const {
    int n = 0;
    const RoundKey wanted{job()->id, job()->epoch, number};
    for (const auto& [key, contribution] : world_.tables().contributions) {
      n += key.first == wanted && contribution.state == state;
    }
    return n;
  }
  int serving() const {
    int n = 0;
    for (const auto& [id, replica] : world_.tables().replicas) {
      n += replica.state == coordinator::ReplicaState::kServing ||
           replica.state == coordinator::ReplicaState::kAveraging;
    }
    return n;
  }

  Trainer* reducing_trainer() {
    for (int i = 0; i < world_.sim().options.hosts; ++i) {
      for (auto& trainer : world_.host(i).trainers()) {
        if (trainer->reducing()) return trainer.get();
      }
    }
    return nullptr;
  }

  World& world() { return world_; }
  CoordinatorProcess& coordinator() { return world_.coordinator(); }
  Host& host(int index) { return world_.host(index); }
  std::string objection() {
    const auto& broken = world_.sim().broken;
    return broken ? broken->checker + ": " + broken->what : std::string();
  }

 private:
  Cluster(const SimOptions& options, bool print_trace) : world_(options, Bug::kNone, print_trace) {
    world_.boot();
  }

  static SimOptions with_hosts(int hosts, std::uint64_t seed) {
    SimOptions options = calm_options(seed);
    options.hosts = hosts;
    return options;
  }
  World world_;
};

}  // namespace shoal::sim
