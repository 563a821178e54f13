// See torch_compute.h.
#include "trainer/compute/torch_compute.h"

#include "base/number_text.h"
#include "job/data_rules.h"
#include "swarm/core/plan/cost_model.h"
#include "trainer/compute/checkpoint.h"
#include "trainer/compute/initial_weights.h"
#include "trainer/compute/job_tokenizer.h"
#include "trainer/model/block_timing.h"
#include "trainer/model/learner.h"
#include "trainer/model/stage_compute.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

std::string readable(Bytes bytes) { return size_text(static_cast<double>(bytes.count())); }

Bytes needed_memory(const replica::ComputeOrder& order) {
  if (order.cut.size() == 1) return training_memory(order.spec);
  JobSpec planned = order.spec;
  planned.swarm.stages = static_cast<std::int64_t>(order.cut.size());
  const swarm::CostModel costs(order.spec, swarm::cost_options(planned));
  return costs.memory(order.cut[static_cast<std::size_t>(order.stage)]);
}

MaybeFailure check_fits(Bytes needed, const DeviceChoice& device) {
  const Bytes there = device_memory(device);
  if (there.count() == 0 || needed <= there) return std::nullopt;
  return Failure{ReplicaFailure::kOutOfMemory,
                 "training needs " + readable(needed) + ", the device has " + readable(there) +
                     " (use a smaller model, train.microbatch or model.context)"};
}

class TorchCompute final : public replica::Compute {
 public:
  TorchCompute(std::unique_ptr<StageModel> model, std::shared_ptr<const Dataset> data,
               std::shared_ptr<const JobTokenizer> tokenizer,
               std::shared_ptr<SpecialTokens> special, std::unique_ptr<GroupLeader> replica_group,
               const data::DataRoots& roots, bool whole)
      : model_(std::move(model)),
        data_(std::move(data)),
        tokenizer_(std::move(tokenizer)),
        special_(std::move(special)),
        replica_group_(std::move(replica_group)),
        roots_(roots) {
    if (whole) learner_ = std::make_unique<Learner>(*model_, data_, replica_group_.get());
  }

  std::int64_t value_count() const override { return model_->value_count(); }
  void read_parameters(std::span<float> out) const override { model_->read_parameters(out); }
  void write_parameters(std::span<const float> in) override { model_->write_parameters(in); }
  bool reads_parts() const override { return true; }
  void read_part(std::int64_t first, std::span<float> out) const override {
    model_->read_part(first, out);
  }
  void visit_parameters(const Visit& visit) const override { model_->visit_parameters(visit); }
  void change_parameters(const Change& change) override { model_->change_parameters(change); }
  void read_gradient(std::span<float> out) const override { model_->read_gradient(out); }
  void clear_gradient() override { model_->clear_gradient(); }

  outer_opt::StageSizes sizes() const override {
    return stage_sizes(model_->spec().model, model_->units());
  }
  std::vector<outer_opt::DecayRange> decay_ranges() const override {
    return trainer::decay_ranges(parameter_layout(model_->spec().model, model_->units()));
  }
  Digest data() const override { return data_ ? data_->digest() : Digest(); }
  void will_train(const std::vector<DataLease>& leases) override {
    std::vector<data::SequenceRun> runs;
    for (const DataLease& lease : leases) runs.push_back({lease.first, lease.count});
    if (data_) data_->will_read(runs);
  }
  MaybeFailure seed(const std::filesystem::path& checkpoint) override {
    if (model_->spec().model.init.empty()) {
      model_->seed();
      return std::nullopt;
    }
    std::vector<float> initial(static_cast<std::size_t>(value_count()));
    const JobSpec& spec = model_->spec();
    const Status read = read_initial_weights(spec, model_->units(), roots_, checkpoint, initial);
    if (!read) return weights_failure(spec, read.error());
    if (checkpoint_of_weights(spec.model.init)) {
      auto special = special_tokens_of(checkpoint, spec.model.vocab);
      if (!special) return weights_failure(spec, special.error());
      *special_ = std::move(*special);
    }
    model_->start_from(initial);
    return std::nullopt;
  }

  std::int64_t second_moment_count() const override { return model_->second_moment_count(); }
  void read_adam(std::span<float> m, std::span<float> v) const override { model_->read_adam(m, v); }
  void write_adam(std::span<const float> m, std::span<const float> v, std::int64_t step) override {
    model_->write_adam(m, v, step);
  }
  std::int64_t adam_step() const override { return model_->adam_step(); }

  MaybeFailure train_step(Steps step, std::int64_t first, replica::StepResult& out) override {
    return learner_->train_step(step, first, out);
  }
  MaybeFailure evaluate_batch(std::int64_t index, std::int64_t batches,
                              replica::EvalSum& sum) override {
    return learner_->evaluate_batch(index, batches, sum);
  }
  MaybeFailure next_logits(std::span<const std::int64_t> tokens, std::vector<float>& out) override {
    return learner_->next_logits(tokens, out);
  }

