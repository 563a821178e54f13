// Traffic and steps. A task that is found to be of an old attempt is dropped without computing, as
// a cancelled one is; with the naive resending it is computed for nothing.
#include "tests/sim/swarm/pipeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace shoal::sim::swarm {

Pipeline::Pipeline(const Options& options)
    : options_(options),
      prng_(mix_seed(options.seed, 0x5a)),
      agents_(static_cast<std::size_t>(options.agents)),
      links_(static_cast<std::size_t>(options.agents)),
      rebalancer_({.drain = seconds(1)}) {
  // A router's share of the window goes by its speed: room for the fastest one among the slowest.
  const auto [slowest, fastest] = std::minmax_element(options.speeds.begin(), options.speeds.end());
  const double others = static_cast<double>(options.agents / options.stages - 1) * *slowest;
  slots_ = static_cast<std::int32_t>(std::ceil(options.window * *fastest / (*fastest + others)));
  if (chained()) slots_ = static_cast<std::int32_t>(options.microbatches), add_router();
  place_agents();
  if (chained()) form_chains();
}

Measured Pipeline::run() {
  schedule_deaths();
  schedule(EventKind::kStepOpens, 0, 0, 0, 0, 0);
  const bool rebalances = !chained() && options_.rebalance;
  if (rebalances) schedule(EventKind::kRebalance, options_.rebalance_every.ns, 0, 0, 0, 0);
  while (!events_.empty() && measured_.steps < options_.steps) {
    const Event event = events_.pop();
    if (event.at_ns > options_.time_max.ns) break;
    now_ = {event.at_ns};
    ++measured_.events;
    handle(event);
  }
  // A step that never ended counts as time without microbatches.
  if (measured_.steps < options_.steps) now_ = {options_.time_max.ns}, ended_ns_ = now_.ns;
  account();
  const double spent = static_cast<double>(ended_ns_) * 1e-9;
  measured_.virtual_s = spent;
  const double work = (options_.forward + options_.backward).seconds();
  measured_.fraction =
      static_cast<double>(measured_.microbatches) * work * options_.stages / (total_speed_ * spent);
  measured_.bound = bound_integral_ * options_.stages / (total_speed_ * now_.ns * 1e-9);
  std::sort(step_s_.begin(), step_s_.end());
  if (!step_s_.empty()) {
    measured_.step_s_p50 = step_s_[step_s_.size() / 2];
    measured_.step_s_p99 = step_s_[step_s_.size() * 99 / 100];
  }
  return measured_;
}

void Pipeline::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kForwardArrives:
    case EventKind::kBackwardArrives:
      return arrive(event);
    case EventKind::kComputed:
      return computed(event);
    case EventKind::kCredit:
      return credit(event);
    case EventKind::kAnswer:
      return answer(event);
    case EventKind::kStepOpens:
      return open_steps();
    case EventKind::kDeath:
      return die(event);
    case EventKind::kDetected:
      return detected(event);
    case EventKind::kReturns:
      return come_back(event);
    case EventKind::kReady:
      return ready(event);
    case EventKind::kRebalance:
      return rebalance();
    case EventKind::kTimeout:
      return retry_naively(event);
    case EventKind::kRetry:
      if (current(event.microbatch, event.serial)) retry_again(event.microbatch);
      return;
  }
}

void Pipeline::schedule(EventKind kind, std::int64_t at_ns, std::int32_t microbatch,
                        std::int32_t agent, std::uint32_t serial, std::int32_t stage) {
  events_.push({at_ns, 0, microbatch, agent, serial, static_cast<std::uint8_t>(stage), kind});
}

bool Pipeline::current(std::int32_t microbatch, std::uint32_t serial) const {
  const Microbatch& m = microbatches_[microbatch];
  return m.open && m.serial == serial;
}

Duration Pipeline::latency(std::int32_t from, std::int32_t to) const {
  if (from == to || from < 0 || to < 0) return {};  // routers are part of stage 0
  const auto regions = static_cast<std::int32_t>(options_.one_way.size());
  return options_.one_way[std::max(from, 0) % regions][std::max(to, 0) % regions];
}

