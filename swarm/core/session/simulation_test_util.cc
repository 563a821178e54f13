// Nodes of the simulation and their books. Streams, faults and the coordinator are in
// simulation_faults_test_util.cc.
#include "swarm/core/session/simulation_test_util.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "swarm/core/session/wiring.h"

namespace shoal::swarm {
namespace {
constexpr Tokens kTokens(kSequencesOfSimulation* kContextOfSimulation);
constexpr Duration kPatience = seconds(400);  // longer is a hang

double loss_of(const Microbatch& m) { return static_cast<double>(m.index + 1); }

}  // namespace

std::string text(const Microbatch& m) {
  return "(" + std::to_string(m.round) + " " + std::to_string(m.step) + " " + to_string(m.router) +
         " " + std::to_string(m.index) + ")";
}

Simulation::Simulation(const SimulationOptions& options)
    : options_(options), prng_(options.seed), now_{1} {
  faults_ = options.breaks.ns + options.deaths.ns + options.freezes.ns + options.joins.ns +
                    options.cuts.ns >
                0 ||
            options.stop > 0;
  for (StageIndex stage = 0; stage < options_.stages; ++stage) {
    const auto count = prng_.range(1, options_.replicas_max);
    for (std::int64_t i = 0; i < count; ++i) view_.members.push_back({spawn(stage).id, stage});
  }
}

void Simulation::run() {
  publish();
  at({}, [this] { open_round(); });
  watch();
  plan(options_.breaks, breaks, &Simulation::break_one);
  plan(options_.deaths, deaths, &Simulation::kill_one);
  plan(options_.freezes, freezes, &Simulation::freeze_one);
  plan(options_.joins, joins, &Simulation::join_one);
  plan(options_.cuts, cuts, &Simulation::cut_some);
  while (!ended_ && !events_.empty() && problems.size() < 20) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    if (now_.ns > kPatience.ns) break;
    event.what();
  }
  if (!ended_ && problems.size() < 20) describe_hang();
  count_twice();
  for (auto& [id, n] : nodes_) {
    const SessionStats stats = n->session->stats();
    resent += stats.resent;
    answered_only += stats.answered_only;
    added_again += stats.added_again;
    microbatches += stats.microbatches;
    past += stats.past;
    trace_.add(n->session->digest());
  }
  if (twice > added_again) {
    problems.push_back(std::to_string(twice) + " gradients count in two replicas, " +
                       std::to_string(added_again) + " were counted as such");
  }
}

// A replica adds a microbatch once; so each further addition at a stage is another replica's.
void Simulation::count_twice() {
  for (const auto& [microbatch, stages] : adds_) {
    for (const auto& [stage, added] : stages) twice += added - 1;
  }
  adds_.clear();
}

void Simulation::watch() {
  maybe_close_round();
  at(seconds(1), [this] { watch(); });
}

void Simulation::describe_hang() {
  std::string what = "hang in round " + std::to_string(round_ + 1);
  for (const PipelineMember& m : view_.members) {
    const Node& n = node(m.replica);
    const SessionStats stats = n.session->stats();
    what += "\n  " + to_string(n.id) + " stage " + std::to_string(n.stage) + " step " +
            std::to_string(n.session->step()) + " tasks " + std::to_string(n.tasks.size()) +
            " below " + std::to_string(stats.in_flight) + " queued " +
            std::to_string(stats.queued) + (n.alive ? "" : " dead") + (n.frozen ? " frozen" : "") +
            (n.session->training() ? " training" : "") + (n.boundary ? " boundary" : "") +
            " holds " + std::to_string(n.held) + " view " + std::to_string(n.view.number) + "/" +
            std::to_string(view_.number);
  }
  problems.push_back(what);
}

// ---- machinery

void Simulation::at(Duration later, std::function<void()> what) {
  events_.push({now_ + later, order_++, std::move(what)});
}

void Simulation::violate(const Node& n, const std::string& what) {
  problems.push_back(to_string(n.id) + " of stage " + std::to_string(n.stage) + " at " +
                     std::to_string(now_.unix_ms()) + " ms: " + what);
}

