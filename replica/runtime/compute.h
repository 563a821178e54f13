// What a trainer adds to the replica: how one stage of a model computes. Everything else that a
// replica does (rounds, outer steps, transfers, checkpoints' moments, the talk with the agent) is
// here once, for every trainer. No tensor library: values are flat vectors of float32 in host
// memory.
//
// One thread at a time, the compute thread's. A method that returns a failure leaves the replica
// unusable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "base/units.h"
#include "job/job_spec.h"
#include "messages/block_times.h"
#include "outer_opt/core/round/round.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/shared_adamw.h"
#include "replica/checkpoint/content.h"
#include "replica/core/local_parameters.h"
#include "replica/runtime/failure.h"
#include "swarm/pipeline/stage_compute.h"

namespace shoal::outer_opt {
class Accelerator;
}
namespace shoal::tokenizer {
class TextTokenizer;
}

namespace shoal::replica {

struct StepResult {
  double loss = 0;           // nats per token, before the step; 0 where it is not known
  double gradient_norm = 0;  // of the mean over tokens, before clipping
  double lr = 0;
  bool finite = true;                    // false: the step was skipped
  std::vector<LoggedValue> logged = {};  // that the user's program measured since the step before
};

struct EvalSum {
  double loss_sum = 0;  // nats
  Tokens tokens;
};

class Compute : public LocalParameters {
 public:
  // ---- what it is
  // How the vector is made of embedding, blocks and head; which values decay.
  virtual outer_opt::StageSizes sizes() const = 0;
  virtual std::vector<outer_opt::DecayRange> decay_ranges() const = 0;
  virtual Digest data() const = 0;  // of the training data; zero: this stage reads none
  // The tensors of a model that the spec does not describe, for LoadProgress; else none.
  virtual std::vector<TensorShape> tensors() const { return {}; }
  // The sequences of the seeded order that this replica trains on next, a round's: what it may
  // fetch before it is asked for them. Nobody else trains on them.
  virtual void will_train(const std::vector<DataLease>& leases) { (void)leases; }
  // The job's initial parameters. With model.init they are read, which may fail: from a folder
  // beneath a data root, or from `checkpoint`, the files of the one that it names (else empty).
  virtual MaybeFailure seed(const std::filesystem::path& checkpoint) = 0;

  // ---- the inner optimizer's moments
  // `m` has first_moment_count() values, `v` second_moment_count(), which may be fewer; none where
  // the optimizer is not AdamW's kin, whose state is the Compute's own affair.
  virtual std::int64_t first_moment_count() const { return value_count(); }
  virtual std::int64_t second_moment_count() const = 0;
  virtual void read_adam(std::span<float> m, std::span<float> v) const = 0;
  virtual void write_adam(std::span<const float> m, std::span<const float> v,
                          std::int64_t step) = 0;
  virtual std::int64_t adam_step() const = 0;

  // ---- the state of a program that only its replica has: optimizers, kept objects, buffers
  // For joiners with train.join = moments, in place of the moments above. Bytes in whole values.
  virtual bool has_own_state() const { return false; }
  virtual std::vector<float> own_state() { return {}; }
  virtual void take_own_state(std::span<const float> state) { (void)state; }

  // ---- a whole model
  // One inner step on train.batch sequences from `first_sequence` on of the seeded order, at the
  // learning rate of `step`; with sync.algorithm = ddp only its gradient.
  virtual MaybeFailure train_step(Steps step, std::int64_t first_sequence, StepResult& out) = 0;
  // Adds batch `index` of `batches` held-out ones; nothing when there is no such batch.
  virtual MaybeFailure evaluate_batch(std::int64_t index, std::int64_t batches, EvalSum& sum) = 0;
  // The logits of the token that follows `tokens`, at most `context` of them.
  virtual MaybeFailure next_logits(std::span<const std::int64_t> tokens,
                                   std::vector<float>& out) = 0;
  // ---- stage 0
  // A held-out window of `context` tokens, from which a sample continues; empty: there is none.
  virtual std::vector<std::int64_t> prompt() const = 0;
  // What makes text of the tokens (data.tokenizer_file); null: they are bytes, or numbers.
  virtual const tokenizer::TextTokenizer* tokenizer() const { return nullptr; }

  // ---- a stage of a pipeline
  // With no task kept; this outlives it.
  virtual std::unique_ptr<swarm::StageCompute> make_stage() = 0;

  // ---- on a device
  // The parameters where they lie there, and nothing that was begun still uses them; whoever writes
  // there says so afterwards. Null: nobody else can reach them.
  virtual float* parameters_in_place() { return nullptr; }
  virtual void parameters_written() {}
};

struct ComputeOrder {
  const JobSpec& spec;                // derived fields filled
  const std::vector<UnitRange>& cut;  // one range: the whole model
  StageIndex stage = 0;
};

// The process that computes.
class ComputeHost {
 public:
  virtual ~ComputeHost() = default;

  // The parameters are zeros until seed() or write_parameters().
  virtual MaybeFailure make(const ComputeOrder& order, std::unique_ptr<Compute>& out) = 0;
  // Runs `work`; what it throws becomes a failure.
  virtual MaybeFailure guarded(const std::function<void()>& work) = 0;
  // What its device takes for such a model, in about a second. No Compute exists.
  virtual Result<BlockTimes> measure_block(const MeasureBlock& asked) {
    (void)asked;
    return Error{Code::kIncompatible, "this trainer measures no blocks", "", ""};
  }
  // Where the outer step is computed when the job suits (outer_opt::DeviceVectors); null: on the
  // host, as for all other jobs.
  virtual outer_opt::Accelerator* accelerator() { return nullptr; }

  // The files of a checkpoint, one stage's (replica/checkpoint/part_file.h). write: creates the
  // folder where it is missing and replaces files of the same names; everything is synced. read:
  // kDataLoss when a digest does not match or files are of different rounds.
  virtual Result<WrittenPart> write_checkpoint(const std::filesystem::path& folder,
                                               const CheckpointContent& content) = 0;
  virtual Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                             StageIndex stage) = 0;
  // The units of a stage from a checkpoint of another cut, whose parts that have some of them are
  // in the folder. `cut` of the result is that of the checkpoint.
  virtual Result<Checkpoint> read_units(const std::filesystem::path& folder, UnitRange units) {
    (void)folder, (void)units;
    return Error{Code::kIncompatible, "this trainer loads no checkpoint of another cut", "", ""};
  }
  // Whether another thread may call write_checkpoint(), and guarded() around it, while the compute
  // thread trains; one at a time.
  virtual bool writes_beside_training() const { return false; }
};

}  // namespace shoal::replica
