// How a replica comes to its state: from the seed, from a checkpoint's files, or from a source. A
// state that does not have the announced digests is refused. Those of a stage whose checkpoint is
// of another cut are announced once a replica has loaded it. Until then the SHA-256 of each file,
// which the agent has compared with the coordinator's, tells that it is the state that was stored.
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "outer_opt/core/step/vector_statistics.h"
#include "replica/runtime/cut.h"
#include "replica/runtime/local_training.h"
#include "replica/runtime/replica.h"
#include "threads/clock.h"
#include "threads/idle_memory.h"

namespace shoal::replica {
namespace {

// What went wrong with the files of a checkpoint. A missing file or tensor is damage, too: the
// agent fetched all files that the checkpoint was stored with.
Failure checkpoint_failure(const Error& error) {
  const bool damaged = error.code == Code::kDataLoss || error.code == Code::kNotFound;
  return {damaged ? ReplicaFailure::kDigestMismatch : ReplicaFailure::kInternal, to_string(error)};
}

// Versions before 0.2 stored such moments; the first step would make the parameters so, too.
void drop_nonfinite_moments(Checkpoint& checkpoint) {
  const std::int64_t bad =
      outer_opt::count_nonfinite(checkpoint.adam_m) + outer_opt::count_nonfinite(checkpoint.adam_v);
  if (bad == 0) return;
  std::cerr << "warning: " << bad
            << " moments of the checkpoint are not finite: the inner optimizer begins anew\n";
  std::ranges::fill(checkpoint.adam_m, 0.0f);
  std::ranges::fill(checkpoint.adam_v, 0.0f);
  checkpoint.adam_step = 0;
}

// A joiner that followed the rounds holds a newer round than was announced; its stage compares the
// digests.
MaybeFailure check_digests(const StateSource& source, const RoundKey& held,
                           const StateDigests& digests) {
  if (held != source.key) return std::nullopt;
  if (source.anchor && source.anchor != digests.anchor) {
    return Failure{ReplicaFailure::kDigestMismatch, "the anchor is not the announced one"};
  }
  if (source.momentum && source.momentum != digests.momentum) {
    return Failure{ReplicaFailure::kDigestMismatch, "the outer momentum is not the announced one"};
  }
  return std::nullopt;
}

using Clock = std::chrono::steady_clock;

// The first call goes through.
class OnceASecond {
 public:
  bool due() {
    const auto now = Clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(1);
    return true;
  }