void Simulation::deliver(Node& n, std::function<void()> what) {
  if (!n.alive) return;
  if (n.frozen) {
    n.backlog.push_back(std::move(what));
  } else {
    what();
  }
}

void Simulation::call(Node& n, const std::function<void(StageSession&, SessionActions&)>& what) {
  if (!n.alive) return;
  ++calls;
  SessionActions actions;
  what(*n.session, actions);
  act(n, actions);
  pump(n);
  const auto deadline = n.session->next_deadline();
  if (!deadline || (n.tick_at > now_ && n.tick_at <= *deadline)) return;
  n.tick_at = std::max(*deadline, now_ + microseconds(1));
  at(n.tick_at - now_, [this, &n] {
    deliver(n, [this, &n] {
      call(n, [this](StageSession& s, SessionActions& out) { s.tick(now_, out); });
    });
  });
}

void Simulation::act(Node& n, SessionActions& actions) {
  std::set<ReplicaId> told;
  bool stepped = false;
  for (const SessionAction& action : actions) {
    if (const auto* gossip = std::get_if<SendGossip>(&action)) {
      if (!told.insert(gossip->to).second) violate(n, "told one peer twice");
    }
    stepped = stepped || std::holds_alternative<TakeStep>(action);
    std::visit([&](const auto& one) { on(n, one); }, action);
  }
  if (!stepped) return;
  for (const auto& [id, task] : n.tasks) {
    const Microbatch& m = task.microbatch;
    const bool over = m.round == n.held + 1 && m.step < n.session->step();
    if (over) violate(n, "keeps " + text(m) + " of a step that is over");
  }
}

void Simulation::pump(Node& n) {
  if (!n.alive || n.frozen || n.computing) return;
  const auto compute = n.session->next();
  if (!compute) return;
  n.computing = true;
  const auto known = n.tasks.find(compute->task);
  if (known == n.tasks.end()) {
    const bool drawn = n.stage == 0 && compute->microbatch.router == n.id &&
                       compute->kind != ComputeKind::kBackward;
    if (!drawn || n.forgotten.contains(compute->task)) return violate(n, "computes a dead task");
    n.tasks[compute->task] = {.microbatch = compute->microbatch};
  }
  check_order(n, *compute);
  check_weights(n, *compute);
  KnownTask& task = n.tasks[compute->task];
  task.queued = false;
  const bool adds = (compute->add || options_.always_add) &&
                    compute->kind != ComputeKind::kForward &&
                    compute->microbatch.kind == PassKind::kTrain;
  const std::int64_t early = compute->microbatch.step - n.session->step();
  ahead += early == 1;
  const bool allowed = early == 0 || (early == 1 && two_versions());
  if (!allowed || compute->microbatch.round != n.held + 1) {
    violate(n, "computes " + text(compute->microbatch) + " of another step");
  }
  if (adds && !n.added.insert(compute->microbatch).second) {
    violate(n, "adds " + text(compute->microbatch) + " twice");
  }
  if (adds) ++adds_[compute->microbatch][n.stage];
  const double mean = compute->kind == ComputeKind::kBackward ? .02 : .01;
  const Duration service = seconds_f(mean / n.speed * (.5 + prng_.unit()));
  const Compute what = *compute;
  at(service, [this, &n, what, service] {
    deliver(n, [this, &n, what, service] { finish(n, what, service); });
  });
}

void Simulation::finish(Node& n, const Compute& compute, Duration service) {
  n.computing = false;
  KnownTask& task = n.tasks[compute.task];
  task.output = next_instance_++;
  const bool last = compute.kind == ComputeKind::kLast;
  const bool adds = (compute.add || options_.always_add) && compute.kind != ComputeKind::kForward &&
                    compute.microbatch.kind == PassKind::kTrain;
  if (adds) n.step_tokens[compute.microbatch.step] += kTokens;
  if (n.stage == 0 && compute.kind != ComputeKind::kForward &&
      compute.microbatch.kind == PassKind::kTrain) {
    ++n.answered;
    n.loss += loss_of(compute.microbatch);
  }
  call(n, [&](StageSession& s, SessionActions& out) {
    s.computed(now_, service, last ? loss_of(compute.microbatch) : 0, last ? kTokens : Tokens(),
               out);
  });
}

