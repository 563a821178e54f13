// How a simulated replica comes to the state of its peers, and what it gives to those that join:
// the product's JoinSession and StateSource (outer_opt/core/joining) over the simulated network.
#include <algorithm>
#include <map>
#include <utility>

#include "replica/core/join_target.h"
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {
namespace {

using outer_opt::JoinSession;
using outer_opt::StateAnswer;
using outer_opt::StateAsk;

constexpr Duration kSoonest = microseconds(200);  // two looks of one session

LoadProgress progress_of(ReplicaId id, const JoinSession& session) {
  return {id, session.done(), session.total(), session.received(), session.per_round()};
}

ReplicaId another_source(const Assign& assign, ReplicaId than) {
  for (const PeerAddress& source : assign.sources) {
    if (source.replica != than) return source.replica;
  }
  return than;
}

}  // namespace

struct Trainer::Joining {
  std::unique_ptr<replica::OuterAlgorithm> algorithm;
  replica::OuterState state;
  outer_opt::MomentsCopy moments;
  std::unique_ptr<replica::OuterStateTarget> target;
  std::optional<JoinSession> session;
  std::map<JoinSession::AskId, std::string> asked;  // at which address
  bool level = false;
  bool doubted = false;  // it has not been sure of its state since
};

void Trainer::join() {
  Replica& r = *replica_;
  const Assign& assign = r.assign;
  const auto values = static_cast<std::int64_t>(value_count());
  r.joining = std::make_shared<Joining>();
  Joining& joining = *r.joining;
  joining.algorithm = replica::make_outer_algorithm(assign.spec, {{0, values, true}});
  joining.state = joining.algorithm->zero_state(values);
  joining.target = std::make_unique<replica::OuterStateTarget>(*joining.algorithm, joining.state,
                                                               joining.moments);
  const auto fragments = cut_fragments(sizes_of(values), assign.spec.sync.fragments);
  joining.session.emplace(assign.source.key,
                          join_shape(*joining.algorithm, joining.state, fragments, 0),
                          assign.sources, *joining.target, join_options(sim_.options, values),
                          prng_.next(), sim_.now());
  go_on_joining();
}

outer_opt::JoinOptions join_options(const SimOptions& sim, std::int64_t values) {
  outer_opt::JoinOptions options;
  options.run_values = (values + kRunsOfState - 1) / kRunsOfState;
  options.follow_runs = 2;
  options.silent = sim.keepalive * 2;
  options.silent_alone = sim.keepalive * 4;
  options.broken = sim.keepalive * 4;
  return options;
}

void Trainer::join_again(const Assign& assign) {
  Replica& r = *replica_;
  if (!r.joining) return;
  r.assign.source = assign.source;
  r.assign.record = assign.record;
  r.assign.sources = assign.sources;
  JoinSession& session = *r.joining->session;
  session.set_sources(assign.sources, sim_.now());
  session.aim(assign.source.key.round);
  r.joining->level = false;
  go_on_joining();
}

void Trainer::go_on_joining() {
  const auto joining = replica_->joining;
  if (joining->level) return;
  const JoinSession::Next next = joining->session->next(sim_.now());
  for (const JoinSession::AskId id : next.cancel) joining->asked.erase(id);
  for (const JoinSession::Ask& ask : next.send) ask_state(ask);
  if (joining->session->state() == JoinSession::State::kGivenUp) {
    return fail(ReplicaFailure::kSourceLost, joining->session->error().message);
  }
  if (joining->session->state() == JoinSession::State::kLevel) return be_level();
  const auto look = joining->session->wakeup_at(sim_.now());
  if (!look) return;
  process_.after(std::max(*look - sim_.now(), kSoonest), [this, joining] {
    if (replica_ && replica_->joining == joining) go_on_joining();
  });
}

void Trainer::ask_state(const JoinSession::Ask& ask) {
  const auto joining = replica_->joining;
  joining->asked[ask.id] = ask.source.address;
  sim_.observe(&Checker::state_moved, StateMoved{replica_->id, ask.source.address});
  peers_.watch(*this, ask.source.address);
  const Asker asker{replica_->id, [joining, id = ask.id](Trainer& here, const StateAnswer& answer) {
                      here.got_answer(joining, id, answer);
                    }};
  peers_.call(
      *this, ask.source.address,
      [this, ask, asker](PeerEnd& end) {
        static_cast<Trainer&>(end).give_state(ask, *this, asker);
      },
      [this, joining, id = ask.id] { ask_failed(joining, id); });
}

void Trainer::ask_failed(const std::shared_ptr<Joining>& joining, JoinSession::AskId id) {
  if (!replica_ || replica_->joining != joining || joining->asked.erase(id) == 0) return;
  joining->session->failed(id, {Code::kUnavailable, "the source cannot be reached", "", ""},
                           sim_.now());
  go_on_joining();
}

void Trainer::source_lost(const std::string& address) {
  const auto joining = replica_->joining;
  if (!joining) return;
  std::vector<JoinSession::AskId> lost;
  for (const auto& [id, at] : joining->asked) {
    if (at == address) lost.push_back(id);
  }
  for (const JoinSession::AskId id : lost) {
    if (replica_) ask_failed(joining, id);
  }
}

// At the source.
void Trainer::give_state(const JoinSession::Ask& ask, PeerEnd& joiner, const Asker& asker) {
  StateAnswer answer;
  answer.refusal = outer_opt::StateRefusal::kNotHere;
  sim_.observe(&Checker::state_moved,
               StateMoved{static_cast<Trainer&>(joiner).replica(), address()});
  const auto copied =
      replica_ && replica_->copies ? replica_->copies->answer(ask.ask) : std::nullopt;
  if (copied) {
    answer = *copied;
  } else if (replica_ && replica_->loop) {
    Replica& r = *replica_;
    answer = r.shelf.answer(ask.ask, sim_.now()).value_or(answer);
    const bool state = ask.ask.kind == outer_opt::AskKind::kState && !answer.values.empty();
    if (state && !r.history.empty() && sim_.misbehave(Bug::kStaleSource)) {
      outer_opt::StateSource old;
      const auto of = std::make_shared<const replica::OuterState>(r.history.front().outer);
      old.publish(r.id, replica::held_state(r.loop->held(), of));
      answer.values = old.answer(ask.ask, sim_.now())->values;
    }
    if (state) maybe_flip(answer.values, asker.id);
    // What it gives is not what was committed, until somebody compares digests.
    if (!answer.values.empty() && sim_.tainted.contains(r.id)) sim_.taint(asker.id);
  }
  peers_.hang_up(*this, joiner.address(),
                 [asker, answer](PeerEnd& end) { asker.got(static_cast<Trainer&>(end), answer); });
}

void Trainer::got_answer(const std::shared_ptr<Joining>& joining, JoinSession::AskId id,
                         const StateAnswer& answer) {
  process_.after(owner_.load_time() / kCallsPerLoad, [this, joining, id, answer] {
    if (!replica_ || replica_->joining != joining) return;
    const auto asked = joining->asked.extract(id);
    if (asked.empty()) return;
    sim_.observe(&Checker::state_moved, StateMoved{replica_->id, asked.mapped()});
    const Bytes before = joining->session->done();
    joining->session->answered(id, answer, sim_.now());
    const Bytes done = joining->session->done();
    if (done != before) say(progress_of(replica_->id, *joining->session));
    if (answer.rounds.size() > 0) ++sim_.transitions["a joiner's runs follow"];
    go_on_joining();
  });
}

void Trainer::be_level() {
  Replica& r = *replica_;
  r.joining->level = true;
  RoundKey held = r.assign.source.key;
  held.round = r.joining->session->round();
  replica::StateDigests digests = replica::digests_of(r.joining->state);
  const StateSource& source = r.assign.source;
  const bool same = (!source.anchor || source.anchor == digests.anchor) &&
                    (!source.momentum || source.momentum == digests.momentum);
  if (sim_.bug == Bug::kStaleSource && source.anchor) {
    digests = {source.anchor, source.momentum};  // it does not look
  } else if (held == source.key && !same) {
    if (!r.joining->session->doubt(sim_.now())) {
      return fail(ReplicaFailure::kDigestMismatch, "the state is not the one announced");
    }
    ++sim_.transitions["a joiner doubts its state"];
    r.joining->level = false;
    r.joining->doubted = true;
    return go_on_joining();
  } else if (held == source.key && source.anchor) {
    const bool common = r.assign.spec.sync.algorithm != SyncAlgorithm::kAsync;
    if (std::exchange(r.joining->doubted, false) && common) sim_.tainted.erase(r.id);  // mended
    for (ReplicaId liar : r.joining->session->found_liars()) {
      ++sim_.transitions["a joiner names a source"];
      if (sim_.misbehave(Bug::kBlamesAnother)) liar = another_source(r.assign, liar);
      r.refused.push_back(liar);
    }
  }
  read_data();
  say_loaded(held, digests);
}

// The first command says that the job counts on what it holds.
void Trainer::enter() {
  if (!replica_ || !replica_->joining || !replica_->joining->level) return;
  const auto joining = std::move(replica_->joining);
  RoundKey held = replica_->assign.source.key;
  held.round = joining->session->round();
  hold({held, std::move(joining->state)});
}

// Joiners may follow from what is committed now on.
void Trainer::offer_state() {
  Replica& r = *replica_;
  r.shelf.publish(r.id, replica::held_state(r.loop->held(), r.loop->shared_state()));
}

void Trainer::keep_averages() {
  replica_->loop->watch_averages({[this] { return replica_->shelf.keeps_averages(sim_.now()); },
                                  [this](const replica::OuterLoop::Averaged& a) {
                                    replica_->shelf.averages().add(a.terms, a.fragment, a.codec,
                                                                   a.owned, a.average);
                                  }});
}

}  // namespace shoal::sim