  std::vector<std::int64_t> prompt() const override {
    const JobSpec& spec = model_->spec();
    const std::int64_t held_out = data_->validation_sequences(spec.eval.batches * spec.train.batch);
    std::vector<std::int64_t> window(static_cast<std::size_t>(spec.model.context) + 1);
    if (!data_->validation_sequence(0, held_out, window)) return {};
    window.pop_back();
    return window;
  }

  const tokenizer::TextTokenizer* tokenizer() const override {
    return tokenizer_ ? tokenizer_->tokenizer.get() : nullptr;
  }

  std::unique_ptr<swarm::StageCompute> make_stage() override {
    return std::make_unique<TorchStage>(*model_, data_);
  }
  float* parameters_in_place() override { return model_->parameters_in_place(); }
  void parameters_written() override { model_->parameters_written(); }

 private:
  std::unique_ptr<StageModel> model_;
  std::shared_ptr<const Dataset> data_;            // of stage 0, which draws
  std::shared_ptr<const JobTokenizer> tokenizer_;  // of stage 0; null: the job has none
  std::shared_ptr<SpecialTokens> special_;         // the host's
  std::unique_ptr<GroupLeader> replica_group_;     // null: this process computes alone
  data::DataRoots roots_;
  std::unique_ptr<Learner> learner_;  // of a whole model
};

// Reads the folder that the job begins from. A replica that joins later may be on a host without
// it: then the tokenizer of the job alone says what ends a text.
Result<SpecialTokens> tokens_of_init(const JobSpec& spec, const data::DataRoots& roots) {
  const auto folder = folder_of_weights(spec.model.init);
  if (!folder) return SpecialTokens();
  const auto read = [&](const std::string& name, std::uint64_t most) -> Result<std::string> {
    const std::string path = *folder + "/" + name;
    const auto fd = roots.open(path);
    if (!fd) return fd.error();
    return replica::read_text(*fd, path, most);
  };
  return special_tokens_of(read, *folder, spec.model.vocab);
}

}  // namespace

MaybeFailure TorchHost::make(const replica::ComputeOrder& order,
                             std::unique_ptr<replica::Compute>& out) {
  if (auto failure = check_fits(needed_memory(order), device_)) return failure;
  std::shared_ptr<const Dataset> data;
  tokenizer_.reset();
  special_ = std::make_shared<SpecialTokens>();
  if (order.stage == 0) {
    auto opened = Dataset::open(order.spec, roots_, read_);
    if (!opened) return data_failure(opened.error());
    data = std::move(*opened);
    auto tokenizer = open_job_tokenizer(order.spec, roots_, read_);
    if (!tokenizer) return data_failure(tokenizer.error());
    tokenizer_ = std::move(*tokenizer);
    auto special = tokens_of_init(order.spec, roots_);
    if (!special) return weights_failure(order.spec, special.error());
    *special_ = std::move(*special);
  }
  std::unique_ptr<StageModel> model;
  const UnitRange units = order.cut[static_cast<std::size_t>(order.stage)];
  if (auto failure = StageModel::create(order.spec, units, device_, model)) return failure;
  const bool whole = order.cut.size() == 1;
  std::unique_ptr<GroupLeader> replica_group;
  if (whole && make_replica_group_) replica_group = make_replica_group_(*model);
  out = std::make_unique<TorchCompute>(std::move(model), std::move(data), tokenizer_, special_,
                                       std::move(replica_group), roots_, whole);
  return std::nullopt;
}

Result<BlockTimes> TorchHost::measure_block(const MeasureBlock& asked) {
  BlockTimes times;
  if (const auto failure = time_block(asked.shape, device_, times)) {
    return Error{Code::kUnavailable, failure->detail, "", ""};
  }
  return times;
}

MaybeFailure TorchHost::guarded(const std::function<void()>& work) {
  return trainer::guarded(work);
}

Result<replica::WrittenPart> TorchHost::write_checkpoint(
    const std::filesystem::path& folder, const replica::CheckpointContent& content) {
  SpecialTokens special = *special_;
  if (tokenizer_) add_tokens_of(*tokenizer_->tokenizer, special);
  return trainer::write_checkpoint(folder, content, tokenizer_ ? tokenizer_->content : "", special);
}

Result<replica::Checkpoint> TorchHost::read_checkpoint(const std::filesystem::path& folder,
                                                       StageIndex stage) {
  auto checkpoint = trainer::read_checkpoint(folder, stage);
  if (!checkpoint || stage != 0) return checkpoint;
  auto special = special_tokens_of(folder, checkpoint->spec.model.vocab);
  if (special && !special->eos.empty()) *special_ = std::move(*special);
  return checkpoint;
}

Result<replica::Checkpoint> TorchHost::read_units(const std::filesystem::path& folder,
                                                  UnitRange units) {
  return trainer::read_units(folder, units);
}

}  // namespace shoal::trainer
