// See learner.h. On the CPU batches are gathered into one host tensor that is reused, where the
// model reads them. For a device each gets pinned memory, which libtorch uses again when its copy
// is over.
#include "trainer/model/learner.h"

#include <algorithm>

#include "base/check.h"
#include "trainer/model/microbatch_pass.h"
#include "trainer/model/slowdown.h"
#include "trainer/model/stage_model_parts.h"

namespace shoal::trainer {

namespace {

Tokens tokens_per_step(const JobSpec& spec) {
  return Tokens(spec.train.batch * spec.model.context);
}

}  // namespace

struct Learner::Passes {
  Passes(StageModel::Parts& parts, MakeCapturedWork make)
      : training(parts.model, parts.spec.train.microbatch,
                 1.0 / static_cast<double>(parts.spec.train.batch * parts.spec.model.context),
                 std::move(make)) {}

  torch::Tensor tokens;  // [sequences, context + 1] int64
  MicrobatchPass training;
};

Learner::Learner(StageModel& model, std::shared_ptr<const Dataset> data, GroupLeader* replica_group)
    : Learner(model, std::move(data), replica_group, cuda_graphs_of(model.parts().choice)) {}

Learner::Learner(StageModel& model, std::shared_ptr<const Dataset> data, GroupLeader* replica_group,
                 MakeCapturedWork make)
    : model_(model),
      data_(std::move(data)),
      replica_group_(replica_group),
      passes_(std::make_unique<Passes>(model.parts(), std::move(make))) {
  SHOAL_CHECK(model.units() == whole_model(model.spec().model), "a learner has the whole model");
}
Learner::~Learner() = default;

MaybeFailure Learner::gather(bool held_out, std::int64_t first, std::int64_t count,
                             std::int64_t total) {
  const std::int64_t width = model_.spec().model.context + 1;
  torch::Tensor& batch = passes_->tokens;
  const bool pinned = model_.parts().device.is_cuda();
  if (pinned || !batch.defined() || batch.size(0) != count) {
    batch = torch::empty({count, width},
                         torch::TensorOptions().dtype(torch::kInt64).pinned_memory(pinned));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::span row(batch.data_ptr<std::int64_t>() + i * width,
                        static_cast<std::size_t>(width));
    const Status read = held_out ? data_->validation_sequence(first + i, total, row)
                                 : data_->training_sequence(first + i, row);
    if (!read) return data_failure(read.error());
  }
  return std::nullopt;
}

// Runs `work` under guarded(). If the device has no memory left, what a CUDA graph keeps is given
// up for a second try.
MaybeFailure Learner::with_room(const std::function<MaybeFailure()>& work) {
  for (;;) {
    MaybeFailure failure;
    const MaybeFailure thrown = guarded([&] { failure = work(); });
    const bool full = thrown && thrown->kind == ReplicaFailure::kOutOfMemory;
    if (!full || !passes_->training.release()) return failure ? failure : thrown;
  }
}

// Gradient and loss of the mean over the batch, as far as they come from these sequences.
MaybeFailure Learner::accumulate(const swarm::GroupShare& share, double& loss) {
  const TrainSpec& train = model_.spec().train;
  MicrobatchPass& training = passes_->training;
  training.begin();
  for (std::int64_t done = 0; done < share.count; done += train.microbatch) {
    const std::int64_t count = std::min(train.microbatch, share.count - done);
    if (auto failure = gather(false, share.first + done, count, 0)) return failure;
    training.add(passes_->tokens);
  }
  loss = training.loss();
  return std::nullopt;
}

MaybeFailure Learner::compute_share(const swarm::GroupShare& share, double& loss) {
  const SlowedPiece piece(model_.parts().choice.speed);
  loss = 0;
  return with_room([&] { return accumulate(share, loss); });
}

MaybeFailure Learner::take_step(Steps step, StepResult& out) {
  StageModel::Parts& parts = model_.parts();
  const SlowedPiece piece(parts.choice.speed);
  MaybeFailure failure;
  const MaybeFailure thrown =
      guarded([&] { failure = parts.take_step(step, tokens_per_step(parts.spec), 1.0, out); });
  return failure ? failure : thrown;
}

MaybeFailure Learner::train_step(Steps step, std::int64_t first_sequence, StepResult& out) {
  out = {};
  const auto compute = [this](const swarm::GroupShare& share, double& loss) {
    return compute_share(share, loss);
  };
  const swarm::GroupShare batch{first_sequence, model_.spec().train.batch};
  auto failure = replica_group_ != nullptr
                     ? replica_group_->gradient(step, batch, compute, out.loss)
                     : compute(batch, out.loss);
  return failure ? failure : take_step(step, out);
}

MaybeFailure Learner::evaluate(std::int64_t index, std::int64_t batches, EvalSum& sum) {
  StageModel::Parts& parts = model_.parts();
  const TrainSpec& train = parts.spec.train;
  const std::int64_t context = parts.spec.model.context;
  const std::int64_t total = data_->validation_sequences(batches * train.batch);
  const std::int64_t first = index * train.batch, end = std::min(first + train.batch, total);
  const torch::NoGradGuard no_grad;
  for (std::int64_t at = first; at < end; at += train.microbatch) {
    const std::int64_t count = std::min(train.microbatch, end - at);
    if (auto failure = gather(true, at, count, total)) return failure;
    const auto tokens = passes_->tokens.to(parts.device);
    const auto loss =
        parts.model.loss(tokens.narrow(1, 0, context), tokens.narrow(1, 1, context), 1.0);
    sum.loss_sum += loss.item<double>();
    sum.tokens += Tokens(count * context);
  }
  return std::nullopt;
}

MaybeFailure Learner::evaluate_batch(std::int64_t index, std::int64_t batches, EvalSum& sum) {
  const SlowedPiece piece(model_.parts().choice.speed);
  EvalSum added;
  const auto failure = with_room([&] {
    added = sum;
    return evaluate(index, batches, added);
  });
  sum = added;
  return failure;
}

MaybeFailure Learner::next_logits(std::span<const std::int64_t> tokens, std::vector<float>& out) {
  StageModel::Parts& parts = model_.parts();
  const auto length = static_cast<std::int64_t>(tokens.size());
  SHOAL_CHECK(length > 0 && length <= parts.spec.model.context);
  return with_room([&]() -> MaybeFailure {
    const torch::NoGradGuard no_grad;
    const auto input =
        torch::from_blob(const_cast<std::int64_t*>(tokens.data()), {1, length}, torch::kInt64);
    const auto logits = parts.model.logits(input.to(parts.device));
    const auto last = logits[length - 1].to(torch::kFloat32).cpu().contiguous();
    out.assign(last.data_ptr<float>(), last.data_ptr<float>() + last.numel());
    return std::nullopt;
  });
}

}  // namespace shoal::trainer