// Forward and backward see the same weights; they lack at most the steps that are open.
void Simulation::check_weights(Node& n, const Compute& compute) {
  const std::int64_t used = weights_of(n, compute.microbatch.step);
  if (n.newest - used > two_versions()) violate(n, "computes with weights that are too old");
  std::int64_t& before = n.tasks.at(compute.task).weights;
  if (compute.kind == ComputeKind::kBackward && before != used) {
    violate(n, "goes back over other weights than forward");
  }
  if (compute.microbatch.kind != PassKind::kTrain && used != n.newest) {
    violate(n, "evaluates weights that are not the newest");
  }
  before = used;
}

void Simulation::check_order(const Node& n, const Compute& compute) {
  const auto key = [](const Microbatch& m, bool backward) {
    return std::tuple(m.step, m.kind == PassKind::kTrain, m.index, !backward);
  };
  const auto mine = key(compute.microbatch, compute.kind == ComputeKind::kBackward);
  for (const auto& [id, other] : n.tasks) {
    const Microbatch& m = other.microbatch;
    if (id == compute.task || !other.queued || m.round != compute.microbatch.round) continue;
    if (m.kind == PassKind::kTrain && !n.session->training()) continue;
    if (key(m, other.backward) < mine) violate(n, "computes a younger pass first");
  }
}

void Simulation::check_credit(Node& n, ReplicaId to) {
  double total = 0, part = 0;
  int senders = 0, receivers = 0;
  for (const PipelineMember& m : n.view.members) {
    senders += m.stage == n.stage;
    if (m.stage != n.stage + 1) continue;
    ++receivers;
    total += m.speed;
    if (m.replica == to) part = m.speed;
  }
  const double members = static_cast<double>(n.view.members.size());
  const bool narrow = options_.schedule == PipelineSchedule::kOneForwardOneBackward;
  const double window = narrow ? members : 8 * members;
  const double share = std::max(1. / receivers, total > 0 ? part / total : 0);
  if (++n.owed[to] > std::max(2., std::ceil(2 * window / senders * share))) {
    violate(n, "sends more than the credits of " + to_string(to));
  }
}

// ---- actions

void Simulation::on(Node& n, const SendForward& send_forward) {
  const auto task = n.tasks.find(send_forward.task);
  if (task == n.tasks.end()) return violate(n, "sends a dead task");
  check_credit(n, send_forward.to);
  send(n.id, send_forward.to, Forwarded{send_forward.header, task->second.output});
}

void Simulation::on(Node& n, const SendBackward& answer) {
  const auto task = n.tasks.find(answer.task);
  if (task == n.tasks.end()) return violate(n, "answers a dead task");
  send(n.id, answer.to, Answered{answer.header, task->second.input});
}

void Simulation::on(Node& n, const SendCancel& cancel) {
  --n.owed[cancel.to];
  send(n.id, cancel.to, Cancelled{cancel.header});
}

void Simulation::on(Node& n, const SendRefusal& refusal) {
  send(n.id, refusal.to, Refused{refusal.header, refusal.reason});
}

void Simulation::on(Node& n, const SendGossip& gossip) {
  ++gossips;
  ProgressGossip told = gossip.gossip;
  if (prng_.chance(options_.early_gossip)) {
    for (RouterProgress& p : told.routers) ++p.done_through;
  }
  send(n.id, gossip.to, told);
}

void Simulation::on(Node& n, const Forget& forget) {
  if (!n.forgotten.insert(forget.task).second) violate(n, "forgets a task twice");
  n.tasks.erase(forget.task);
}

