// What the pipeline needs of a device: forward, backward and the inner step of one stage, on host
// buffers. The trainer implements it with libtorch; tests and benchmarks with timed waits. Tensors
// live under the task they belong to until forget().
//
// With swarm.schedule = 2bw there are two versions of the weights, each with its own gradients:
// passes of step s + 1 are computed while step s is still open, and step(s) turns the weights that
// step s used into the newest ones, for step s + 2.
//
// Called from one thread only (the one that drives the StageRuntime). A failure makes the replica
// unusable; the caller reports it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "messages/agent_messages.h"
#include "messages/messages.h"
#include "swarm/core/session/stage_session.h"

namespace shoal::swarm {

struct ComputeFailure {
  ReplicaFailure kind = ReplicaFailure::kInternal;
  std::string detail;
};
using MaybeComputeFailure = std::optional<ComputeFailure>;

// Behind the last held-out sequence: an evaluation ends with a microbatch that is not full.
constexpr std::uint32_t kNoToken = 0xffffffff;

// What of the data goes with a microbatch from stage 0 to the last stage, in words of 32 bits.
enum class StageData {
  kTokens,  // [sequences][context + 1] tokens below vocab: inputs, and targets for the last stage;
            // a sequence of kNoToken is none, and counts for nothing
  kNumber   // two words, the lower one first: the number of its first sequence. Stage 0 and the
            // last one read the sequences themselves, which may be anything
};

// The shape of one microbatch in a stage; every tensor is fp32, row-major, rows = sequences *
// context.
struct StageShape {
  std::int64_t sequences = 1, context = 1, hidden = 1, vocab = 256;
  StageData data = StageData::kTokens;
  std::int64_t rows() const { return sequences * context; }
  // A kLogits pass is about one text.
  std::int64_t sequences_of(PassKind kind) const {
    return kind == PassKind::kLogits ? 1 : sequences;
  }
  std::int64_t data_words(PassKind kind) const {
    return data == StageData::kNumber ? 2 : sequences_of(kind) * (context + 1);
  }
};

// One microbatch on its way forward.
struct StagePass {
  std::int64_t step = 0;  // the inner step that it belongs to
  PassKind kind = PassKind::kTrain;
  std::span<const std::uint32_t> tokens;  // as StageData says; of use to stage 0 and the last one
  std::span<const float> input;           // [rows][hidden]; empty on stage 0
};

struct LossSum {
  double nats = 0;  // summed over tokens; meaningful on the last stage
  Tokens tokens;
};

class StageCompute {
 public:
  virtual ~StageCompute() = default;
  virtual StageShape shape() const = 0;

  // The data of a microbatch, as StageData says. kTrain: from sequence `first` of the seeded order
  // on; kLoss: held-out ones.
  virtual MaybeComputeFailure draw(const Microbatch& microbatch, std::int64_t first_sequence,
                                   std::vector<std::uint32_t>& tokens) = 0;

  // output: [rows][hidden]. A pass of kind kTrain is kept under `task`: its backward will follow.
  virtual MaybeComputeFailure forward(TaskId task, const StagePass& pass,
                                      std::vector<float>& output) = 0;
  // output_gradient of a sum over tokens (not a mean). input_gradient: empty on stage 0. `add`
  // false: the parameters' gradients stay as they are.
  virtual MaybeComputeFailure backward(TaskId task, std::span<const float> output_gradient,
                                       bool add, std::vector<float>& input_gradient) = 0;
  // Last stage. kTrain: loss and input_gradient, with `add` as above; kLoss: loss only; kLogits:
  // `input_gradient` takes the logits [1][vocab] of the last position. Nothing is kept.
  virtual MaybeComputeFailure last(const StagePass& pass, bool add, LossSum& loss,
                                   std::vector<float>& input_gradient) = 0;
  virtual void forget(TaskId task) = 0;

  // One AdamW step at the learning rate of `step` on the gradients added for it / tokens, then zero
  // them. tokens == 0: the weights stay. A gradient that is not finite skips the step; too many in
  // a row fail.
  struct Stepped {
    double gradient_norm = 0, lr = 0;
    bool finite = true;
    std::vector<LoggedValue> logged = {};  // that the user's program measured at this step
  };
  virtual MaybeComputeFailure step(std::int64_t step, Tokens tokens, Stepped& out) = 0;
  // Nothing is under way: passes of any step from here on use the newest weights.
  virtual MaybeComputeFailure settle() = 0;
};

}  // namespace shoal::swarm
