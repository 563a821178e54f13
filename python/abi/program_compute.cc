#include "python/abi/program_compute.h"

#include <algorithm>
#include <cmath>

#include "base/wire_text.h"
#include "job/data_rules.h"
#include "proto/job_spec_text.h"
#include "python/abi/program_stage.h"
#include "replica/checkpoint/object_bundle.h"
#include "replica/checkpoint/part_reader.h"
#include "replica/checkpoint/part_writer.h"

namespace shoal::python {
namespace {

constexpr std::int64_t kValuesMax = std::int64_t{1} << 40;

shoal_order order_of(std::int32_t kind) {
  shoal_order order = {};
  order.kind = kind;
  return order;
}

shoal_order order_of(std::int32_t kind, std::span<const float> values) {
  shoal_order order = order_of(kind);
  order.values = const_cast<float*>(values.data());  // SHOAL_WRITE only reads them
  order.value_count = std::ssize(values);
  return order;
}

// The program writes its objects to the folder, or takes them from there.
shoal_order objects_order(std::int32_t kind, const std::string& folder, StageIndex stage,
                          std::int64_t stages) {
  shoal_order order = order_of(kind);
  order.text = folder.c_str();
  order.index = stage;
  order.count = stages;
  return order;
}

// What it has written. An Error: it refuses, and goes on.
Result<std::vector<FileEntry>> objects_of(Orders& orders, const shoal_order& order) {
  try {
    return orders.ask(order).files;
  } catch (const OrderFailed& failed) {
    if (failed.failure().kind != ReplicaFailure::kInternal) throw;
    return Error{Code::kDataLoss, failed.failure().detail, "", ""};
  }
}

replica::Failure refusal(const std::string& why) { return {ReplicaFailure::kInternal, why}; }

MaybeFailure check_spec(const replica::ComputeOrder& order) {
  if (order.spec.swarm.schedule == PipelineSchedule::kTwoBufferedWeights) {
    return refusal(
        "swarm.schedule: a Python program has one version of its weights, and '2bw' needs two "
        "(choose flush or 1f1b)");
  }
  if (order.spec.sync.algorithm == SyncAlgorithm::kDdp) {
    return refusal(
        "sync.algorithm: a Python program takes its own inner steps, which ddp does not allow "
        "(choose diloco, local_sgd, async or none)");
  }
  if (folder_of_weights(order.spec.model.init)) {
    return refusal(
        "model.init: a Python program loads the weights of a folder itself, before it calls "
        "replica.diloco() (leave it out, or name a checkpoint)");
  }
  return std::nullopt;
}

// The checkpoint is of a program whose model has as many values, cut into as many stages.
Status check_fits(const replica::PartHead& head, std::size_t stages, std::int64_t value_count) {
  if (!head.is_of_program()) {
    return Error{Code::kIncompatible, "the checkpoint was not written by a Python program", "",
                 "continue it with the trainer that wrote it"};
  }
  if (head.checkpoint.cut.size() != stages) {
    return Error{Code::kIncompatible,
                 "the checkpoint has " + std::to_string(head.checkpoint.cut.size()) +
                     " stages and the job " + std::to_string(stages),
                 "", "train with the stages that wrote it, or begin a job with its weights"};
  }
  const auto values = head.value_counts.find("anchor");
  const std::int64_t found = values == head.value_counts.end() ? 0 : values->second;
  if (found == value_count) return {};
  return Error{Code::kIncompatible,
               "the checkpoint has " + std::to_string(found) +
                   " trainable values and the program's model has " + std::to_string(value_count),
               "", "train with the model that wrote it"};
}

// 0: none, a negative size, or more than a model may have.
std::int64_t value_count(const TensorShape& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) {
    if (size < 1 || size > kValuesMax / count) return 0;
    count *= size;
  }
  return count;
}

MaybeFailure check_tensors(const std::vector<TensorShape>& tensors) {
  std::int64_t all = 0;
  for (const TensorShape& tensor : tensors) {
    const std::int64_t values = value_count(tensor);
    if (values == 0 || values > kValuesMax - all) {
      return refusal("the parameter " + tensor.name + " has no values, or too many");
    }
    all += values;
  }
  if (all > 0) return std::nullopt;
  return refusal("no parameter of the model requires gradients: there is nothing to train");
}

// They can be said: as many, and names that fit in a message.
bool can_be_told(const std::vector<TensorShape>& tensors) {
  return tensors.size() <= kTensorsMax &&
         std::ranges::all_of(tensors, [](const TensorShape& tensor) {
           return is_plain_text(tensor.name, kTensorNameBytesMax) &&
                  is_plain_text(tensor.type, kTensorTypeBytesMax) &&
                  tensor.shape.size() <= kTensorDimensionsMax;
         });
}

class ProgramCompute final : public replica::Compute {
 public:
  ProgramCompute(Orders& orders, const replica::ComputeOrder& order, Answer model)
      : orders_(orders),
        spec_(order.spec),
        stage_(order.stage),
        stages_(std::ssize(order.cut)),
        model_(std::move(model)) {
    for (const TensorShape& tensor : model_.tensors) {
      value_count_ += python::value_count(tensor);
    }
  }
  ~ProgramCompute() override { orders_.end(""); }

