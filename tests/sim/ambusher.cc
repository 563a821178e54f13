// The moments as the checkers are told of them: see ambusher.h.
#include "tests/sim/ambusher.h"

#include <algorithm>

namespace shoal::sim {

namespace {

constexpr int kStrikesMax = 60;

bool gives_and_owns_nothing(const Contributed& c) {
  return std::ranges::any_of(c.plan.members, [&](const ReduceMember& member) {
    return member.replica == c.replica && member.weight > 0 && member.part_count == 0;
  });
}

}  // namespace

Ambusher::Ambusher(Sim& sim, FaultInjector& injector)
    : sim_(sim), injector_(injector), prng_(sim.prng_for(0xa3b05)), left_(kStrikesMax) {
  sim_.ambush = this;
}

Ambusher::~Ambusher() { sim_.ambush = nullptr; }

void Ambusher::contributed(const Contributed& c) {
  at(Moment::kReduceBegins, c.replica);
  if (gives_and_owns_nothing(c)) at(Moment::kSenderBegins, c.replica);
}

void Ambusher::durable(const Record& record, const Tables& before) {
  if (const auto* job = std::get_if<coordinator::JobRecord>(&record)) {
    const auto old = before.jobs.find(job->id);
    const bool moved = old == before.jobs.end() || old->second.phase != job->phase;
    if (moved && !is_terminal(job->phase)) at(Moment::kJobMoved, {});
  } else if (const auto* round = std::get_if<coordinator::RoundRecord>(&record)) {
    const auto old = before.rounds.find(round->key);
    const bool moved = old != before.rounds.end() && old->second.state != round->state;
    if (moved) at(Moment::kRoundMoved, {});
  } else if (const auto* checkpoint = std::get_if<coordinator::CheckpointRecord>(&record)) {
    const auto old = before.checkpoints.find(checkpoint->id);
    const bool moved = old == before.checkpoints.end() || old->second.state != checkpoint->state;
    if (moved) at(Moment::kCheckpointMoved, {});
  }
}

void Ambusher::at(Moment moment, ReplicaId replica) {
  if (!sim_.faults_on) return;
  for (const Ambush& ambush : sim_.options.ambushes) {
    if (ambush.moment == moment && prng_.chance(ambush.probability)) strike_later(ambush, replica);
  }
}

// Never at once: the caller is in the midst of the moment.
void Ambusher::strike_later(const Ambush& ambush, ReplicaId replica) {
  if (left_ == 0) return;
  --left_;
  ++sim_.transitions[std::string("ambush ") + to_string(ambush.moment)];
  sim_.queue.after(Duration{prng_.range(0, ambush.within.ns)}, [this, ambush, replica] {
    if (sim_.faults_on) injector_.strike_at(ambush.fault, replica);
  });
}

}  // namespace shoal::sim
