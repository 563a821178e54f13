// Membership: placement, deaths by an exponential clock or a trace, detection, returns, downloads
// and moves. A death drops queue and computation at once, but the others learn of it after the
// detection time only. Moves wait for the step boundary unless the step cannot continue without
// them.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "tests/sim/swarm/pipeline.h"

namespace shoal::sim::swarm {

using ::shoal::swarm::assign_agents;
using ::shoal::swarm::AssignableAgent;
using ::shoal::swarm::Move;
using ::shoal::swarm::StageNeed;

void Pipeline::place_agents() {
  std::vector<AssignableAgent> pool;
  for (std::int32_t i = 0; i < options_.agents; ++i) {
    const double speed =
        options_.speeds[static_cast<std::size_t>(i / options_.stages) % options_.speeds.size()];
    agents_[i].speed = speed;
    total_speed_ += speed;
    pool.push_back({AgentId(i + 1), speed, Bytes(1)});
  }
  const std::vector<StageNeed> stages(options_.stages, StageNeed{1, Bytes(1)});
  const auto placed = assign_agents(pool, stages, {.several_stages_per_agent = false});
  SHOAL_CHECK(placed.ok());
  for (const auto& placement : placed.placements) {
    agents_[placement.agent].stage = placement.stage;
    agents_[placement.agent].serving = true;
  }
  for (std::int32_t i = 0; i < options_.agents && !chained(); ++i) {
    if (agents_[i].serving && agents_[i].stage == 0) take_place(i);
  }
}

// Chain c is one agent of each stage: by speed for sorted chains, else at random.
void Pipeline::form_chains() {
  std::vector<std::vector<std::int32_t>> members(options_.stages);
  for (std::int32_t i = 0; i < options_.agents; ++i) members[agents_[i].stage].push_back(i);
  std::size_t length = members[0].size();
  for (auto& stage : members) {
    prng_.shuffle(stage);
    if (options_.schedule == Schedule::kSortedChains) {
      std::stable_sort(stage.begin(), stage.end(),
                       [&](auto a, auto b) { return agents_[a].speed > agents_[b].speed; });
    }
    length = std::min(length, stage.size());
  }
  for (std::size_t c = 0; c < length; ++c) {
    chains_.emplace_back();
    for (const auto& stage : members) chains_.back().push_back(stage[c]);
  }
}

// A place for one more router, which knows everybody who serves.
std::int32_t Pipeline::add_router() {
  const auto place = static_cast<std::int32_t>(routers_.size());
  Router& router = routers_.emplace_back();
  for (std::int32_t slot = slots_ - 1; slot >= 0; --slot) {
    router.free.push_back(place * slots_ + slot);
  }
  router.waiting.resize(options_.stages);
  for (std::int32_t s = 0; s < options_.stages; ++s) {
    router.wiring.emplace_back(prng_.next());
  }
  microbatches_.resize(static_cast<std::size_t>(slots_) * routers_.size());
  hops_.resize(microbatches_.size() * options_.stages);
  if (options_.response_time) sent_ns_.resize(hops_.size());
  return place;
}

// It draws from the next step on.
void Pipeline::take_place(std::int32_t index) {
  const auto free = std::find_if(routers_.begin(), routers_.end(),
                                 [](const Router& router) { return router.agent < 0; });
  const bool found = free != routers_.end();
  const auto place = found ? static_cast<std::int32_t>(free - routers_.begin()) : add_router();
  Router& router = routers_[place];
  agents_[index].router = place;
  router.agent = index;
  router.incarnation = agents_[index].incarnation;
  router.retries = ::shoal::swarm::RetryTokens(now_);
  for (std::int32_t i = 0; !found && i < options_.agents; ++i) {
    const Agent& other = agents_[i];
    if (!other.serving || other.stage == 0) continue;
    router.wiring[other.stage].add(replica_id(i, other.incarnation), expected_service(other),
                                   credits_of(other));
  }
  if (!std::exchange(waits_for_router_, false)) return;
  schedule(EventKind::kStepOpens, now_.ns, 0, 0, 0, 0);
}

// What it had under way is void, and the steps that are open end without the rest of its share.
void Pipeline::lose_router(std::int32_t index) {
  const std::int32_t place = std::exchange(agents_[index].router, -1);
  if (place < 0) return;
  Router& router = routers_[place];
  router.agent = -1;
  void_open(router, place);
  for (Share& share : router.shares) share.quota = share.answered;
  ++measured_.routers_lost;
  end_steps();
}

void Pipeline::void_open(Router& router, std::int32_t place) {
  for (std::int32_t i = place * slots_; i < (place + 1) * slots_; ++i) {
    Microbatch& m = microbatches_[i];
    if (!m.open) continue;
    m.open = false;
    ++m.serial;
    router.free.push_back(i);
    ++measured_.voided;
  }
  for (auto& waiting : router.waiting) waiting.clear();
  router.outstanding = 0;
}

Duration Pipeline::expected_service(const Agent& agent) const {
  if (!options_.benchmarked) return {};
  return seconds_f((options_.forward + options_.backward).seconds() / agent.speed);
}

// The credits of the product, and at least enough to be busy over the line: with fewer, the one
// that returns a credit first gets the next microbatch whatever the wiring says, and the shares
// drift apart.
std::int32_t Pipeline::credits_of(const Agent& agent) const {
  const double stage_speed = total_speed_ / options_.stages;
  const double even = static_cast<double>(options_.stages) / options_.agents;
  const double share = std::min(1.0, std::max(even, agent.speed / stage_speed));
  const auto ample = ::shoal::swarm::ample_credits(
      options_.window, std::max(1, options_.agents / options_.stages), share);
  const double work = (options_.forward + options_.backward).seconds();
  const auto payload = options_.bytes_per_s > 0
                           ? static_cast<double>(options_.payload_bytes) / options_.bytes_per_s
                           : 0.0;
  return std::max(ample, ::shoal::swarm::credits_for(seconds_f(work / agent.speed), farthest() * 2,
                                                     seconds_f(payload)));
}

// The wirings of the routers learn of it; one of stage 0 becomes a router itself.
void Pipeline::join_wirings(std::int32_t index) {
  const Agent& agent = agents_[index];
  if (chained()) return;
  if (agent.stage == 0) return take_place(index);
  for (Router& router : routers_) {
    router.wiring[agent.stage].add(replica_id(index, agent.incarnation), expected_service(agent),
                                   credits_of(agent));
  }
}

void Pipeline::leave_wirings(std::int32_t index, std::int32_t incarnation, std::int32_t stage) {
  for (Router& router : routers_) router.wiring[stage].remove(replica_id(index, incarnation));
}

void Pipeline::schedule_deaths() {
  for (std::size_t i = 0; i < options_.trace.size(); ++i) {
    const MembershipEvent& row = options_.trace[i];
    schedule(row.add ? EventKind::kReturns : EventKind::kDeath, row.at.ns, -1, row.agent, 0, 0);
  }
  if (!options_.trace.empty() || options_.mtbf_h <= 0) return;
  for (std::int32_t i = 0; i < options_.agents; ++i) {
    const double life = prng_.exponential(options_.mtbf_h * 3600);
    schedule(EventKind::kDeath, seconds_f(life).ns, 0, i, 0, 0);
  }
}

void Pipeline::account() {
  std::vector<double> alive(options_.stages, 0);
  for (const Agent& agent : agents_) {
    if (agent.serving) alive[agent.stage] += agent.speed;
  }
  bound_integral_ += *std::min_element(alive.begin(), alive.end()) *
                     static_cast<double>(now_.ns - accounted_ns_) * 1e-9;
  accounted_ns_ = now_.ns;
}

void Pipeline::lose_work(std::int32_t index) {
  Agent& agent = agents_[index];
  agent.serving = agent.busy = false;
  ++agent.lane;
  agent.forwards.clear();
  agent.backwards.clear();
}

void Pipeline::die(const Event& event) {
  Agent& agent = agents_[event.agent];
  if (agent.dead) return;
  account();
  ++measured_.deaths;
  ++dead_;
  agent.dead = true;
  lose_work(event.agent);
  std::erase_if(moves_, [&](const Move& move) {
    return move.replica == replica_id(event.agent, agent.incarnation);
  });
  schedule(EventKind::kDetected, now_.ns + options_.detection.ns, agent.incarnation, event.agent, 0,
           agent.stage);
  if (event.microbatch >= 0) {
    schedule(EventKind::kReturns, now_.ns + options_.back_after.ns, 0, event.agent, 0, 0);
  }
  if (chained()) restart_chains();
}

// The step is lost; it begins again when everybody is back and has loaded the checkpoint.
void Pipeline::restart_chains() {
  for (std::int32_t i = 0; i < options_.agents; ++i) {
    const bool serving = agents_[i].serving;  // not while it restores
    lose_work(i);
    agents_[i].serving = serving;
  }
  for (std::size_t i = 0; i < microbatches_.size(); ++i) {
    Microbatch& m = microbatches_[i];
    if (m.open)
      routers_[router_of(static_cast<std::int32_t>(i))].free.push_back(
          static_cast<std::int32_t>(i));
    m.open = false;
    ++m.serial;
  }
  for (Router& router : routers_) router.outstanding = 0;
  opened_ = completed_;
  between_steps_ = true;
}

void Pipeline::detected(const Event& event) {
  leave_wirings(event.agent, event.microbatch, event.stage);
  if (chained()) return;
  const std::int32_t place = agents_[event.agent].router;
  if (place >= 0 && routers_[place].incarnation == event.microbatch) lose_router(event.agent);
  if (options_.rebalance) emergency();
  if (options_.retrying == Retrying::kOnLoss) retry_lost(event.agent, event.microbatch);
}

// Every open microbatch whose path crosses the lost replica goes again from the hop before it.
void Pipeline::retry_lost(std::int32_t index, std::int32_t incarnation) {
  for (std::size_t i = 0; i < microbatches_.size(); ++i) {
    const Microbatch& m = microbatches_[i];
    if (!m.open) continue;
    const std::int32_t known = m.waiting ? m.stage - 1 : m.stage;
    for (std::int32_t s = 1; s <= known; ++s) {
      const Hop& at = hop(static_cast<std::int32_t>(i), s);
      if (at.agent != index || at.incarnation != static_cast<std::uint32_t>(incarnation)) continue;
      retry(static_cast<std::int32_t>(i), s);
      break;
    }
  }
}

void Pipeline::retry(std::int32_t index, std::int32_t stage) {
  Microbatch& m = microbatches_[index];
  if (!routers_[router_of(index)].retries.take(now_)) {
    return schedule(EventKind::kRetry, now_.ns + seconds(1).ns, index, 0, m.serial, 0);
  }
  ++measured_.retries;
  ++m.serial;
  // An earlier hop may have died as well; its own detection repeats this from further up.
  forward_to(stage, {m.age, index, m.serial, false});
}

// The budget was spent; hops before the lost one may have died since.
void Pipeline::retry_again(std::int32_t index) {
  const std::int32_t last =
      microbatches_[index].waiting ? microbatches_[index].stage - 1 : microbatches_[index].stage;
  for (std::int32_t stage = 1; stage <= last; ++stage) {  // without its router it is void
    const Hop& at = hop(index, stage);
    const Agent& agent = agents_[at.agent];
    const bool same = static_cast<std::uint32_t>(agent.incarnation) == at.incarnation;
    if (!agent.dead && same) continue;
    return retry(index, stage);
  }
}

// No answer in time: the same request goes to another replica, and the first one stays where it is.
void Pipeline::retry_naively(const Event& event) {
  Microbatch& m = microbatches_[event.microbatch];
  const bool backward = event.agent == 1;
  if (!current(event.microbatch, event.serial) || m.stage != event.stage ||
      m.backward != backward || m.waiting) {
    return;
  }
  ++m.serial;  // without the budget, which would refuse
  ++measured_.retries;
  const Task task{m.age, event.microbatch, m.serial, backward};
  if (!backward) return void(forward_to(event.stage, task));
  const auto chosen = routers_[router_of(event.microbatch)].wiring[event.stage].choose(1);
  Hop& at = hop(event.microbatch, event.stage);
  if (chosen) {
    at.agent = static_cast<std::int32_t>((chosen->n & 0xffffff) - 1);
    at.incarnation = static_cast<std::uint32_t>(agents_[at.agent].incarnation);
    at.recompute = 1;
    at.added = 0;
    routers_[router_of(event.microbatch)].wiring[event.stage].give_back(*chosen);
  }
  send(-1, at.agent, task, event.stage);
}

void Pipeline::come_back(const Event& event) {
  Agent& agent = agents_[event.agent];
  if (!agent.dead) return;
  lose_router(event.agent);  // it is back before it was missed
  Duration wait;
  if (chained()) {
    wait = options_.restore;
  } else if (options_.bytes_per_s > 0) {
    wait = seconds_f(static_cast<double>(options_.state_bytes) / options_.bytes_per_s);
  }
  if (!chained() && options_.rebalance) {
    const auto joined = joiner_stage(view(), {Bytes(1), {}}, 1);
    agent.stage = joined.stage;
  }
  ++agent.incarnation;
  ++measured_.joins;
  agent.dead = false;
  schedule(EventKind::kReady, now_.ns + wait.ns, agent.incarnation, event.agent, 0, agent.stage);
}

void Pipeline::ready(const Event& event) {
  Agent& agent = agents_[event.agent];
  if (agent.dead || agent.serving || agent.incarnation != event.microbatch) return;
  account();
  agent.serving = true;
  if (options_.trace.empty() && options_.mtbf_h > 0) {
    const Duration life = seconds_f(prng_.exponential(options_.mtbf_h * 3600));
    if (!agent.death_known) schedule(EventKind::kDeath, (now_ + life).ns, 0, event.agent, 0, 0);
  }
  agent.death_known = false;
  if (chained()) {
    --dead_;
    if (dead_ == 0) schedule(EventKind::kStepOpens, now_.ns, 0, 0, 0, 0);
    return;
  }
  join_wirings(event.agent);
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(routers_.size()); ++r) {
    // What waited for somebody to serve this stage.
    Event freed{now_.ns,
                0,
                r,
                event.agent,
                static_cast<std::uint32_t>(-1),
                static_cast<std::uint8_t>(agent.stage),
                EventKind::kCredit};
    credit(freed);
  }
}