  const std::vector<TensorShape>& model_tensors() const { return model_.tensors; }

  std::int64_t value_count() const override { return value_count_; }
  void read_parameters(std::span<float> out) const override {
    orders_.ask(order_of(SHOAL_READ, out));
  }
  void write_parameters(std::span<const float> in) override {
    orders_.ask(order_of(SHOAL_WRITE, in));
  }
  // Only for ddp, which check_spec() refuses.
  void read_gradient(std::span<float> out) const override { std::ranges::fill(out, 0.0f); }
  void clear_gradient() override {}

  outer_opt::StageSizes sizes() const override {
    outer_opt::StageSizes sizes;
    sizes.blocks = block_sizes(model_.tensors);
    return sizes;
  }
  std::vector<outer_opt::DecayRange> decay_ranges() const override {
    return {{0, value_count_, false}};
  }
  Digest data() const override { return model_.data; }
  std::vector<TensorShape> tensors() const override {
    return can_be_told(model_.tensors) ? model_.tensors : std::vector<TensorShape>();
  }
  void will_train(const std::vector<DataLease>& leases) override { leases_ = leases; }
  MaybeFailure seed(const std::filesystem::path& checkpoint) override {
    const std::string path = checkpoint_of_weights(spec_.model.init) ? checkpoint.string() : "";
    shoal_order order = order_of(SHOAL_SEED);
    order.text = path.c_str();
    orders_.ask(order);
    return std::nullopt;
  }

  std::int64_t first_moment_count() const override { return 0; }
  std::int64_t second_moment_count() const override { return 0; }
  void read_adam(std::span<float>, std::span<float>) const override {}
  void write_adam(std::span<const float>, std::span<const float>, std::int64_t) override {}
  std::int64_t adam_step() const override { return 0; }

  bool has_own_state() const override { return true; }
  // Without files where the program refuses: then a joiner begins anew.
  std::vector<float> own_state() override {
    const replica::TemporaryFolder folder;
    const std::string path = folder.path().string();
    std::vector<FileEntry> files;
    if (!path.empty()) {
      const auto order = objects_order(SHOAL_WRITE_CHECKPOINT, path, stage_, stages_);
      if (auto written = objects_of(orders_, order)) files = std::move(*written);
    }
    auto bundle = replica::bundle_objects(folder.path(), files);
    if (!bundle) bundle = replica::bundle_objects(folder.path(), {});
    return std::move(*bundle);
  }
  void take_own_state(std::span<const float> state) override {
    const replica::TemporaryFolder folder;
    const std::string path = folder.path().string();
    const bool here = !path.empty() && replica::unbundle_objects(state, folder.path()).ok();
    if (here) orders_.ask(objects_order(SHOAL_READ_CHECKPOINT, path, stage_, stages_));
  }

  // The program takes its step before anybody sees the loss: one that is not finite shows in the
  // parameters, and the boundary finds it there.
  MaybeFailure train_step(Steps step, std::int64_t first, replica::StepResult& out) override {
    shoal_order order = order_of(SHOAL_TRAIN);
    order.step = step.count();
    order.first_sequence = first;
    order.sequences = spec_.train.batch;
    order.count = run_from(first);
    Answer answer = orders_.ask(order);
    for (LoggedValue& one : answer.logged) one.step = step + Steps(1);
    out = {answer.loss, 0, answer.lr, std::isfinite(answer.loss), std::move(answer.logged)};
    return std::nullopt;
  }
  MaybeFailure evaluate_batch(std::int64_t index, std::int64_t batches,
                              replica::EvalSum& sum) override {
    shoal_order order = order_of(SHOAL_EVALUATE);
    order.index = index;
    order.count = batches;
    order.sequences = spec_.train.batch;
    const Answer answer = orders_.ask(order);
    const Tokens tokens(spec_.train.batch * spec_.model.context);
    if (std::isnan(answer.loss)) return std::nullopt;  // the program has no such batch
    sum.loss_sum += answer.loss * static_cast<double>(tokens.count());
    sum.tokens += tokens;
    return std::nullopt;
  }
  MaybeFailure next_logits(std::span<const std::int64_t>, std::vector<float>&) override {
    return refusal("a Python program writes no samples");
  }
  std::vector<std::int64_t> prompt() const override { return {}; }
  std::unique_ptr<swarm::StageCompute> make_stage() override {
    orders_.ask(order_of(SHOAL_BEGIN));
    return std::make_unique<ProgramStage>(orders_, spec_, stage_);
  }

