#include "coordinator/core/rounds/speeds.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/number_text.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/naming.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kCompareEvery = seconds(10);
constexpr Duration kShowEvery = seconds(5);
constexpr Duration kSteadily = seconds(3);  // between two words: it worked all the time
constexpr Duration kWordMax = seconds(30);  // of work in one word

// Work that a word tells of.
struct Worked {
  Duration time;    // of computing
  double pace = 0;  // work per second of that
};

Worked at_pace(double work, double pace) {
  return {seconds_f(std::min(work / pace, kWordMax.seconds())), pace};
}

bool is_positive(double value) { return std::isfinite(value) && value > 0; }

// Microbatches per second. None: it has done none since its last word.
std::optional<Worked> work_of(WatchedSpeed& speed, const PipelineStats& stats) {
  const std::int64_t done = stats.microbatches - speed.microbatches;
  speed.microbatches = stats.microbatches;
  if (done <= 0 || stats.service <= Duration()) return std::nullopt;
  return at_pace(static_cast<double>(done), 1 / stats.service.seconds());
}

// Tokens per second.
std::optional<Worked> work_of(WatchedSpeed& speed, const Progress& progress) {
  const Tokens before = speed.key == progress.key ? speed.tokens : Tokens();
  const std::int64_t done = (progress.tokens - before).count();
  speed.key = progress.key;
  speed.tokens = progress.tokens;
  if (done <= 0 || !is_positive(progress.tokens_per_s)) return std::nullopt;
  return at_pace(static_cast<double>(done), progress.tokens_per_s);
}

std::optional<Worked> work_of(WatchedSpeed& speed, const JobRecord& job, const FromAgent& message) {
  if (const auto* stats = std::get_if<PipelineStats>(&message)) return work_of(speed, *stats);
  const auto* progress = std::get_if<Progress>(&message);
  if (progress == nullptr || job.stages.size() > 1) return std::nullopt;  // it may wait for others
  return work_of(speed, *progress);
}

// How much of the time since its last word it worked. The first word has no time before it.
Duration time_of_work(const WatchedSpeed& speed, const Worked& work, Instant now) {
  if (speed.heard_at == Instant()) return {};
  const Duration gap = now - speed.heard_at;
  return gap <= kSteadily ? gap : std::min(work.time, gap);
}

bool is_same_device(const ReplicaRecord& a, const ReplicaRecord& b) {
  return a.agent == b.agent && a.device == b.device;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Looks up what the device promises, now and then.
void compare(const Transaction& tx, const ReplicaRecord& replica, WatchedSpeed& speed) {
  const State& state = tx.state();
  if (speed.compared_at && tx.now() < *speed.compared_at + kCompareEvery) return;
  speed.compared_at = tx.now();
  std::vector<double> efficiencies;  // best pace by promised FLOP/s, of others alone on a device
  speed.sharing = 1;
  for (const auto& [id, other] : state.replicas) {
    if (id == replica.id) continue;
    if (is_same_device(other, replica)) ++speed.sharing;
    if (other.job != replica.job || other.stage != replica.stage) continue;
    const WatchedSpeed* seen = state.speeds.find(id);
    const double promised = speed_of(state, id);
    if (seen == nullptr || seen->sharing > 1) continue;
    if (seen->watch.best() <= 0 || promised <= 0) continue;
    efficiencies.push_back(seen->watch.best() / promised);
  }
  speed.watch.share_with(speed.sharing);
  speed.promised = speed_of(state, replica.id) * median(std::move(efficiencies));
}

std::string pace_text(const JobRecord& job, double pace) {
  if (job.stages.size() > 1) return three_figures(1000 / pace) + " ms per microbatch";
  return three_figures(pace) + " tokens/s";
}

// "computes at 0.21 of what was promised: 233 ms per microbatch, promised 49 ms per microbatch"
std::string figures(const JobRecord& job, const SpeedWatch& watch) {
  return "computes at " + three_figures(watch.ratio()) +
         " of what was promised: " + pace_text(job, watch.pace()) + ", promised " +
         pace_text(job, watch.expected());
}

std::string who(const State& state, const ReplicaRecord& replica) {
  return to_string(replica.id) + " of stage " + std::to_string(replica.stage) + " on device " +
         std::to_string(replica.device) + " of " + state.agents.at(replica.agent).name;
}

void say_turn(Transaction& tx, const ReplicaRecord& replica, const SpeedWatch& watch) {
  const JobRecord& job = tx.state().jobs.at(replica.job);
  const EventScope scope{.job = replica.job, .agent = replica.agent, .replica = replica.id};
  const std::string text = who(tx.state(), replica) + " " + figures(job, watch);
  if (watch.is_slow()) {
    return tx.event(Severity::kWarning, event_kind::kReplicaSlow, scope,
                    text +
                        "; look at the clocks and the temperature of the device, and at other "
                        "programs of its host");
  }
  tx.event(Severity::kInfo, event_kind::kReplicaAsPromised, scope, text);
}

// For plans, also after the replica has ended.
void remember_device(VolatileState& process, const ReplicaRecord& replica, const SpeedWatch& watch,
                     Instant now) {
  const DeviceKey device{replica.agent, replica.device};
  if (watch.is_slow()) process.slow_devices.put(device, {watch.ratio(), now});
  if (watch.is_sound() && !watch.is_slow()) process.slow_devices.erase(device);
}

void show(Transaction& tx, const ReplicaRecord& replica, WatchedSpeed& speed, bool turned) {
  const bool lately = speed.shown_at && tx.now() < *speed.shown_at + kShowEvery;
  if (speed.watch.expected() <= 0 || (lately && !turned)) return;
  speed.shown_at = tx.now();
  const JobRecord& job = tx.state().jobs.at(replica.job);
  const std::string slow = speed.watch.is_slow() ? to_string(replica.id) + " on device " +
                                                       std::to_string(replica.device) + " " +
                                                       figures(job, speed.watch)
                                                 : "";
  tx.show({replica.id, speed.watch.ratio(), slow});
}

}  // namespace

void note_speed(Transaction& tx, ReplicaId id, const FromAgent& message) {
  const ReplicaRecord& replica = tx.state().replicas.at(id);
  if (is_reducer(tx.state(), replica) || replica.held_round < 0) return;
  VolatileState& process = tx.volatile_state();
  WatchedSpeed& speed = process.speeds[id];
  const auto work = work_of(speed, tx.state().jobs.at(replica.job), message);
  if (!work) return;
  const Duration time = time_of_work(speed, *work, tx.now());
  speed.heard_at = tx.now();
  compare(tx, replica, speed);
  const SpeedTurn turn = speed.watch.worked(time, work->pace, speed.promised);
  if (turn != SpeedTurn::kNone) say_turn(tx, replica, speed.watch);
  remember_device(process, replica, speed.watch, tx.now());
  show(tx, replica, speed, turn != SpeedTurn::kNone);
}

}  // namespace shoal::coordinator
