// How a simulated trainer drives its ReduceSession over the peer network: the same loop as the
// real driver (outer_opt/transport), with frames as values and virtual time.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

using namespace outer_opt;

namespace {
constexpr std::int64_t kFrameValues = 8;  // several chunks even in a small part; not with sparse2
constexpr std::int64_t kSparseFrameValues = kSparseChunk;
constexpr std::size_t kEarlyMax = 512;

int index_of(const ReducePlan& plan, ReplicaId replica) {
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    if (plan.members[i].replica == replica) return static_cast<int>(i);
  }
  return -1;
}
}  // namespace

void Trainer::start_reduce(const StartReduce& start) {
  Replica& r = *replica_;
  end_session(true);
  if (r.reducer) return open_session(start.plan, false);
  if (!start.plan.audited.empty()) return open_audit(start.plan, start.contributes);
  r.has_average = false;
  const replica::OuterLoop::Attempt attempt = r.loop->plan(start.plan, start.contributes);
  SHOAL_CHECK(attempt.mismatch.empty(), "a plan does not fit its replica");
  if (in_groups()) r.loop->forget_anchor();
  if (attempt.alone) return average_alone(start.plan, *attempt.alone);
  start.plan.owner_step ? stage_momentum(start.plan, start.contributes)
                        : open_session(start.plan, start.contributes);
}

// Without peers the average is what it holds.
void Trainer::average_alone(const ReducePlan& plan, const Digest& average) {
  Replica& r = *replica_;
  r.has_average = true;
  Session session;
  session.plan = plan;
  const std::span<const float> values = r.loop->average(plan);
  session.mine.assign(values.begin(), values.end());
  show_contribution(r.kept, session);
  sim_.observe(&Checker::averaged,
               Averaged{r.id, r.assign.stage, plan.key, plan.attempt, average, values});
  ++sim_.transitions["reduce alone"];
  Actions actions;
  r.participant->reduced(plan.attempt, average, {}, {}, actions);
  act(actions);
}

const Trainer::Kept& Trainer::what_to_give(bool contributes) {
  const Replica& r = *replica_;
  const bool stale = contributes && !r.kept_before.values.empty() && sim_.bug == Bug::kStaleBase &&
                     prng_.chance(0.1) && sim_.misbehave(sim_.bug);
  return stale ? r.kept_before : r.kept;
}

std::shared_ptr<Trainer::Session> Trainer::make_inputs(const ReducePlan& plan, bool contributes) {
  auto session = std::make_shared<Session>();
  session->plan = plan;
  session->started = sim_.now();
  if (replica_->reducer) return session;
  const Kept& kept = what_to_give(contributes);
  const ReduceInput input = replica_->loop->input(plan, contributes);
  session->source = input.pseudo_gradient;
  session->mine = session->as_read = input.pseudo_gradient.copy();
  if (&kept != &replica_->kept) session->mine = kept.values;
  exaggerate(*session);
  session->encoded.assign(input.encoded.begin(), input.encoded.end());
  session->momentum.assign(input.momentum.begin(), input.momentum.end());
  session->clip_center.assign(input.clip_center.begin(), input.clip_center.end());
  show_contribution(kept, *session);
  return session;
}

// Whether this replica lies in this round, and now for the first time: that is shown. Only where
// owners of parts could see it, or the other averages.
bool Trainer::lies(Fault how, const ReducePlan& plan) {
  const bool owned =
      plan.topology == Topology::kButterfly || plan.topology == Topology::kParamServer;
  const bool watched = owned && plan.members.size() > 1;
  if (!watched || plan.owner_step || in_groups()) return false;
  const Lie::Told told = lie_.tell(how, plan);
  if (told != Lie::Told::kBegins) return told == Lie::Told::kGoesOn;
  sim_.strike(how, device_name());
  sim_.observe(&Checker::lied, Lied{replica_->id, plan.key, how});
  return true;
}

void Trainer::exaggerate(Session& session) {
  if (session.mine.empty() || !lies(Fault::kFalseNorm, session.plan)) return;
  for (float& value : session.mine) value *= -10;
}