void Simulation::on(Node& n, const TakeStep& taken) {
  if (n.computing) violate(n, "takes a step while it computes");
  if (taken.tokens != n.step_tokens[taken.step]) violate(n, "step tokens differ");
  n.added_tokens += taken.tokens;
  n.step_tokens.erase(taken.step);
  if (!n.step_tokens.empty() && n.step_tokens.begin()->first < taken.step) {
    violate(n, "takes step " + std::to_string(taken.step) + " before an older one");
  }
  std::erase_if(n.added, [&](const Microbatch& m) { return m.step <= taken.step; });
  weights_of(n, taken.step) = ++n.newest;
  if (taken.drained) n.weights[0] = n.weights[1] = n.newest;
  trace_.add(n.id.n).add(taken.step).add(taken.tokens.n).add(now_.ns);
}

void Simulation::on(Node& n, const ReachBoundary& reached) {
  const bool same = reached.drawn == n.answered && reached.loss_sum == n.loss;
  const bool dropped = options_.stop > 0 && reached.drawn < n.answered;  // the one under way
  if ((!same && !dropped) || reached.drawn_tokens != kTokens * reached.drawn) {
    violate(n, "reports other microbatches than it got answered");
  }
  if (static_cast<std::int64_t>(n.came_back.size()) != reached.drawn) {
    violate(n, "reports other microbatches than it said were through");
  }
  n.came_back.clear();
  if (reached.tokens != n.added_tokens) violate(n, "reports other tokens than it added");
  if (!n.step_tokens.empty()) violate(n, "leaves gradients behind at the boundary");
  n.weights[0] = n.weights[1] = n.newest;
  n.answered = 0;
  n.loss = 0;
  n.added_tokens = {};
  n.boundary = reached.step;
  n.drawn = reached.drawn;
  if (n.session->training()) violate(n, "trains at the boundary");
  trace_.add(n.id.n).add(reached.step).add(reached.drawn).add(n.session->digest());
  at(random(options_.latency_max), [this] { maybe_close_round(); });
}

void Simulation::on(Node& n, const CameBack& came) {
  const Microbatch& m = came.microbatch;
  const bool own = m.router == n.id && m.kind == PassKind::kTrain;
  if (!own || !n.came_back.insert({m.step, m.index}).second) {
    violate(n, "says of a microbatch a second time that it is through");
  }
}

void Simulation::on(Node& n, const EvaluationDone& done) {
  --n.evaluations;
  ++evaluated;
  std::int64_t passes = 0;
  double loss = 0;
  for (std::int64_t i = done.slice.slice; i < done.slice.batches; i += done.slice.slices) {
    for (std::int64_t j = 0; j < 2; ++j, ++passes) loss += static_cast<double>(i * 2 + j + 1);
  }
  if (done.tokens.n == 0 && passes > 0) ++void_evaluations;
  const bool whole = done.tokens == kTokens * passes && done.loss_sum == loss;
  if (!whole && done.tokens.n != 0) violate(n, "an evaluation lacks passes");
}

void Simulation::on(Node& n, const LogitsCame&) {
  ++logits;
  at({}, [this, &n] { deliver(n, [this, &n] { go_on_sampling(n); }); });
}

void Simulation::go_on_sampling(Node& n) {
  const bool more = prng_.chance(.7);
  call(n, [this, more](StageSession& s, SessionActions& out) {
    if (more) {
      s.logits(now_, out);
    } else {
      s.sampled(now_, out);
    }
  });
}

void Simulation::on(Node& n, const Dial& dial) {
  n.dials.clear();
  for (const PipelineMember& m : dial.peers) n.dials.insert(m.replica);
  for (const ReplicaId id : n.dials) redial(stream(n.id, id));
  for (auto& [ends, s] : streams_) {
    if (s.dialer == n.id && s.up && !n.dials.contains(s.acceptor)) snap(s, milliseconds(5));
  }
}

void Simulation::on(Node&, const CutOff&) { ++cut_offs; }

void Simulation::on(Node& n, const GiveUp& give_up) { violate(n, "gives up: " + give_up.detail); }

}  // namespace shoal::swarm