Duration Pipeline::farthest() const {
  Duration farthest;
  for (const auto& row : options_.one_way) {
    for (const Duration each : row) farthest = std::max(farthest, each);
  }
  return farthest;
}

bool Pipeline::ends_round(std::int64_t step) const {
  return options_.steps_per_round > 0 && step % options_.steps_per_round == 0;
}

bool Pipeline::may_open(std::int64_t step) const {
  if (step > options_.steps || step > completed_ + overlap()) return false;
  return step == completed_ + 1 || !ends_round(step - 1);
}

void Pipeline::open_steps() {
  if (chained() && dead_ > 0) return;  // the last one to come back opens it
  if (completed_ == opened_) step_began_ns_ = now_.ns;
  between_steps_ = false;
  for (const ::shoal::swarm::Move& move : moves_) apply(move);
  moves_.clear();
  const auto has_agent = [](const Router& router) { return router.agent >= 0; };
  waits_for_router_ = !chained() && std::none_of(routers_.begin(), routers_.end(), has_agent);
  if (waits_for_router_) return;  // the first one in stage 0 opens it
  while (may_open(opened_ + 1)) open_step();
}

void Pipeline::open_step() {
  ++opened_;
  for (Agent& agent : agents_) agent.computed_ahead = 0;
  share_step();
  if (chained()) return fill_chains();
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(routers_.size()); ++r) admit(r);
}

// By the speed of those that are not known to be lost; a sum that is rounded gives whole shares.
void Pipeline::share_step() {
  const auto speed = [&](const Router& router) {
    if (chained()) return 1.0;
    return router.agent < 0 ? 0.0 : agents_[router.agent].speed;
  };
  double total = 0, passed = 0;
  for (const Router& router : routers_) total += speed(router);
  std::int64_t given = 0;
  for (Router& router : routers_) {
    passed += speed(router) / total;
    const auto up_to = std::llround(static_cast<double>(options_.microbatches) * passed);
    router.shares[opened_ % 2] = {.quota = up_to - given};
    given = up_to;
    const double window = std::ceil(options_.window * speed(router) / total);
    router.window = std::clamp(static_cast<std::int32_t>(window), 1, slots_);
  }
}

// The next microbatch of this step, in a slot of its own.
Pipeline::Task Pipeline::take_slot(std::int32_t r, std::int64_t step) {
  Router& router = routers_[r];
  const std::int32_t index = router.free.back();
  router.free.pop_back();
  ++router.outstanding;
  router.retries.admitted();
  Microbatch& m = microbatches_[index];
  const std::int64_t age = step * options_.microbatches + router.shares[step % 2].admitted++;
  m = {age, m.serial + 1, 0, false, true, false};
  for (std::int32_t stage = 0; stage < options_.stages; ++stage) hop(index, stage) = {};
  return {m.age, index, m.serial, false};
}

void Pipeline::admit(std::int32_t r) {
  Router& router = routers_[r];
  if (router.agent < 0 || !agents_[router.agent].serving) return;
  for (std::int64_t step = completed_ + 1; step <= opened_; ++step) {
    Share& share = router.shares[step % 2];
    while (share.admitted < share.quota && router.outstanding < router.window) {
      forward_to(0, take_slot(r, step));
    }
  }
}

// Every chain gets its share of the step at once: shares are equal, or by speed for sorted chains.
void Pipeline::fill_chains() {
  const auto chains = static_cast<std::int32_t>(chains_.size());
  std::vector<double> load(chains, 0);
  chain_count_.assign(chains, 0);
  chain_forwarded_.assign(chains, 0);
  chain_of_.resize(microbatches_.size());
  for (std::int64_t position = 0; position < options_.microbatches; ++position) {
    const Task task = take_slot(0, opened_);
    const std::int32_t chain = choose_chain(position, load);
    chain_of_[task.microbatch] = chain;
    ++chain_count_[chain];
    forward_to(0, task);
  }
}

