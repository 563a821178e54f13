// How a replica comes to its state: from the seed, from a checkpoint's files, or from a donor. A
// state that does not have the announced digests is refused.
#include <chrono>
#include <functional>

#include "swarm/core/plan/cost_model.h"
#include "trainer/plain/parameter_layout.h"
#include "trainer/replica/checkpoint.h"
#include "trainer/replica/local_training.h"
#include "trainer/replica/replica.h"

namespace shoal::trainer {
namespace {

std::string mebibytes_text(Bytes bytes) { return std::to_string(bytes.count() >> 20) + " MiB"; }

Bytes needed_memory(const JobSpec& spec, const std::vector<UnitRange>& cut, StageIndex stage) {
  if (cut.size() == 1) return training_memory(spec);
  JobSpec planned = spec;
  planned.swarm.stages = static_cast<std::int64_t>(cut.size());
  const swarm::CostModel costs(spec, swarm::cost_options(planned));
  return costs.memory(cut[static_cast<std::size_t>(stage)]);
}

MaybeFailure check_fits(Bytes needed, const DeviceChoice& device) {
  const Bytes there = device_memory(device);
  if (there.count() == 0 || needed <= there) return std::nullopt;
  return Failure{ReplicaFailure::kOutOfMemory,
                 "training needs " + mebibytes_text(needed) + ", the device has " +
                     mebibytes_text(there) +
                     " (use a smaller model, train.microbatch or model.context)"};
}

// What went wrong with the files of a checkpoint.
Failure checkpoint_failure(const Error& error) {
  const bool damaged = error.code == Code::kDataLoss;
  return {damaged ? ReplicaFailure::kDigestMismatch : ReplicaFailure::kInternal, to_string(error)};
}

MaybeFailure check_digests(const StateSource& source, const OuterState& state) {
  if (source.anchor && source.anchor != digest_of(std::span<const float>(state.anchor))) {
    return Failure{ReplicaFailure::kDigestMismatch, "the anchor is not the announced one"};
  }
  if (source.momentum && source.momentum != momentum_digest(state)) {
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

MaybeFailure Replica::make_model() {
  const bool cut = is_cut(cut_, whole_model(spec_.model));
  if (!cut || stage_ < 0 || static_cast<std::size_t>(stage_) >= cut_.size()) {
    return Failure{ReplicaFailure::kInternal, "the cut does not fit the model"};
  }
  if (auto failure = check_fits(needed_memory(spec_, cut_, stage_), context_.device)) {
    return failure;
  }
  if (stage_ == 0) {
    auto data = Dataset::open(spec_);
    if (!data) return data_failure(data.error());
    data_ = std::move(*data);
  }
  const UnitRange units = cut_[static_cast<std::size_t>(stage_)];
  return StageModel::create(spec_, units, context_.device, model_);
}

MaybeFailure Replica::load() {
  if (auto failure = make_model()) return failure;
  outer_ = std::make_shared<OuterState>(zero_outer_state(spec_.sync, model_->value_count()));
  const UnitRange units = cut_[static_cast<std::size_t>(stage_)];
  decay_ranges_ = decay_ranges(parameter_layout(spec_.model, units));
  whole_ = {{0, model_->value_count()}};
  fragments_ = outer_opt::cut_fragments(stage_sizes(spec_.model, units), spec_.sync.fragments);
  tokens_behind_.assign(fragments_.size(), Tokens());
  switch (command_.assign.source.kind) {
    case SourceKind::kSeed:
      model_->seed();
      model_->read_parameters(outer_->anchor);
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
  auto checkpoint = read_checkpoint(command_.checkpoint_folder, stage_, true);
  if (!checkpoint) return checkpoint_failure(checkpoint.error());
  if (checkpoint->spec.model != spec_.model || checkpoint->cut != cut_) {
    return Failure{ReplicaFailure::kInternal,
                   "the checkpoint holds another model than the job's, or another cut of it"};
  }
  if (checkpoint->spec.train.optimizer != spec_.train.optimizer) {
    return Failure{ReplicaFailure::kInternal,
                   "the checkpoint holds the moments of another train.optimizer than the job's"};
  }
  outer_->anchor = std::move(checkpoint->anchor);
  if (shares_adam()) {
    outer_->adam_m = std::move(checkpoint->adam_m);
    outer_->adam_v = std::move(checkpoint->adam_v);
  } else {
    adopt_momentum(std::move(checkpoint->momentum));
    model_->write_adam(checkpoint->adam_m, checkpoint->adam_v, checkpoint->adam_step);
  }
  return loaded();
}

// Sharded, a replica that comes from a checkpoint keeps all of it until the next commit.
void Replica::adopt_momentum(std::vector<float> momentum) {
  if (!sharded()) {
    outer_->momentum = std::move(momentum);
    return;
  }
  outer_->shards = outer_opt::MomentumShards(whole_);
  const std::span<float> all = outer_->shards.at(whole_.front());
  std::copy(momentum.begin(), momentum.end(), all.begin());
}

void Replica::start_fetch() {
  fetched_adam_ = std::make_unique<AdamCopy>();
  if (!shares_adam()) {
    fetched_adam_->m.resize(outer_->anchor.size());
    fetched_adam_->v.resize(static_cast<std::size_t>(model_->second_moment_count()));
  }
  background_.start([this](std::uint64_t number, std::stop_token stop) {
    const StateSource& source = command_.assign.source;
    outer_opt::StateSink sink{outer_->anchor, outer_->momentum,
                              shares_adam() ? outer_->adam_m : fetched_adam_->m,
                              shares_adam() ? outer_->adam_v : fetched_adam_->v};
    sink.moved = about_once_a_second([this, number](Bytes done, Bytes total) {
      context_.queue.push(FetchMoved{number, done, total});
    });
    Status status =
        context_.node.fetch_state(source.donor_address, source.donor, source.key, sink, stop);
    fetched_adam_->step = sink.adam_step;
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
  if (!shares_adam()) {
    model_->write_adam(fetched_adam_->m, fetched_adam_->v, fetched_adam_->step);
  }
  fetched_adam_.reset();
  return loaded();
}

MaybeFailure Replica::loaded() {
  if (auto failure = check_digests(command_.assign.source, *outer_)) return failure;
  const RoundKey key = command_.assign.source.key;
  model_->write_parameters(outer_->anchor);
  if (auto failure = place_vectors()) return failure;
  participant_.emplace(id_, key, outer_opt::when_late(spec_.sync.algorithm));
  if (spec_.sync.eager) eager_.emplace(fragments_);
  if (!in_pipeline() && context_.make_cell) cell_ = context_.make_cell(*model_);
  training_ = make_training();
  come_to_cut(key);
  held_digests_ = {digest_of(std::span<const float>(outer_->anchor)), momentum_digest(*outer_)};
  if (view_) training_->view(*view_);
  context_.shelf.publish(id_, key, outer_);
  say_loaded();
  return std::nullopt;
}

// Where the outer step is computed.
MaybeFailure Replica::place_vectors() {
  if (context_.accelerator == nullptr || !outer_opt::DeviceVectors::suits(spec_.sync)) {
    pseudo_gradient_.resize(outer_->anchor.size());
    average_.resize(outer_->anchor.size());
    return std::nullopt;
  }
  auto vectors = outer_opt::DeviceVectors::create(*context_.accelerator, model_->value_count());
  if (!vectors) {
    const bool full = vectors.error().code == Code::kResourceExhausted;
    return Failure{full ? ReplicaFailure::kOutOfMemory : ReplicaFailure::kDeviceLost,
                   to_string(vectors.error())};
  }
  device_ = std::move(*vectors);
  take_note(device_->load(outer_->anchor, outer_->momentum));
  return device_failure_;
}

std::unique_ptr<Training> Replica::make_training() {
  TrainingContext context{id_,
                          *model_,
                          data_,
                          [this] { return std::span<const float>(outer_->anchor); },
                          context_.say,
                          [this](const Trained& trained) { reach_boundary(trained); },
                          [this] { adopt_later(); },
                          [this](std::string text) { sampled(std::move(text)); },
                          cell_.get()};
  if (!in_pipeline()) return std::make_unique<LocalTraining>(std::move(context));
  const PipelinePlace place{stage_, static_cast<std::int32_t>(cut_.size()), participant_->held(),
                            held_step_};
  return std::make_unique<PipelineTraining>(std::move(context), place, context_.make_runtime);
}

void Replica::say_loaded() const {
  if (!participant_) return;
  Loaded loaded{id_,
                participant_->held(),
                digest_of(std::span<const float>(outer_->anchor)),
                momentum_digest(*outer_),
                model_->value_count(),
                context_.node.address()};
  if (data_) loaded.data = data_->digest();
  for (const auto& fragment : fragments_) {
    if (fragments_.size() > 1) loaded.fragments.push_back(outer_opt::value_count(fragment));
  }
  context_.say(loaded);
}

}  // namespace shoal::trainer
