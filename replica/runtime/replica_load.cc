// How a replica comes to its state: from the seed, from a checkpoint's files, or from a donor. A
// state that does not have the announced digests is refused.
#include <chrono>
#include <functional>

#include "replica/runtime/cut.h"
#include "replica/runtime/local_training.h"
#include "replica/runtime/replica.h"

namespace shoal::replica {
namespace {

// What went wrong with the files of a checkpoint.
Failure checkpoint_failure(const Error& error) {
  const bool damaged = error.code == Code::kDataLoss;
  return {damaged ? ReplicaFailure::kDigestMismatch : ReplicaFailure::kInternal, to_string(error)};
}

MaybeFailure check_digests(const StateSource& source, const StateDigests& digests) {
  if (source.anchor && source.anchor != digests.anchor) {
    return Failure{ReplicaFailure::kDigestMismatch, "the anchor is not the announced one"};
  }
  if (source.momentum && source.momentum != digests.momentum) {
    return Failure{ReplicaFailure::kDigestMismatch, "the outer momentum is not the announced one"};
  }
  return std::nullopt;
}

// The first call goes through.
std::function<void(Bytes, Bytes)> about_once_a_second(std::function<void(Bytes, Bytes)> say) {
  using Clock = std::chrono::steady_clock;
  return [say = std::move(say), next = Clock::time_point()](Bytes done, Bytes total) mutable {
    const auto now = Clock::now();
    if (now < next) return;
    next = now + std::chrono::seconds(1);
    say(done, total);
  };
}

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
  loading_ = std::make_unique<Loading>();
  loading_->algorithm = make_outer_algorithm(spec_, compute_->decay_ranges());
  loading_->state =
      std::make_shared<OuterState>(loading_->algorithm->zero_state(compute_->value_count()));
  switch (command_.assign.source.kind) {
    case SourceKind::kSeed:
      compute_->seed();
      compute_->read_parameters(loading_->state->anchor);
      return loaded();
    case SourceKind::kCheckpoint:
      return load_checkpoint();
    case SourceKind::kPeer:
      start_fetch();
      return std::nullopt;
  }
  return std::nullopt;
}

MaybeFailure Replica::load_checkpoint() {
  auto checkpoint = context_.compute.read_checkpoint(command_.checkpoint_folder, stage_);
  if (!checkpoint) return checkpoint_failure(checkpoint.error());
  if (checkpoint->spec.model != spec_.model || checkpoint->cut != cut_) {
    return Failure{ReplicaFailure::kInternal,
                   "the checkpoint holds another model than the job's, or another cut of it"};
  }
  if (checkpoint->spec.train.optimizer != spec_.train.optimizer) {
    return Failure{ReplicaFailure::kInternal,
                   "the checkpoint holds the moments of another train.optimizer than the job's"};
  }
  OuterState& state = *loading_->state;
  state.anchor = std::move(checkpoint->anchor);
  if (state.shares_adam()) {
    state.adam_m = std::move(checkpoint->adam_m);
    state.adam_v = std::move(checkpoint->adam_v);
  } else {
    loading_->algorithm->adopt_momentum(std::move(checkpoint->momentum), state);
    compute_->write_adam(checkpoint->adam_m, checkpoint->adam_v, checkpoint->adam_step);
  }
  return loaded();
}

void Replica::start_fetch() {
  OuterState& state = *loading_->state;
  if (!state.shares_adam()) {
    loading_->adam.m.resize(state.anchor.size());
    loading_->adam.v.resize(static_cast<std::size_t>(compute_->second_moment_count()));
  }
  background_.start([this](std::uint64_t number, std::stop_token stop) {
    const StateSource& source = command_.assign.source;
    OuterState& state = *loading_->state;
    AdamCopy& adam = loading_->adam;
    outer_opt::StateSink sink{state.anchor, state.momentum,
                              state.shares_adam() ? state.adam_m : adam.m,
                              state.shares_adam() ? state.adam_v : adam.v};
    sink.moved = about_once_a_second([this, number](Bytes done, Bytes total) {
      context_.queue.push(FetchMoved{number, done, total});
    });
    Status status =
        context_.node.fetch_state(source.donor_address, source.donor, source.key, sink, stop);
    adam.step = sink.adam_step;
    context_.queue.push(FetchEnded{number, std::move(status)});
  });
}

void Replica::fetch_moved(const FetchMoved& event) {
  if (event.work != background_.current() || participant_) return;
  context_.say(LoadProgress{id_, event.done, event.total});
}

MaybeFailure Replica::fetch_ended(const FetchEnded& event) {
  if (event.work != background_.current() || participant_) return std::nullopt;
  background_.stop();
  if (!event.status) return Failure{ReplicaFailure::kDonorLost, to_string(event.status.error())};
  const AdamCopy& adam = loading_->adam;
  if (!loading_->state->shares_adam()) compute_->write_adam(adam.m, adam.v, adam.step);
  return loaded();
}

MaybeFailure Replica::loaded() {
  const std::unique_ptr<Loading> loading = std::move(loading_);
  const StateSource& source = command_.assign.source;
  if (auto failure = check_digests(source, digests_of(*loading->state))) return failure;
  compute_->write_parameters(loading->state->anchor);
  OuterLoopSetup setup{id_, spec_, {}, std::move(loading->algorithm), nullptr};
  setup.fragments = outer_opt::cut_fragments(compute_->sizes(), spec_.sync.fragments());
  if (auto failure = place_vectors(*loading->state, setup.vectors)) return failure;
  loop_ = std::make_unique<OuterLoop>(std::move(setup), *compute_, loading->state, source.key);
  participant_.emplace(id_, source.key, outer_opt::when_late(spec_.sync.algorithm()));
  training_ = make_training();
  come_to_cut(source.key);
  if (view_) training_->view(*view_);
  context_.shelf.publish(id_, source.key, loop_->shared_state());
  say_loaded();
  return std::nullopt;
}

// Where the outer step is computed.
MaybeFailure Replica::place_vectors(const OuterState& state, std::unique_ptr<OuterVectors>& out) {
  if (context_.compute.accelerator() == nullptr || !outer_opt::DeviceVectors::suits(spec_.sync)) {
    out = std::make_unique<HostVectors>(compute_->value_count());
    return std::nullopt;
  }
  auto vectors =
      outer_opt::DeviceVectors::create(*context_.compute.accelerator(), compute_->value_count());
  if (!vectors) {
    const bool full = vectors.error().code == Code::kResourceExhausted;
    return Failure{full ? ReplicaFailure::kOutOfMemory : ReplicaFailure::kDeviceLost,
                   to_string(vectors.error())};
  }
  const Status there = (*vectors)->load(state.anchor, state.momentum);
  if (!there) return Failure{ReplicaFailure::kDeviceLost, to_string(there.error())};
  auto on_device = std::make_unique<DeviceOuterVectors>(std::move(*vectors), *compute_,
                                                        spec_.sync.outer().momentum);
  on_device_ = on_device.get();
  out = std::move(on_device);
  return std::nullopt;
}

std::unique_ptr<Training> Replica::make_training() {
  TrainingContext context{id_,
                          spec_,
                          *compute_,
                          [this] { return std::span<const float>(loop_->state().anchor); },
                          context_.say,
                          [this](const Trained& trained) { reach_boundary(trained); },
                          [this] { loop_->adopt(); },
                          [this](std::string text) { sampled(std::move(text)); }};
  if (!in_pipeline()) return std::make_unique<LocalTraining>(std::move(context));
  const PipelinePlace place{stage_, static_cast<std::int32_t>(cut_.size()), participant_->held(),
                            held_step_};
  return std::make_unique<PipelineTraining>(std::move(context), place, context_.make_runtime);
}

void Replica::say_loaded() const {
  if (!participant_) return;
  const StateDigests held = digests_of(loop_->state());
  Loaded loaded{id_,           participant_->held(),    held.anchor,
                held.momentum, compute_->value_count(), context_.node.address()};
  loaded.data = compute_->data();
  for (const auto& fragment : loop_->fragments()) {
    if (loop_->fragments().size() > 1) loaded.fragments.push_back(outer_opt::value_count(fragment));
  }
  context_.say(loaded);
}

}  // namespace shoal::replica