std::int32_t Pipeline::choose_chain(std::int64_t position, std::vector<double>& load) const {
  const auto chains = static_cast<std::int32_t>(chains_.size());
  if (options_.schedule != Schedule::kSortedChains) {
    return static_cast<std::int32_t>(position % chains);
  }
  const auto cost = [&](std::int32_t c) {
    double slowest = 1e300;
    for (const std::int32_t agent : chains_[c]) slowest = std::min(slowest, agents_[agent].speed);
    return load[c] + 1 / slowest;
  };
  std::int32_t chain = 0;
  for (std::int32_t c = 1; c < chains; ++c) {
    if (cost(c) < cost(chain)) chain = c;
  }
  load[chain] = cost(chain);
  return chain;
}

bool Pipeline::forward_to(std::int32_t stage, Task task) {
  Hop& to = hop(task.microbatch, stage);
  const std::int32_t from = stage == 0 ? -1 : hop(task.microbatch, stage - 1).agent;
  Microbatch& m = microbatches_[task.microbatch];
  m.stage = stage;
  m.backward = false;
  std::int32_t next = -1;
  if (chained()) {
    next = chains_[chain_of_[task.microbatch]][stage];
  } else if (stage == 0) {
    next = routers_[router_of(task.microbatch)].agent;
  } else {
    Router& router = routers_[router_of(task.microbatch)];
    const auto chosen = router.wiring[stage].choose(1);
    m.waiting = !chosen;
    if (!chosen) return router.waiting[stage].push_back(task), false;
    next = static_cast<std::int32_t>((chosen->n & 0xffffff) - 1);
  }
  const auto incarnation = static_cast<std::uint32_t>(agents_[next].incarnation);
  const bool same = to.agent == next && to.incarnation == incarnation;
  to = {next, incarnation, 0, same && to.added};
  send(from, next, task, stage);
  return true;
}

// Books both links and schedules the arrival.
std::int64_t Pipeline::transfer(std::int32_t from, std::int32_t to, std::int64_t bytes) {
  std::int64_t at = now_.ns;
  if (from == to) return at;
  if (bytes == 0 || options_.bytes_per_s <= 0 || from < 0 || to < 0) {
    return at + latency(from, to).ns;
  }
  measured_.bytes += bytes;
  const auto busy =
      static_cast<std::int64_t>(static_cast<double>(bytes) / options_.bytes_per_s * 1e9);
  Link& sender = links_[from / options_.agents_per_uplink];
  Link& receiver = links_[to / options_.agents_per_uplink];
  at = std::max(at, sender.up_free_ns);
  sender.up_free_ns = at + busy;
  at = std::max(at + latency(from, to).ns, receiver.down_free_ns);
  receiver.down_free_ns = at + busy;
  return at + busy;
}

void Pipeline::send(std::int32_t from, std::int32_t to, Task task, std::int32_t stage) {
  const std::int64_t bytes = from < 0 ? 0 : options_.payload_bytes;
  const std::int64_t at = transfer(from, to, bytes);
  if (options_.response_time) sent_ns_[hop_at(task.microbatch, stage)] = now_.ns;
  schedule(task.backward ? EventKind::kBackwardArrives : EventKind::kForwardArrives, at,
           task.microbatch, to, task.serial, stage);
  if (options_.retrying == Retrying::kTimeout && !chained()) {
    schedule(EventKind::kTimeout, now_.ns + options_.retry_timeout.ns, task.microbatch,
             task.backward ? 1 : 0, task.serial, stage);
  }
  if (options_.schedule == Schedule::kGpipeBlocking && from >= 0) {
    Agent& sender = agents_[from];
    sender.busy =
        true;  // the lane waits for the tensor to arrive; kComputed without a task frees it
    schedule(EventKind::kComputed, at, -1, from, sender.lane, stage);
  }
}

void Pipeline::arrive(const Event& event) {
  Agent& agent = agents_[event.agent];
  const bool backward = event.kind == EventKind::kBackwardArrives;
  // A replica that died or moved on; what it held is found when the loss is known.
  if (!agent.serving || agent.stage != event.stage) return;
  auto& queue = backward ? agent.backwards : agent.forwards;
  const Task task{microbatches_[event.microbatch].age, event.microbatch, event.serial, backward};
  // The baselines serve in the order of arrival.
  const bool by_age = !chained() && options_.retrying == Retrying::kOnLoss;
  const auto younger = [](const Task& x, const Task& y) { return x.age > y.age; };
  queue.insert(by_age ? std::lower_bound(queue.begin(), queue.end(), task, younger) : queue.begin(),
               task);
  if (!agent.busy) start(event.agent);
}