 private:
  Clock::time_point next_;
};

}  // namespace

MaybeFailure Replica::make_compute() {
  const bool cut = is_cut(cut_, whole_model(spec_.model));
  if (!cut || stage_ < 0 || static_cast<std::size_t>(stage_) >= cut_.size()) {
    return Failure{ReplicaFailure::kInternal, "the cut does not fit the model"};
  }
  return context_.compute.make({spec_, cut_, stage_}, compute_);
}

MaybeFailure Replica::load() {
  if (auto failure = make_compute()) return failure;
  if (auto tensors = compute_->tensors(); !tensors.empty()) {
    context_.say(LoadProgress{.replica = id_, .tensors = std::move(tensors)});
  }
  loading_ = std::make_unique<Loading>();
  loading_->algorithm = make_outer_algorithm(spec_, compute_->decay_ranges());
  loading_->state =
      std::make_shared<OuterState>(loading_->algorithm->zero_state(compute_->value_count()));
  loading_->fragments = outer_opt::cut_fragments(compute_->sizes(), spec_.sync.fragments);
  switch (command_.assign.source.kind) {
    case SourceKind::kSeed:
      return begin();
    case SourceKind::kCheckpoint:
      return command_.assign.source.key.round == 0 ? begin() : load_checkpoint();
    case SourceKind::kPeer:
      start_join();
      return std::nullopt;
  }
  return std::nullopt;
}

// Round 0: a checkpoint is that of another job, of which only the parameters are wanted.
MaybeFailure Replica::begin() {
  if (auto failure = compute_->seed(command_.checkpoint_folder)) return failure;
  compute_->read_parameters(loading_->state->anchor);
  return loaded(command_.assign.source.key);
}

MaybeFailure Replica::load_checkpoint() {
  const bool other_cut = command_.assign.checkpoint_parts > 0;
  auto checkpoint = other_cut
                        ? context_.compute.read_units(command_.checkpoint_folder,
                                                      cut_[static_cast<std::size_t>(stage_)])
                        : context_.compute.read_checkpoint(command_.checkpoint_folder, stage_);
  if (!checkpoint) return checkpoint_failure(checkpoint.error());
  if (checkpoint->key.round != command_.assign.source.key.round) {
    return Failure{ReplicaFailure::kDigestMismatch,
                   "the files are of round " + std::to_string(checkpoint->key.round) +
                       ", the checkpoint is of round " +
                       std::to_string(command_.assign.source.key.round)};
  }
  if (checkpoint->spec.model != spec_.model || (!other_cut && checkpoint->cut != cut_)) {
    return Failure{ReplicaFailure::kInternal,
                   "the checkpoint holds another model than the job's, or another cut of it"};
  }
  if (checkpoint->spec.train.optimizer != spec_.train.optimizer) {
    return Failure{ReplicaFailure::kInternal,
                   "the checkpoint holds the moments of another train.optimizer than the job's"};
  }
  if (!std::ranges::equal(checkpoint->outer, outer_vectors(spec_.sync), {}, &NamedVector::name)) {
    return Failure{ReplicaFailure::kInternal,
                   "the checkpoint holds the state of another sync.outer.method than the job's"};
  }
  OuterState& state = *loading_->state;
  state.anchor = std::move(checkpoint->anchor);
  if (state.shares_adam()) {
    loading_->algorithm->adopt_vectors({{kSharedMoments[0], std::move(checkpoint->adam_m)},
                                        {kSharedMoments[1], std::move(checkpoint->adam_v)}},
                                       state);
  } else {
    loading_->algorithm->adopt_vectors(std::move(checkpoint->outer), state);
    drop_nonfinite_moments(*checkpoint);
    compute_->write_adam(checkpoint->adam_m, checkpoint->adam_v, checkpoint->adam_step);
  }
  return loaded(command_.assign.source.key);
}

// Else they are in the state already, or begin at zero, where the Compute has them.
bool Replica::fetches_moments() const {
  return !loading_->state->shares_adam() && spec_.train.join == JoinMoments::kMoments;
}

void Replica::start_join() {
  OuterState& state = *loading_->state;
  joining_ = std::make_unique<Joining>();
  outer_opt::MomentsCopy& moments = joining_->moments;
  moments.is_open = fetches_moments() && compute_->has_own_state();
  if (fetches_moments() && !moments.is_open) {
    moments.first.resize(static_cast<std::size_t>(compute_->first_moment_count()));
    moments.second.resize(static_cast<std::size_t>(compute_->second_moment_count()));
  }
  joining_->target = std::make_unique<OuterStateTarget>(*loading_->algorithm, state, moments);
  const auto wanted = std::ssize(moments.first) + std::ssize(moments.second);
  const Assign& assign = command_.assign;
  auto shape = join_shape(*loading_->algorithm, state, loading_->fragments, wanted);
  shape.open_moments = moments.is_open;
  joining_->session.emplace(assign.source.key, std::move(shape), assign.sources, *joining_->target,
                            outer_opt::JoinOptions{}, id_.n, steady_now());
  go_on_joining();
}

void Replica::go_on_joining() {
  joining_->level = false;
  background_.start([this](std::uint64_t number, std::stop_token stop) {
    OnceASecond about;
    const auto moved = [&](const outer_opt::JoinSession& session) {
      if (!about.due()) return;
      context_.queue.push(JoinMoved{number, session.done(), session.total(), session.received(),
                                    session.per_round()});
    };
    Status status = context_.node.join(*joining_->session, joining_->news, moved, stop);
    context_.queue.push(JoinEnded{number, std::move(status)});
  });
}

void Replica::join_moved(const JoinMoved& event) {
  if (event.work != background_.current() || !joining_) return;
  context_.say(LoadProgress{id_, event.done, event.total, event.received, event.per_round});
}

MaybeFailure Replica::join_ended(const JoinEnded& event) {
  if (event.work != background_.current() || !joining_) return std::nullopt;
  background_.stop();
  if (!event.status) return Failure{ReplicaFailure::kSourceLost, to_string(event.status.error())};
  RoundKey held = command_.assign.source.key;
  held.round = joining_->session->round();
  const StateSource& source = command_.assign.source;
  if (auto failure = check_digests(source, held, digests_of(*loading_->state))) {
    if (!joining_->session->doubt(steady_now())) return failure;
    go_on_joining();
    return std::nullopt;
  }
  if (held == source.key && source.anchor) {
    for (const ReplicaId liar : joining_->session->found_liars()) joining_->refused.push_back(liar);
  }
  joining_->level = true;
  say_loaded(held, *loading_->state);
  return std::nullopt;
}

void Replica::assigned_again(const Assign& assign) {
  if (!joining_) return say_loaded();
  command_.assign.source = assign.source;
  command_.assign.record = assign.record;
  held_step_ = assign.record.step;
  joining_->news.aim(assign.source.key.round, assign.sources);
  if (joining_->level) go_on_joining();  // level again, it says so
}

// The first command of a round tells the replica that it takes part.
MaybeFailure Replica::enter() {
  if (!joining_ || !joining_->level) return std::nullopt;
  RoundKey held = command_.assign.source.key;
  held.round = joining_->session->round();
  const outer_opt::MomentsCopy& moments = joining_->moments;
  if (moments.is_open) {
    // Without a step the session ended without: what is here came from a source that was left.
    if (joining_->session->adam_step() > 0) compute_->take_own_state(moments.first);
  } else if (fetches_moments() && are_possible(moments)) {
    compute_->write_adam(moments.first, moments.second, joining_->session->adam_step());
  }
  joining_.reset();
  return loaded(held);
}

MaybeFailure Replica::loaded(const RoundKey& held) {
  const std::unique_ptr<Loading> loading = std::move(loading_);
  const bool joins = command_.assign.source.kind == SourceKind::kPeer;
  if (!joins) {
    const auto wrong = check_digests(command_.assign.source, held, digests_of(*loading->state));
    if (wrong) return wrong;
  }
  compute_->write_parameters(loading->state->anchor);
  OuterLoopSetup setup{id_, spec_, std::move(loading->fragments), std::move(loading->algorithm),
                       nullptr};
  if (auto failure = place_vectors(*loading->state, setup)) return failure;
  parameters_ = std::make_unique<HeldParameters>(*compute_);
  loop_ = std::make_unique<OuterLoop>(std::move(setup), *parameters_, loading->state, held);
  rest();
  loop_->watch_averages(context_.state_server.watch());
  participant_.emplace(id_, held, outer_opt::when_late(spec_.sync.algorithm));
  training_ = make_training();
  come_to_cut(held);
  if (view_) training_->view(*view_);
  context_.state_server.publish(id_, held, loop_->shared_state());
  if (!joins) say_loaded();
  return std::nullopt;
}

// Where the outer step is computed.
MaybeFailure Replica::place_vectors(const OuterState& state, OuterLoopSetup& setup) {
  const outer_opt::OuterOptimizer* optimizer = setup.algorithm->optimizer();
  if (context_.compute.accelerator() == nullptr ||
      !outer_opt::DeviceVectors::suits(optimizer, spec_.sync)) {
    setup.vectors = std::make_unique<HostVectors>(compute_->value_count());
    return std::nullopt;
  }
  auto vectors = outer_opt::DeviceVectors::create(
      *context_.compute.accelerator(), compute_->value_count(), optimizer->vectors().size());
  if (!vectors) {
    const bool full = vectors.error().code == Code::kResourceExhausted;
    return Failure{full ? ReplicaFailure::kOutOfMemory : ReplicaFailure::kDeviceLost,
                   to_string(vectors.error())};
  }
  const Status there = (*vectors)->load(state.anchor, state.vectors);
  if (!there) return Failure{ReplicaFailure::kDeviceLost, to_string(there.error())};
  auto on_device = std::make_unique<DeviceOuterVectors>(std::move(*vectors), *compute_);
  on_device_ = on_device.get();
  setup.vectors = std::move(on_device);
  return std::nullopt;
}

std::unique_ptr<Training> Replica::make_training() {
  TrainingContext context{id_,
                          spec_,
                          *compute_,
                          *parameters_,
                          [this] { return std::span<const float>(loop_->state().anchor); },
                          context_.say,
                          [this](const Trained& trained) { reach_boundary(trained); },
                          [this] {
                            loop_->adopt();  // in the room of the contribution
                            forget_values(loop_->vectors().contribution());
                          },
                          [this](std::string text) { sampled(std::move(text)); }};
  if (!in_pipeline()) return std::make_unique<LocalTraining>(std::move(context));
  const PipelinePlace place{stage_, static_cast<std::int32_t>(cut_.size()), participant_->held(),
                            held_step_};
  return std::make_unique<PipelineTraining>(std::move(context), place, context_.make_runtime);
}

void Replica::say_loaded() const {
  if (participant_) say_loaded(participant_->held(), loop_->state());
}

void Replica::say_loaded(const RoundKey& held, const OuterState& state) const {
  const StateDigests digests = digests_of(state);
  Loaded loaded{id_,
                held,
                digests.anchor,
                digests.momentum,
                compute_->value_count(),
                context_.node.address()};
  loaded.data = compute_->data();
  if (joining_) loaded.refused = joining_->refused;
  for (const auto& fragment : outer_opt::cut_fragments(compute_->sizes(), spec_.sync.fragments)) {
    if (spec_.sync.fragments > 1) loaded.fragments.push_back(outer_opt::value_count(fragment));
  }
  context_.say(loaded);
}

}  // namespace shoal::replica