::shoal::swarm::RebalanceView Pipeline::view() const {
  ::shoal::swarm::RebalanceView view;
  view.stages.assign(options_.stages, StageNeed{1, Bytes(1)});
  view.state.assign(options_.stages, Bytes(options_.state_bytes));
  view.sources.assign(options_.stages, options_.bytes_per_s > 0
                                           ? options_.bytes_per_s
                                           : std::numeric_limits<double>::infinity());
  for (std::int32_t i = 0; i < options_.agents; ++i) {
    const Agent& agent = agents_[i];
    if (agent.dead) continue;
    view.replicas.push_back({replica_id(i, agent.incarnation), agent.stage, agent.speed, Bytes(1),
                             seconds(1800), !agent.serving});
  }
  return view;
}

// The agent leaves its stage, downloads, and comes back as a new replica of the other.
void Pipeline::apply(const Move& move) {
  const auto index = static_cast<std::int32_t>((move.replica.n & 0xffffff) - 1);
  Agent& agent = agents_[index];
  if (!agent.serving || move.replica != replica_id(index, agent.incarnation)) return;
  account();
  ++measured_.moves;
  const std::int32_t incarnation = agent.incarnation;
  lose_work(index);
  leave_wirings(index, incarnation, agent.stage);
  lose_router(index);
  ++agent.incarnation;
  agent.stage = move.to;
  agent.death_known = true;
  if (!between_steps_) retry_lost(index, incarnation);
  const Duration wait =
      options_.bytes_per_s > 0
          ? seconds_f(static_cast<double>(options_.state_bytes) / options_.bytes_per_s)
          : Duration{};
  schedule(EventKind::kReady, now_.ns + wait.ns, agent.incarnation, index, 0, agent.stage);
}

void Pipeline::emergency() {
  for (const Move& move : emergency_moves(view(), 1)) apply(move);
}

void Pipeline::rebalance() {
  for (const Move& move : rebalancer_.step(view()).moves) moves_.push_back(move);
  schedule(EventKind::kRebalance, now_.ns + options_.rebalance_every.ns, 0, 0, 0, 0);
}

}  // namespace shoal::sim::swarm
