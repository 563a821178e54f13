// What a simulated trainer does with the commands of its agent: loading, inner steps, evaluation
// and checkpoints. Its reduces are in trainer/reduce.cc, its outer steps in trainer/outer.cc.
#include "tests/sim/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "swarm/core/plan/cost_model.h"
#include "tests/sim/describe.h"
#include "tests/sim/trainer/stage_values.h"

namespace shoal::sim {

using namespace outer_opt;

namespace {

bool is_about(const ToTrainer& message, ReplicaId id) {
  return std::visit(
      [id](const auto& m) {
        if constexpr (requires { m.replica; }) return m.replica == id;
        return false;
      },
      message);
}

constexpr Duration kPipe = microseconds(200);

// In [-most, most), with all bits of a float's mantissa in use: sums depend on their order.
float any_value(std::uint64_t state, double most) {
  const double unit = static_cast<double>(split_mix(state) >> 11) * 0x1.0p-53;
  return static_cast<float>((2 * unit - 1) * most);
}

float initial_value(std::uint64_t seed, std::size_t i) { return any_value(mix_seed(seed, i), 1); }

// In bytes per second. One of four replicas has a line so slow that it may own no part of a reduce.
double line_of(ReplicaId replica) { return 1e6 * static_cast<double>(1 + replica.n % 4); }

// One of five probes reaches its peer, and is ended before it knows a rate.
LinkEstimate measured_line(std::uint64_t seed, RoundNumber round, ReplicaId from, ReplicaId to) {
  const std::uint64_t pair = mix_seed(mix_seed(seed, from.n), to.n);
  if (Prng(mix_seed(pair, static_cast<std::uint64_t>(round))).chance(0.2)) {
    return {.peer = to, .way = PeerWay::kDirect};
  }
  const double rate = std::min(line_of(from), line_of(to));
  return {to, milliseconds(10), rate, rate / 2, true};
}

struct BlockAnswer {
  std::optional<Duration> after;  // none: never
  BlockMeasured said;
};

// Most devices measure in a second. Some are late, some fail, and some never say anything.
BlockAnswer answer_to(const MeasureBlock& asked, Prng prng, int host) {
  BlockAnswer answer{Duration{prng.range(milliseconds(200).ns, milliseconds(1500).ns)},
                     {asked.device, digest_of(asked.shape), {}}};
  const double draw = prng.unit();
  if (draw < 0.1) return {std::nullopt, answer.said};
  if (draw < 0.25) answer.after = Duration{prng.range(seconds(2).ns, seconds(20).ns)};
  if (draw > 0.85) {
    answer.said.error = "simulated";
  } else {
    answer.said.times = {milliseconds(10) * (2 + host % 3), milliseconds(1), milliseconds(8)};
  }
  return answer;
}

}  // namespace

float update(std::uint64_t seed, std::int64_t sequence, std::size_t i) {
  return any_value(mix_seed(seed, static_cast<std::uint64_t>(sequence) * 131 + i), 0.03);
}

Trainer::Trainer(Sim& sim, PeerNetwork& peers, TrainerOwner& owner, int host, int slot)
    : sim_(sim),
      peers_(peers),
      owner_(owner),
      process_(sim.queue),
      line_(process_, owner),
      prng_(sim.prng_for(0x7a1 + static_cast<std::uint64_t>(host) * 64 +
                         static_cast<std::uint64_t>(slot))),
      host_(host) {
  id_.slot = slot;
  peers_.add(this);
}

std::string Trainer::device_name() const {
  return "host " + std::to_string(host_) + " trainer " + std::to_string(id_.slot);
}

std::string Trainer::address() const {
  return "host-" + std::to_string(host_) + ":" +
         std::to_string(10'000 * (id_.slot + 1) + static_cast<std::int64_t>(id_.generation));
}

std::optional<RoundKey> Trainer::held() const {
  if (!replica_ || !replica_->loop) return std::nullopt;
  return replica_->loop->held();
}

// ---- life

void Trainer::start(std::uint64_t generation) {
  SHOAL_CHECK(!process_.alive());
  id_.generation = generation;
  early_.clear();
  left_early_.clear();
  poisoned_ = stopping_ = flip_transfer_ = false;
  lie_.end();
  process_.start();
  line_.begin(id_, ready(), sim_.options.trainer_start);
}

TrainerReady Trainer::ready() const {
  TrainerReady ready;
  ready.slot = id_.slot;
  ready.device.index = id_.slot;  // the agent knows the device of a further trainer
  ready.device.memory = mebibytes(1024);
  ready.device.gflops = 10 + host_;
  if (sim_.options.is_reducer(host_)) ready.device = reducing_device();
  ready.peer_address = address();
  ready.libraries = "simulated";
  return ready;
}

void Trainer::kill(int signal) {
  if (!process_.alive()) return;
  if (replica_) end_session(false);
  replica_.reset();
  lie_.end();
  const std::string was = address();
  process_.kill();
  sim_.observe(&Checker::device_died, device_name());
  peers_.died(was, host_);
  owner_.trainer_exited(id_, {signal == 0 ? 0 : 1, signal, ""});
}

void Trainer::pause() {
  if (!process_.alive()) return;
  process_.pause();
  peers_.froze(*this);
}

void Trainer::deliver(std::function<void()> work) { process_.after(Duration{}, std::move(work)); }

void Trainer::say(const FromTrainer& message) {
  const std::string line = describe(message);
  if (!line.empty()) sim_.log("T " + device_name() + " says " + line);
  line_.say(message);
}

void Trainer::fail(ReplicaFailure failure, const std::string& detail) {
  if (!replica_) return;
  say(ReplicaFailed{replica_->id, failure, detail});
  end_replica();
}

Bytes Trainer::needed_memory() const {
  const JobSpec& spec = replica_->assign.spec;
  const swarm::CostModel model(spec, swarm::cost_options(spec));
  return model.memory(replica_->assign.cut.at(static_cast<std::size_t>(replica_->assign.stage)));
}

void Trainer::run_out_of_memory() {
  owner_.limit_memory(replica_->assign.device, needed_memory() - Bytes(1));
  fail(ReplicaFailure::kOutOfMemory, "simulated");
}

void Trainer::end_replica() {
  if (!replica_) return;
  end_session(true);
  if (replica_->stage) replica_->stage->close();
  sim_.observe(&Checker::replica_ended, device_name(), replica_->id);
  replica_.reset();
  lie_.end();
}

// ---- commands

void Trainer::command(const ToTrainer& message) {
  process_.after(kPipe, [this, message] { obey(message); });
}

void Trainer::obey(const ToTrainer& message) {
  line_.heard(message);
  if (const auto* m = std::get_if<LoadReplica>(&message)) return load(*m);
  if (const auto* m = std::get_if<Release>(&message)) return release(m->replica);
  if (const auto* m = std::get_if<MeasureBlock>(&message)) {
    const BlockAnswer answer = answer_to(*m, Prng(prng_.next()), host_);
    if (answer.after) process_.after(*answer.after, [this, said = answer.said] { say(said); });
    return;
  }
  if (std::holds_alternative<StopTrainer>(message)) {
    stopping_ = true;
    // At the end of the inner step, which is not far.
    process_.after(sim_.options.inner_step, [this] { kill(0); });
    return;
  }
  if (replica_ && replica_->reducer) {
    const auto* plan = std::get_if<ToReplica<ReducePlan>>(&message);
    Actions actions;
    if (plan != nullptr && plan->replica == replica_->id) {
      replica_->reducer->reduce(plan->body, actions);
    }
    return act(actions);
  }
  if (!replica_) return;
  if (const auto* m = std::get_if<ToReplica<PipelineView>>(&message);
      m != nullptr && m->replica == replica_->id) {
    enter();
    return take_view(m->body);
  }
  if (const auto* m = std::get_if<ToReplica<KeepCopies>>(&message)) {
    if (m->replica != replica_->id || !replica_->loop) return;
    if (!replica_->copies) replica_->copies = std::make_shared<Copies>(*this);
    return replica_->copies->keep(m->body);
  }
  if (is_about(message, replica_->id)) enter();
  if (!replica_->participant) return;
  Actions actions;
  Participant& participant = *replica_->participant;
  const auto mine = [this](const auto* m) { return m != nullptr && m->replica == replica_->id; };
  if (const auto* m = std::get_if<ToReplica<OpenRound>>(&message); mine(m)) {
    participant.open(m->body, actions);
  } else if (const auto* m = std::get_if<ToReplica<CloseRound>>(&message); mine(m)) {
    participant.close(m->body, actions);
  } else if (const auto* m = std::get_if<ToReplica<ReducePlan>>(&message); mine(m)) {
    participant.reduce(m->body, actions);
  } else if (const auto* m = std::get_if<ToReplica<CommitRound>>(&message); mine(m)) {
    if (!sim_.misbehave(Bug::kLostCommits)) participant.commit(m->body, actions);
  } else if (const auto* m = std::get_if<ToReplica<AbortRound>>(&message); mine(m)) {
    participant.abort(m->body, actions);
  } else if (const auto* m = std::get_if<ToReplica<ResumeAt>>(&message); mine(m)) {
    participant.resume(m->body, actions);
  } else if (const auto* m = std::get_if<ToReplica<Evaluate>>(&message); mine(m)) {
    evaluate(m->body.key, m->body.slice);
  } else if (const auto* m = std::get_if<WriteCheckpointTo>(&message); mine(m)) {
    write_checkpoint(*m);
  }
  act(actions);
}

void Trainer::take_view(const PipelineView& view) {
  if (view.number <= replica_->view.number) return;
  replica_->view = view;
  if (const auto stage = replica_->stage) stage->view(view);
}

void Trainer::load(const LoadReplica& load) {
  const Assign& assign = load.assign;
  if (replica_ && replica_->id == assign.replica) return join_again(assign);
  sim_.observe(&Checker::replica_started, device_name(), assign.replica);
  end_replica();
  replica_.emplace();
  replica_->id = assign.replica;
  replica_->assign = assign;
  if (sim_.options.is_reducer(host_)) return be_reducer(assign);
  if (owner_.is_bad_card(assign.device)) return give_up(ReplicaFailure::kDeviceLost);
  if (needed_memory() > owner_.real_memory(assign.device)) return run_out_of_memory();
  if (assign.source.kind == SourceKind::kPeer) return join();
  const auto algorithm = replica::make_outer_algorithm(assign.spec, {});
  const auto values = static_cast<std::int64_t>(value_count());
  State state{assign.source.key, algorithm->zero_state(values)};
  if (assign.source.kind == SourceKind::kSeed) {
    for (std::size_t i = 0; i < value_count(); ++i) {
      state.outer.anchor[i] = initial_value(assign.spec.train.seed, first_value() + i);
    }
  } else {
    const CheckpointFiles* files = owner_.folder(load.checkpoint_folder);
    if (files == nullptr) return fail(ReplicaFailure::kInternal, "no files in the folder");
    auto own = state_in(*files, {first_value(), value_count()});
    if (!own) return fail(ReplicaFailure::kInternal, "the files lack units of its stage");
    state.outer = std::move(*own);
    algorithm->adopt_vectors(std::exchange(state.outer.vectors, {}), state.outer);
  }
  process_.after(owner_.load_time(),
                 [this, id = assign.replica, state = std::move(state)]() mutable {
                   if (!replica_ || replica_->id != id || replica_->loop) return;
                   hold_found(std::move(state));
                 });
}

// What the seed or a checkpoint gave.
void Trainer::hold_found(State state) {
  const shoal::StateSource& source = replica_->assign.source;
  const replica::StateDigests digests = replica::digests_of(state.outer);
  const bool same = (!source.anchor || source.anchor == digests.anchor) &&
                    (!source.momentum || source.momentum == digests.momentum);
  if (!same) return fail(ReplicaFailure::kDigestMismatch, "the state is not the one announced");
  read_data();
  hold(std::move(state));
  say_loaded();
}

void Trainer::be_reducer(const Assign& assign) {
  process_.after(owner_.load_time(), [this, id = assign.replica, key = assign.source.key] {
    if (!replica_ || replica_->id != id || replica_->reducer) return;
    replica_->reducer = std::make_unique<Reducer>(id);
    say(Loaded{id, key, {}, {}, 0, address()});
  });
}

void Trainer::read_data() {
  Replica& r = *replica_;
  if (is_router()) r.data = Digester().add(owner_.data_file()).finish();
  sim_.observe(&Checker::data_read, r.id, r.data);
}

void Trainer::hold(State state) {
  Replica& r = *replica_;
  make_loop(std::move(state));
  keep_averages();
  offer_state();
  const JobSpec& spec = r.assign.spec;
  if (r.assign.cut.size() <= 1) {
    r.cursor.emplace(spec);
  } else {
    begin_stage(r.loop->held(), r.assign.record.step);
  }
  r.participant =
      std::make_unique<Participant>(r.id, r.loop->held(), when_late(spec.sync.algorithm));
  show_state(r.loop->held());
  if (r.loop->gathers_momentum()) {
    sim_.observe(&Checker::momentum_kept,
                 MomentumKept{r.id, r.assign.stage, r.loop->held(), r.loop->state().shards});
  }
}

// As many blocks as the model has layers, an embedding and a head, all of one size.
StageSizes Trainer::sizes_of(std::int64_t values) const {
  const std::int64_t blocks = replica_->assign.spec.model.layers, unit = values / (blocks + 2);
  return {unit, std::vector<std::int64_t>(static_cast<std::size_t>(blocks), unit),
          values - (blocks + 1) * unit};
}

void Trainer::make_loop(State state) {
  Replica& r = *replica_;
  const JobSpec& spec = r.assign.spec;
  const auto values = static_cast<std::int64_t>(state.outer.anchor.size());
  replica::OuterLoopSetup setup{r.id, spec, cut_fragments(sizes_of(values), spec.sync.fragments),
                                replica::make_outer_algorithm(spec, {{0, values, true}}),
                                std::make_unique<replica::HostVectors>(values)};
  r.local = std::make_unique<SimulatedParameters>(state.outer.anchor,
                                                  spec.sync.algorithm == SyncAlgorithm::kDdp);
  r.loop = std::make_unique<PlantedLoop>(
      sim_, prng_, std::move(setup), *r.local,
      std::make_shared<replica::OuterState>(std::move(state.outer)), state.key);
}

void Trainer::say_loaded() {
  const Replica& r = *replica_;
  say_loaded(r.loop->held(), replica::digests_of(r.loop->state()));
}

void Trainer::say_loaded(const RoundKey& held, const replica::StateDigests& digests) {
  const Replica& r = *replica_;
  const auto values = static_cast<std::int64_t>(value_count());
  Loaded loaded{r.id, held, digests.anchor, digests.momentum, values, address()};
  loaded.data = r.data;
  loaded.refused = r.refused;
  const std::int64_t fragments = r.assign.spec.sync.fragments;
  for (const Fragment& fragment : cut_fragments(sizes_of(values), fragments)) {
    if (fragments > 1) loaded.fragments.push_back(outer_opt::value_count(fragment));
  }
  say(loaded);
}

void Trainer::return_to_anchor(const ResumeAt& command) {
  Replica& r = *replica_;
  end_session(true);
  r.loop->return_to_anchor(command.key);
  offer_state();
  r.trained.clear();
  r.steps = Steps();
  r.handled = 0;
  r.kept = r.kept_before = {};
  r.has_average = r.training = r.stop = false;
  r.view = {};
  if (r.cursor) r.cursor.emplace(r.assign.spec);
  if (r.stage) begin_stage(command.key, command.record.step);
  show_state(command.key);
  say_loaded();
}

void Trainer::release(ReplicaId replica) {
  say(ready());
  if (!replica_ || replica_->id != replica) return;
  if (sim_.misbehave(Bug::kReleaseIgnored)) return;
  end_replica();
}

void Trainer::evaluate(const RoundKey& key, const EvalSlice& slice) {
  if (slice.slices == 0 || replica_->loop->held() != key) return;
  process_.after(sim_.options.evaluate_time, [this, id = replica_->id, key, slice] {
    if (!replica_ || replica_->id != id) return;
    std::int64_t batches = 0;
    for (std::int64_t i = slice.slice; i < slice.batches; i += slice.slices) ++batches;
    const JobSpec& spec = replica_->assign.spec;
    const Tokens tokens(batches * spec.train.batch * spec.model.context);
    const double loss =
        1.0 + 3.0 / static_cast<double>(1 + key.round) + 0.1 / static_cast<double>(1 + slice.slice);
    const Evaluated told{key, slice, loss * static_cast<double>(tokens.count()), tokens};
    sim_.observe(&Checker::evaluated, id, told);
    say(FromReplica<Evaluated>{id, told});
  });
}

// ---- inner steps

void Trainer::act(const Actions& actions) {
  for (const Action& action : actions) {
    if (!replica_) return;
    act_one(action);
  }
}

void Trainer::act_one(const Action& action) {
  if (const auto* a = std::get_if<Train>(&action)) return train(a->round);
  if (const auto* a = std::get_if<StopTraining>(&action)) return stop_training(a->at);
  if (const auto* a = std::get_if<StartReduce>(&action)) return start_reduce(*a);
  if (std::holds_alternative<StopReduce>(action)) return end_session(true);
  if (const auto* a = std::get_if<TakeOuterStep>(&action)) return outer_step(a->commit);
  if (const auto* a = std::get_if<ReturnToAnchor>(&action)) return return_to_anchor(a->command);
  if (const auto* a = std::get_if<GoStale>(&action)) {
    return fail(ReplicaFailure::kStale, "cannot follow to " + to_text(a->wanted));
  }
  const ReplicaId id = replica_->id;
  std::visit(
      [&](const auto& body) {
        say(FromReplica<std::decay_t<decltype(body)>>{id, body});
      },
      std::get<Say>(action).message);
}

void Trainer::stop_training(StopAt at) {
  replica_->stop = true;
  if (replica_->cursor) replica_->cursor->stop();
  if (const auto stage = replica_->stage) stage->stop(at == StopAt::kAtOnce);
}

void Trainer::train(const OpenRound& round) {
  Replica& r = *replica_;
  const bool running = r.training;
  const std::vector<float> before = r.local->values();
  r.loop->open(round);
  if (r.local->values() != before) {
    ++sim_.transitions["eager step taken back"];
    sim_.observe(&Checker::taken_back, TakenBack{r.id, before, r.local->values()});
  }
  r.open = round;
  r.training = true;
  r.stop = false;
  if (r.stage) return open_stage(round);
  r.cursor->open(round);
  if (!running) inner_step();
}

Duration Trainer::own_step() const { return sim_.options.inner_step * (2 + host_ % 3) / 2; }

// The slower one counts of a slow process and a throttled device.
Duration Trainer::step_time() const {
  const Duration own = own_step();
  const Duration slowed = sim_.now() < slow_until_ ? own * slow_factor_ : own;
  const double speed = owner_.device_speed(replica_->assign.device);
  return speed < 1 ? std::max(slowed, seconds_f(own.seconds() / speed)) : slowed;
}

// Schedules the end of one inner step; the one after it is scheduled from there.
void Trainer::inner_step() {
  process_.after(step_time(), [this, id = replica_->id] {
    if (replica_ && replica_->id == id && replica_->training) step_alone();
  });
}

void Trainer::train_on(std::int64_t sequence) {
  Replica& r = *replica_;
  r.local->train([this, &r, sequence](std::size_t i) {
    return update(r.assign.spec.train.seed, sequence, first_value() + i);
  });
}

void Trainer::step_alone() {
  Replica& r = *replica_;
  if (r.cursor->next() == StepCursor::Next::kStep) {
    const DataLease drawn = r.cursor->take_step();
    for (std::int64_t i = 0; i < drawn.count; ++i) train_on(drawn.first + i);
    r.trained.push_back(drawn);
    r.steps += Steps(1);
  }
  go_on();
}

// What is due between two inner steps; then the next one, when there is one.
void Trainer::go_on() {
  Replica& r = *replica_;
  if (r.cursor->next() == StepCursor::Next::kAdopt) adopt_result();
  if (r.cursor->next() == StepCursor::Next::kBoundary) {
    r.cursor->reported();
    boundary();
  }
  r.training = r.cursor->next() != StepCursor::Next::kStand;
  if (r.training) inner_step();
}

void Trainer::adopt_result() {
  Replica& r = *replica_;
  const std::vector<float> before = r.local->values();
  r.loop->adopt();
  if (r.assign.spec.sync.eager) ++sim_.transitions["eager step corrected"];
  r.cursor->adopted();
  sim_.observe(&Checker::adopted, Adopted{r.id, r.adopting, r.assign.spec, r.cursor->at(),
                                          r.cursor->ahead(), r.stop, values_of(r.adopting_fragment),
                                          r.loop->state().anchor, before, r.local->values()});
}

std::size_t Trainer::value_count() const {
  return values_of_stage(replica_->assign, sim_.options.values).count;
}

std::size_t Trainer::first_value() const {
  return values_of_stage(replica_->assign, sim_.options.values).first;
}

void Trainer::count_work(RoundReport& report) {
  Replica& r = *replica_;
  std::int64_t sequences = 0;
  for (const DataLease& lease : r.trained) sequences += lease.count;
  report.key = r.open.key;
  report.drawn = Tokens(sequences * r.assign.spec.model.context);
  report.tokens = is_router() ? report.drawn : Tokens(r.handled * r.assign.spec.model.context);
  report.steps = r.steps;
  report.unused = r.cursor ? r.cursor->unused() : r.lease->reported();
  report.train_loss = 1.0 + 4.0 / static_cast<double>(r.open.key.round);
  report.compute_s = r.steps.count() * own_step().seconds();
  for (const PeerAddress& peer : std::exchange(r.open.measure, {})) {
    report.links.push_back(measured_line(sim_.options.seed, r.open.key.round, r.id, peer.replica));
  }
}

// What the checkers compare with later.
void Trainer::keep_contribution() {
  Replica& r = *replica_;
  r.kept = {r.loop->held(), replica::digests_of(r.loop->state()).anchor,
            r.loop->contribution_source().copy()};
}

void Trainer::boundary() {
  Replica& r = *replica_;
  r.training = false;
  RoundReport report;
  count_work(report);
  if (std::exchange(poisoned_, false)) {
    sim_.strike(Fault::kNonFinite, device_name());
    r.local->poison();
  }
  const std::vector<float> before = r.local->values();
  const bool goes_on = r.cursor && r.cursor->adopts_later();
  r.loop->boundary(report, goes_on);
  keep_contribution();
  r.reported = r.trained.size();
  show_boundary(report, before, goes_on && report.nonfinite == 0);
  Actions actions;
  r.participant->boundary(report, actions);
  act(actions);
}

void Trainer::show_boundary(const RoundReport& report, const std::vector<float>& before,
                            bool begins) {
  Replica& r = *replica_;
  const replica::OuterState& state = r.loop->state();
  sim_.observe(&Checker::reported, Reported{r.id, report, r.trained, state.anchor, before});
  if (!begins || !r.assign.spec.sync.eager) return;
  const bool known = r.local->values() != before;
  ++sim_.transitions[known ? "eager step taken" : "eager step unknown"];
  sim_.observe(&Checker::eagerly_begun,
               EagerlyBegun{r.id, report.key, r.open.fragment, values_of(r.open.fragment),
                            r.kept.values, state.anchor, state.vectors, before, r.local->values()});
}

}  // namespace shoal::sim