// The plan that the machine follows: who averages falsely has clip factors of its own. The planted
// bug forgets the last weight.
ReducePlan Trainer::plan_to_follow(ReducePlan plan) {
  const ReduceMember& own = plan.members[static_cast<std::size_t>(index_of(plan, replica_->id))];
  if (own.part_count > 0 && !own.reducer && lies(Fault::kFalseAverage, plan)) {
    for (ReduceMember& member : plan.members) member.clip_factor /= 32;
  }
  if (sim_.bug != Bug::kWrongAverage) return plan;
  const auto weighted = std::count_if(plan.members.begin(), plan.members.end(),
                                      [](const ReduceMember& m) { return m.weight > 0; });
  if (weighted >= 2 && plan.members.back().weight > 0 && sim_.misbehave(sim_.bug)) {
    plan.members.back().weight = 0;
  }
  return plan;
}

Status Trainer::make_machine(Session& session, const ReducePlan& plan) {
  const ReplicaId me = replica_->id;
  const ReduceMember& own = plan.members[static_cast<std::size_t>(index_of(plan, me))];
  if (own.reducer) session.part.resize(static_cast<std::size_t>(own.part_count));
  const bool sparse = plan.codec == CodecKind::kSparse2;
  const std::int64_t frame_values = sparse ? kSparseFrameValues : kFrameValues;
  const auto own_average = [&] {
    return plan.audited.empty() ? replica_->loop->room(plan, frame_values)
                                : outer_opt::AverageRoom(replica_->loop->audit_average());
  };
  auto machine =
      make_session(plan, me, frame_values,
                   {session.mine, session.encoded, session.momentum, session.clip_center},
                   own.reducer ? outer_opt::AverageRoom(session.part) : own_average());
  if (!machine.ok()) return machine.error();
  session.machine = std::move(machine).value();
  session.inbox.resize(plan.members.size());
  return {};
}

void Trainer::open_session(const ReducePlan& told, bool contributes) {
  const auto session = make_inputs(told, contributes);
  follow(session, plan_to_follow(session->plan));
}

// Audits frames of an average that already exists.
void Trainer::open_audit(const ReducePlan& told, bool contributes) {
  if (contributes && !replica_->loop->contribution_is_intact(told)) {
    return fail(ReplicaFailure::kDigestMismatch, "its memory changed after the boundary");
  }
  const auto session = std::make_shared<Session>();
  session->plan = told;
  session->started = sim_.now();
  const ReduceInput input = replica_->loop->audit_input(told, contributes);
  session->mine = input.pseudo_gradient.copy();
  exaggerate(*session);
  follow(session, plan_to_follow(told));
}

void Trainer::follow(const std::shared_ptr<Session>& session, const ReducePlan& plan) {
  if (const Status made = make_machine(*session, plan); !made.ok()) {
    return tell_failed(
        {plan.key, plan.attempt, {}, ReduceFailure::kPlanMismatch, made.error().message});
  }
  replica_->session = session;
  for (const ReduceMember& member : plan.members) {
    if (member.replica != replica_->id) peers_.watch(*this, member.address);
  }
  take_early_frames(*session);
  // Later, so that the actions after this one are performed first.
  process_.after(Duration{}, [this, session, left = left_early_] {
    for (const auto& [key, attempt, peer] : left) peer_left(key, attempt, peer);
    pump(session);
  });
  process_.after(plan.time_limit, [this, session] { end_of_time(session); });
}

void Trainer::take_early_frames(Session& session) {
  for (PeerFrame& frame : early_) {
    const bool ours = frame.key == session.plan.key && frame.attempt == session.plan.attempt;
    const int peer = ours ? index_of(session.plan, frame.from) : -1;
    if (peer >= 0) session.inbox[static_cast<std::size_t>(peer)].push_back(frame);
  }
}

void Trainer::end_of_time(const std::shared_ptr<Session>& session) {
  ReduceSession& machine = *session->machine;
  if (session->ended || machine.state() != SessionState::kRunning) return;
  int missing = -1;
  for (int i = 0; i < machine.members() && missing < 0; ++i) {
    const bool all = machine.received_all(i, FrameKind::kContribution) &&
                     machine.received_all(i, FrameKind::kAverage);
    if (!all) missing = i;
  }
  machine.fail({ReduceFailure::kTimeLimit, missing, "the time limit is over"});
  pump(session);
}

void Trainer::show_contribution(const Kept& kept, const Session& session) {
  const Replica& r = *replica_;
  const std::vector<float> pseudo_gradient =
      session.mine.empty() ? std::vector<float>() : kept.values;
  sim_.observe(&Checker::contributed,
               Contributed{r.id, r.assign.stage, session.plan, kept.base, kept.base_anchor,
                           pseudo_gradient, r.assign.spec, session.encoded, session.momentum,
                           session.mine, r.loop->state().anchor});
}