bool Pipeline::may_start_forward(const Agent& agent) const {
  return options_.schedule != Schedule::kOneForwardOneBackward ||
         agent.computed_ahead < options_.stages - agent.stage;
}

// The oldest microbatch first, and backwards first among equals: with backwards always first,
// forwards starve in bursts and the last stage runs dry; in the order of arrival, the step's tail
// grows (docs/simulation.md).
void Pipeline::start(std::int32_t index) {
  Agent& agent = agents_[index];
  const bool forwards_first = chained() && options_.schedule != Schedule::kOneForwardOneBackward;
  while (!agent.busy) {
    const bool forward = !agent.forwards.empty() && may_start_forward(agent) &&
                         (forwards_first || agent.backwards.empty() ||
                          (!chained() && agent.forwards.back().age < agent.backwards.back().age));
    auto& queue = forward ? agent.forwards : agent.backwards;
    if (queue.empty() || (!forward && !may_start_backward(agent))) return;
    const Task task = queue.back();
    queue.pop_back();
    const bool stale = !current(task.microbatch, task.serial);
    if (stale && options_.retrying == Retrying::kOnLoss) {
      if (!task.backward) return_credit(index, task.microbatch);
      continue;
    }
    measured_.wasted += stale;
    start_task(index, task);
  }
}

Duration Pipeline::service_of(const Agent& agent, Task task) {
  Duration time = task.backward ? options_.backward : options_.forward;
  if (task.backward && hop(task.microbatch, agent.stage).recompute) time = time + options_.forward;
  double factor = 1 / agent.speed;
  if (options_.jitter > 0) factor *= std::max(0.1, 1 + options_.jitter * prng_.normal());
  return factor == 1 ? time
                     : Duration{static_cast<std::int64_t>(factor * static_cast<double>(time.ns))};
}

void Pipeline::start_task(std::int32_t index, Task task) {
  Agent& agent = agents_[index];
  agent.busy = true;
  agent.running = task;
  agent.service = service_of(agent, task);
  schedule(EventKind::kComputed, now_.ns + agent.service.ns, task.microbatch, index, agent.lane, 0);
}

void Pipeline::computed(const Event& event) {
  Agent& agent = agents_[event.agent];
  if (event.serial != agent.lane) return;  // it died meanwhile
  agent.busy = false;
  if (event.microbatch >= 0) {
    const Task task = agent.running;
    agent.computed_ahead += task.backward ? -1 : 1;
    if (!chained()) measure(event.agent, task);
    if (task.backward) {
      backward_done(event.agent, task);
    } else {
      forward_done(event.agent, task);
    }
  }
  if (!agent.busy) start(event.agent);
}

// What the wiring learns. A real report travels with the answer; here it is known at once.
void Pipeline::measure(std::int32_t index, Task task) {
  const Agent& agent = agents_[index];
  const double all = (options_.forward + options_.backward).seconds();
  const double part = (task.backward ? options_.backward : options_.forward).seconds() / all;
  Duration told = agent.service;
  if (options_.response_time) {
    if (!current(task.microbatch, task.serial)) return;
    told = {now_.ns - sent_ns_[hop_at(task.microbatch, agent.stage)]};
  }
  routers_[router_of(task.microbatch)].wiring[agent.stage].report(
      replica_id(index, agent.incarnation), told, part);
}

void Pipeline::return_credit(std::int32_t index, std::int32_t microbatch) {
  const Agent& agent = agents_[index];
  if (chained() || agent.stage == 0) return;
  schedule(EventKind::kCredit, now_.ns + latency(index, index + 1).ns, router_of(microbatch), index,
           static_cast<std::uint32_t>(agent.incarnation), agent.stage);
}