 private:
  // Sequences from `first` on that are leased one after the other.
  std::int64_t run_from(std::int64_t first) const {
    const auto run = std::ranges::find_if(leases_, [&](const DataLease& lease) {
      return lease.first <= first && first < lease.first + lease.count;
    });
    return run == leases_.end() ? spec_.train.batch : run->first + run->count - first;
  }

  Orders& orders_;
  const JobSpec spec_;
  const StageIndex stage_;
  const std::int64_t stages_;
  const Answer model_;
  std::int64_t value_count_ = 0;
  std::vector<DataLease> leases_;  // of the round
};

}  // namespace

std::vector<std::int64_t> block_sizes(const std::vector<TensorShape>& tensors) {
  const auto block_of = [](const std::string& name) {
    const auto digit = name.find_first_of("0123456789");
    const auto end = name.find('.', digit == std::string::npos ? 0 : digit);
    return digit == std::string::npos || end == std::string::npos ? name : name.substr(0, end);
  };
  std::vector<std::int64_t> sizes;
  std::string block;
  for (const TensorShape& tensor : tensors) {
    const std::string own = block_of(tensor.name);
    if (sizes.empty() || own != block) sizes.push_back(0);
    sizes.back() += value_count(tensor);
    block = own;
  }
  return sizes;
}

MaybeFailure ProgramHost::make(const replica::ComputeOrder& order,
                               std::unique_ptr<replica::Compute>& out) {
  if (used_) {
    return refusal("the program has trained its replica, and each replica starts one of its own");
  }
  if (auto failure = check_spec(order)) return failure;
  used_ = true;
  const std::string spec = proto::spec_to_json(order.spec).dump();
  shoal_order question = order_of(SHOAL_MODEL);
  question.index = order.stage;
  question.count = std::ssize(order.cut);
  question.value_count = parameter_count(order.spec.model);
  question.text = spec.c_str();
  Answer answer = orders_.ask(question);
  if (auto failure = check_tensors(answer.tensors)) return failure;
  auto compute = std::make_unique<ProgramCompute>(orders_, order, std::move(answer));
  tensors_ = compute->model_tensors();
  value_count_ = compute->value_count();
  stages_ = order.cut.size();
  out = std::move(compute);
  return std::nullopt;
}

MaybeFailure ProgramHost::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const OrderFailed& failed) {
    return failed.failure();
  } catch (const std::exception& problem) {
    return refusal(problem.what());
  }
  return std::nullopt;
}

// The program writes its objects first: what it refuses costs no weights.
Result<replica::WrittenPart> ProgramHost::write_checkpoint(
    const std::filesystem::path& folder, const replica::CheckpointContent& content) {
  if (Status s = replica::make_checkpoint_folder(folder); !s) return s.error();
  const std::string path = folder.string();
  auto objects = objects_of(
      orders_, objects_order(SHOAL_WRITE_CHECKPOINT, path, content.stage, std::ssize(content.cut)));
  if (!objects) return objects.error();
  replica::TrainerPart part{tensors_};
  part.objects = std::move(*objects);
  return replica::write_part(folder, content, part);
}

Result<replica::Checkpoint> ProgramHost::read_checkpoint(const std::filesystem::path& folder,
                                                         StageIndex stage) {
  auto head = replica::read_part(folder, stage);
  if (!head) return head.error();
  if (Status fits = check_fits(*head, stages_, value_count_); !fits) return fits.error();
  replica::Checkpoint checkpoint = head->checkpoint;
  const replica::PartReader reader(folder, stage, *head, checkpoint.key);
  if (Status s = reader.read_weights(tensors_, checkpoint.anchor); !s) return s.error();
  if (Status s = reader.read_outer(value_count_, checkpoint.outer); !s) return s.error();
  const std::string path = folder.string();
  orders_.ask(objects_order(SHOAL_READ_CHECKPOINT, path, stage, std::ssize(checkpoint.cut)));
  return checkpoint;
}

}  // namespace shoal::python