void Trainer::pump(const std::shared_ptr<Session>& session) {
  if (session->ended || !replica_ || replica_->session != session) return;
  while (session->machine->state() == SessionState::kRunning) {
    const bool worked = work_locally(*session);
    const bool took = take_inbox(*session);
    const bool sent = send_frames(*session);
    if (!worked && !took && !sent) return;
  }
  const bool done = session->machine->state() == SessionState::kDone;
  if (done) return replica_->reducer ? reducer_done(*session) : reduce_done(*session);
  reduce_broken(*session, session->machine->failure());
}

bool Trainer::work_locally(Session& session) {
  bool any = false;
  while (const auto work = session.machine->local_work()) {
    session.machine->finish(*work, session.machine->run(*work, {}));
    any = true;
  }
  return any;
}

bool Trainer::take_inbox(Session& session) {
  bool any = false;
  for (std::size_t peer = 0; peer < session.inbox.size(); ++peer) {
    auto& frames = session.inbox[peer];
    while (!frames.empty()) {
      const auto work = session.machine->admit(static_cast<int>(peer), frames.front().header);
      if (session.machine->state() == SessionState::kBroken) return true;
      if (!work) break;
      const std::array<std::span<const std::byte>, 1> pieces{frames.front().payload};
      session.machine->finish(*work, session.machine->run(*work, pieces));
      session.received += static_cast<std::int64_t>(frames.front().payload.size());
      frames.pop_front();
      any = true;
      work_locally(session);
    }
  }
  return any;
}

bool Trainer::send_frames(Session& session) {
  bool any = false;
  ReduceSession& machine = *session.machine;
  for (int peer = 0; peer < machine.members(); ++peer) {
    if (peer == machine.self()) continue;
    for (const FrameKind kind : {FrameKind::kContribution, FrameKind::kAverage}) {
      while (const auto ref = machine.next_frame(peer, kind)) {
        PeerFrame frame{replica_->id, session.plan.key, session.plan.attempt, {}, {}};
        const auto resident = machine.resident(*ref);
        frame.payload.assign(resident.begin(), resident.end());
        if (resident.empty()) {
          frame.payload.resize(machine.payload_size(*ref));
          machine.encode(*ref, frame.payload);
        }
        frame.header = machine.header(*ref, frame.payload);
        session.sent += static_cast<std::int64_t>(frame.payload.size());
        peers_.send(*this, session.plan.members[static_cast<std::size_t>(peer)].address, frame);
        any = true;
      }
    }
  }
  return any;
}

void Trainer::count_end(const Session& session, const char* end) {
  const bool mean = session.plan.aggregator == Aggregator::kMean;
  const char* name = mean ? to_string(session.plan.topology) : to_string(session.plan.aggregator);
  ++sim_.transitions[std::string("reduce ") + name + " " + end];
}

void Trainer::reduce_done(Session& session) {
  session.ended = true;  // all frames are with the network
  if (!session.plan.audited.empty()) return audit_done(session);
  count_end(session, "done");
  Replica& r = *replica_;
  SHOAL_CHECK(!r.loop->memory_is_intact() || session.source.copy() == session.as_read,
              "the contribution changed while it was reduced");
  const Digest digest = session.machine->digest();
  r.has_average = true;
  r.loop->reduced();
  r.loop->settle_early({session.mine, session.encoded});
  std::vector<float> average(static_cast<std::size_t>(session.plan.value_count));
  r.loop->vectors().read_average(0, average);
  sim_.observe(&Checker::averaged, Averaged{r.id, r.assign.stage, session.plan.key,
                                            session.plan.attempt, digest, average});
  const ReduceStats stats{Bytes(session.sent), Bytes(session.received),
                          (sim_.now() - session.started).seconds()};
  Actions actions;
  r.participant->reduced(session.plan.attempt, digest, stats, seen(session), actions);
  act(actions);
}

void Trainer::audit_done(const Session& session) {
  PartSeen seen = session.machine->seen();
  seen.disputed = replica_->loop->disputed(session.plan);
  ++sim_.transitions[seen.disputed.empty() ? "audit confirmed" : "audit disputed"];
  const ReduceStats stats{Bytes(session.sent), Bytes(session.received),
                          (sim_.now() - session.started).seconds()};
  Actions actions;
  replica_->participant->reduced(session.plan.attempt, {}, stats, seen, actions);
  act(actions);
}

