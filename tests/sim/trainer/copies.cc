// See copies.h.
#include "tests/sim/trainer/copies.h"

#include <algorithm>
#include <utility>

#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

using outer_opt::JoinSession;
using outer_opt::StateAnswer;
using outer_opt::StateAsk;
using replica::CopyState;
using replica::StateCopy;

namespace {

constexpr Duration kAgainAfter = seconds(2);      // a copy that failed
constexpr Duration kSoonest = microseconds(200);  // two looks of one session

}  // namespace

// In the trainer's process, and while its replica keeps copies.
void Copies::after(Duration wait, std::function<void()> work) {
  trainer_.process_.after(wait, [self = shared_from_this(), work = std::move(work)] {
    const auto& replica = self->trainer_.replica_;
    if (replica && replica->copies == self) work();
  });
}

bool Copies::is_kept(const One& copying) const {
  const auto found = copies_.find(copying->order.copy);
  return found != copies_.end() && found->second == copying;
}

void Copies::keep(const KeepCopies& orders) {
  auto before = std::exchange(copies_, {});
  for (const StageCopy& order : orders.copies) {
    One copying = std::move(before[order.copy]);
    if (!copying || copying->order.key.epoch != order.key.epoch) {
      copying = std::make_shared<Copying>();
    }
    copying->order = order;
    copies_[order.copy] = std::move(copying);
  }
  const auto all = copies_;
  for (const auto& [id, copying] : all) follow(copying);
  say_what_is_held();
}

void Copies::follow(const One& copying) {
  const StageCopy& order = copying->order;
  if (order.sources.empty() || !is_kept(copying)) return;  // what is held is all there is
  const replica::CopiedRound round{order.key, {order.anchor, order.momentum}, order.sources};
  const Instant now = trainer_.sim_.now();
  if (copying->state) {
    copying->state->follow(round, now);
  } else {
    const JobSpec& spec = trainer_.replica_->assign.spec;
    replica::CopiedStage stage{
        order.copy, spec, order.value_count,
        cut_fragments(trainer_.sizes_of(order.value_count), spec.sync.fragments)};
    copying->state = std::make_unique<StateCopy>(
        std::move(stage), round, join_options(trainer_.sim_.options, order.value_count),
        trainer_.prng_.next(), now);
  }
  go_on(copying);
}

void Copies::go_on(const One& copying) {
  if (!is_kept(copying) || !copying->state) return;
  Sim& sim = trainer_.sim_;
  const auto before = copying->state->held();
  JoinSession& session = copying->state->session();
  const JoinSession::Next next = session.next(sim.now());
  for (const JoinSession::AskId id : next.cancel) copying->asked.erase(id);
  for (const JoinSession::Ask& wanted : next.send) ask(copying, wanted);
  const CopyState now = copying->state->settle();
  if (now == CopyState::kFailed) return fail(copying);
  if (now == CopyState::kHeld && copying->state->held() != before) {
    ++sim.transitions["a copy holds a round"];
    sim.tainted.erase(copying->order.copy);
    say_what_is_held();
  }
  const auto look = session.wakeup_at(sim.now());
  if (now != CopyState::kComing || !look) return;
  after(std::max(*look - sim.now(), kSoonest), [this, copying] { go_on(copying); });
}

// It starts over, as another one: answers to what it has asked are not for that.
void Copies::fail(const One& copying) {
  ++trainer_.sim_.transitions["a copy fails"];
  const auto again = std::make_shared<Copying>();
  again->order = copying->order;
  copies_[again->order.copy] = again;
  say_what_is_held();
  after(kAgainAfter, [this, again] {
    if (!again->state) follow(again);
  });
}

void Copies::ask(const One& copying, const JoinSession::Ask& ask) {
  copying->asked[ask.id] = ask.source.address;
  trainer_.peers_.watch(trainer_, ask.source.address);
  const auto self = shared_from_this();
  const Asker asker{copying->order.copy,
                    [self, copying, id = ask.id](Trainer&, const StateAnswer& answer) {
                      self->got(copying, id, answer);
                    }};
  trainer_.peers_.call(
      trainer_, ask.source.address,
      [self, ask, asker](PeerEnd& end) {
        static_cast<Trainer&>(end).give_state(ask, self->trainer_, asker);
      },
      [self, copying, id = ask.id] { self->ask_failed(copying, id); });
}

void Copies::ask_failed(const One& copying, JoinSession::AskId id) {
  if (!is_kept(copying) || copying->asked.erase(id) == 0 || !copying->state) return;
  copying->state->session().failed(id, {Code::kUnavailable, "the source cannot be reached", "", ""},
                                   trainer_.sim_.now());
  go_on(copying);
}

void Copies::got(const One& copying, JoinSession::AskId id, const StateAnswer& answer) {
  after(trainer_.owner_.load_time() / kCallsPerLoad, [this, copying, id, answer] {
    if (!is_kept(copying) || copying->asked.erase(id) == 0 || !copying->state) return;
    if (!answer.rounds.empty()) ++trainer_.sim_.transitions["a copy follows"];
    copying->state->session().answered(id, answer, trainer_.sim_.now());
    go_on(copying);
  });
}

void Copies::source_lost(const std::string& address) {
  const auto all = copies_;
  for (const auto& [id, copying] : all) {
    std::vector<JoinSession::AskId> lost;
    for (const auto& [asked, at] : copying->asked) {
      if (at == address) lost.push_back(asked);
    }
    for (const JoinSession::AskId asked : lost) ask_failed(copying, asked);
  }
}

std::optional<StateAnswer> Copies::answer(const StateAsk& ask) {
  const auto found = copies_.find(ask.replica);
  if (found == copies_.end() || !found->second->state) return std::nullopt;
  ++trainer_.sim_.transitions["a copy is asked"];
  return found->second->state->answer(ask, trainer_.sim_.now());
}

std::vector<CopyHeld> Copies::held() const {
  std::vector<CopyHeld> all;
  for (const auto& [id, copying] : copies_) {
    if (!copying->state || !copying->state->held()) continue;
    all.push_back({id, copying->order.stage, *copying->state->held()});
  }
  return all;
}

void Copies::say_what_is_held() {
  CopiesHeld said;
  for (const auto& [id, copying] : copies_) {
    const StageCopy& order = copying->order;
    if (!copying->state || copying->state->held() != order.key) continue;
    said.copies.push_back({id, order.key, order.anchor, order.momentum});
  }
  trainer_.say(FromReplica<CopiesHeld>{trainer_.replica_->id, std::move(said)});
}

}  // namespace shoal::sim