void Pipeline::credit(const Event& event) {
  Router& router = routers_[event.microbatch];
  router.wiring[event.stage].give_back(
      replica_id(event.agent, static_cast<std::int32_t>(event.serial)));
  auto& waiting = router.waiting[event.stage];
  while (!waiting.empty() && router.wiring[event.stage].eligible() > 0) {
    const Task task = waiting.front();
    waiting.pop_front();
    if (current(task.microbatch, task.serial) && !forward_to(event.stage, task)) break;
  }
}

void Pipeline::forward_done(std::int32_t index, Task task) {
  return_credit(index, task.microbatch);
  if (!current(task.microbatch, task.serial)) return;
  const std::int32_t stage = agents_[index].stage;
  if (stage + 1 == options_.stages) return last_stage_done(index, task);
  forward_to(stage + 1, task);
}

// The loss is here. GPipe begins its backwards when all forwards of the chain are done.
void Pipeline::last_stage_done(std::int32_t index, Task task) {
  Agent& agent = agents_[index];
  microbatches_[task.microbatch].backward = true;
  task.backward = true;
  if (options_.response_time) sent_ns_[hop_at(task.microbatch, agent.stage)] = now_.ns;
  agent.backwards.insert(agent.backwards.begin(), task);
  // Forwards go first in GPipe, but the last stage may be idle between two of them.
  if (chained()) ++chain_forwarded_[chain_of_[task.microbatch]];
}

bool Pipeline::may_start_backward(const Agent& agent) const {
  const bool gpipe = chained() && options_.schedule != Schedule::kOneForwardOneBackward;
  if (!gpipe || agent.stage + 1 < options_.stages || agent.backwards.empty()) return true;
  const std::int32_t chain = chain_of_[agent.backwards.back().microbatch];
  return chain_forwarded_[chain] == chain_count_[chain];
}

void Pipeline::backward_done(std::int32_t index, Task task) {
  Agent& agent = agents_[index];
  if (!current(task.microbatch, task.serial)) return;
  Hop& at = hop(task.microbatch, agent.stage);
  measured_.added += !at.added;
  measured_.added_again += at.added;
  at.added = true;
  if (agent.stage == 0) {
    schedule(EventKind::kAnswer, now_.ns, task.microbatch, index, task.serial, 0);
    return;
  }
  const std::int32_t before = agent.stage - 1;
  microbatches_[task.microbatch].stage = before;
  send(index, hop(task.microbatch, before).agent, task, before);
}

void Pipeline::answer(const Event& event) {
  if (!current(event.microbatch, event.serial)) return;
  const std::int32_t r = router_of(event.microbatch);
  Router& router = routers_[r];
  Microbatch& m = microbatches_[event.microbatch];
  m.open = false;
  router.free.push_back(event.microbatch);
  --router.outstanding;
  ++router.shares[(m.age / options_.microbatches) % 2].answered;
  if (!chained()) admit(r);
  end_steps();
}

void Pipeline::end_steps() {
  while (completed_ < opened_ && complete(completed_ + 1)) step_over();
}

bool Pipeline::complete(std::int64_t step) const {
  return std::all_of(routers_.begin(), routers_.end(), [&](const Router& router) {
    return router.shares[step % 2].answered == router.shares[step % 2].quota;
  });
}

void Pipeline::step_over() {
  ++completed_;
  std::int64_t next = now_.ns + farthest().ns;  // routers tell the replicas
  ++measured_.steps;
  for (const Router& router : routers_) {
    measured_.microbatches += router.shares[completed_ % 2].answered;
  }
  if (ends_round(completed_)) {
    // Butterfly of int8 pseudo-gradients: a quarter of the fp32 weights, out and back.
    const double bytes = 2.0 * static_cast<double>(options_.state_bytes) / 20;
    next += static_cast<std::int64_t>(bytes / options_.bytes_per_s * 1e9) + 4 * farthest().ns;
  }
  step_s_.push_back(static_cast<double>(next - step_began_ns_) * 1e-9);
  step_began_ns_ = next;
  ended_ns_ = next;
  between_steps_ = completed_ == opened_;
  schedule(EventKind::kStepOpens, next, 0, 0, 0, 0);
}

Measured simulate(const Options& options) {
  const std::string problem = why_not(options);
  SHOAL_CHECK(problem.empty(), problem);
  return Pipeline(options).run();
}

}  // namespace shoal::sim::swarm