PartSeen Trainer::seen(const Session& session) {
  PartSeen seen = session.machine->seen();
  sim_.observe(&Checker::excluded, Excluded{replica_->id, session.plan, seen.excluded});
  if (!seen.excluded.empty()) ++sim_.transitions["reduce member excluded"];
  return seen;
}

void Trainer::reducer_done(Session& session) {
  session.ended = true;
  ++sim_.transitions["reduce reducer done"];
  const ReduceStats stats{Bytes(session.sent), Bytes(session.received),
                          (sim_.now() - session.started).seconds()};
  const ReducePlan plan = session.plan;
  const PartSeen without = seen(session);
  replica_->session.reset();  // nothing of it is needed any more
  Actions actions;
  replica_->reducer->reduced(plan.key, plan.attempt, stats, without, actions);
  act(actions);
}

void Trainer::tell_failed(const ReduceFailed& failure) {
  Actions actions;
  if (replica_->reducer) {
    replica_->reducer->reduce_failed(failure, actions);
  } else {
    replica_->participant->reduce_failed(failure, actions);
  }
  act(actions);
}

void Trainer::reduce_broken(Session& session, const SessionFailure& failure) {
  const ReplicaId lost = failure.peer < 0
                             ? ReplicaId{}
                             : session.plan.members[static_cast<std::size_t>(failure.peer)].replica;
  const ReduceFailed said{session.plan.key, session.plan.attempt, lost, failure.failure,
                          failure.detail};
  if (replica_->reducer) {
    ++sim_.transitions["reduce reducer broken"];
  } else {
    count_end(session, "broken");
  }
  end_session(true);
  tell_failed(said);
}

void Trainer::end_session(bool tell_peers) {
  if (replica_ && replica_->staging) replica_->staging->ended = true;
  if (!replica_ || !replica_->session) return;
  const std::shared_ptr<Session> session = replica_->session;
  replica_->session.reset();
  if (session->ended) return;
  session->ended = true;
  if (!tell_peers) return;
  for (const ReduceMember& member : session->plan.members) {
    if (member.replica == replica_->id) continue;
    peers_.hang_up(*this, member.address,
                   [key = session->plan.key, attempt = session->plan.attempt, me = replica_->id](
                       PeerEnd& end) { static_cast<Trainer&>(end).peer_left(key, attempt, me); });
  }
}

void Trainer::take_frame(const PeerFrame& frame) {
  const auto session = replica_ ? replica_->session : nullptr;
  const bool ours =
      session && session->plan.key == frame.key && session->plan.attempt == frame.attempt;
  if (!ours) {
    early_.push_back(frame);
    if (early_.size() > kEarlyMax) early_.pop_front();
    return;
  }
  const int peer = index_of(session->plan, frame.from);
  if (peer < 0) return;
  session->inbox[static_cast<std::size_t>(peer)].push_back(frame);
  pump(session);
}

void Trainer::peer_left(const RoundKey& key, std::int32_t attempt, ReplicaId peer) {
  const auto session = replica_ ? replica_->session : nullptr;
  if (!session || session->plan.key != key || session->plan.attempt != attempt) {
    left_early_.emplace_back(key, attempt, peer);
    if (left_early_.size() > kEarlyMax) left_early_.pop_front();
    return;
  }
  const int index = index_of(session->plan, peer);
  if (index < 0 || session->ended) return;
  session->machine->peer_lost(index, to_string(peer) + " ended its attempt");
  pump(session);
}

void Trainer::peer_lost(const std::string& address, const std::string& detail) {
  if (replica_) momentum_lost(address);
  if (const auto stage = replica_ ? replica_->stage : nullptr) stage->peer_lost(address);
  const auto session = replica_ ? replica_->session : nullptr;
  if (replica_) source_lost(address);
  if (replica_ && replica_->copies) replica_->copies->source_lost(address);
  if (!replica_) return;
  if (!session || session->ended) return;
  for (int i = 0; i < session->machine->members(); ++i) {
    if (i == session->machine->self()) continue;
    if (session->plan.members[static_cast<std::size_t>(i)].address == address) {
      session->machine->peer_lost(i, detail);
    }
  }
  pump(session);
}

}  // namespace shoal::sim
