// The choices of the job file, each with its words. A new word goes to the end of its list: codecs
// and topologies go by their number on the wire.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/enumerators.h"

namespace shoal {

enum class ModelFamily { kLlama, kGpt2 };
constexpr auto enumerators_of(Of<ModelFamily>) {
  using enum ModelFamily;
  return enumerators<ModelFamily>({{kLlama, "llama"}, {kGpt2, "gpt2"}});
}

// How rotary positions reach beyond the context that a model was first trained with. linear: angles
// divided by a factor (Chen et al. 2023). llama3: slow angles divided by it, fast ones kept, those
// between blended (as Llama 3.1 does).
enum class RopeScaling { kNone, kLinear, kLlama3 };
constexpr auto enumerators_of(Of<RopeScaling>) {
  using enum RopeScaling;
  return enumerators<RopeScaling>({{kNone, "none"}, {kLinear, "linear"}, {kLlama3, "llama3"}});
}

// Which trainer works on a job: shoal-trainer, or a Python program of the user's.
enum class TrainerKind { kBuiltin, kPython };
constexpr auto enumerators_of(Of<TrainerKind>) {
  using enum TrainerKind;
  return enumerators<TrainerKind>({{kBuiltin, "builtin"}, {kPython, "python"}});
}

// How tokens lie in a file: text as bytes; .bin files of little-endian uint16 or uint32.
enum class Tokenizer { kBytes, kUint16, kUint32 };
constexpr auto enumerators_of(Of<Tokenizer>) {
  using enum Tokenizer;
  return enumerators<Tokenizer>({{kBytes, "bytes"}, {kUint16, "uint16"}, {kUint32, "uint32"}});
}

enum class Schedule { kCosine, kConstant };  // after the warm-up
constexpr auto enumerators_of(Of<Schedule>) {
  using enum Schedule;
  return enumerators<Schedule>({{kCosine, "cosine"}, {kConstant, "constant"}});
}

enum class Precision { kFp32, kBf16 };
constexpr auto enumerators_of(Of<Precision>) {
  using enum Precision;
  return enumerators<Precision>({{kFp32, "fp32"}, {kBf16, "bf16"}});
}

// The inner optimizer. muon: orthogonalized momentum for the matrices of the blocks, AdamW for the
// rest.
enum class Optimizer { kAdamw, kMuon };
constexpr auto enumerators_of(Of<Optimizer>) {
  using enum Optimizer;
  return enumerators<Optimizer>({{kAdamw, "adamw"}, {kMuon, "muon"}});
}

// What a replica that joins starts its inner optimizer with: moments of zero, or those of another
// replica. auto: fresh, but with ddp moments, which are a part of the common state there.
enum class JoinMoments { kAuto, kFresh, kMoments };
constexpr auto enumerators_of(Of<JoinMoments>) {
  using enum JoinMoments;
  return enumerators<JoinMoments>({{kAuto, "auto"}, {kFresh, "fresh"}, {kMoments, "moments"}});
}

// none: one agent alone. diloco: inner AdamW, outer Nesterov on averaged pseudo-gradients.
// local_sgd: parameters are averaged (outer lr 1, no momentum). ddp: gradients are averaged at
// every inner step and all replicas take the same AdamW step, the synchronous baseline; a round is
// one inner step. async: a round commits once sync.quorum replicas have reported, the others
// continue and count later; outer momentum is delayed Nesterov.
enum class SyncAlgorithm { kNone, kDiloco, kLocalSgd, kDdp, kAsync };
constexpr auto enumerators_of(Of<SyncAlgorithm>) {
  using enum SyncAlgorithm;
  return enumerators<SyncAlgorithm>({{kNone, "none"},
                                     {kDiloco, "diloco"},
                                     {kLocalSgd, "local_sgd"},
                                     {kDdp, "ddp"},
                                     {kAsync, "async"}});
}

// What members send to each other in a reduce (outer_opt/core/*_session.h); auto: chosen at each
// freeze by member count, bandwidths and codec. param_server: parts belong to agents with the role
// reducer, which train nothing. moshpit, gossip: groups of a grid, random pairs; a round averages
// within each.
enum class Topology { kButterfly, kAllgather, kRing, kParamServer, kMoshpit, kGossip, kAuto };
constexpr auto enumerators_of(Of<Topology>) {
  using enum Topology;
  return enumerators<Topology>({{kButterfly, "butterfly"},
                                {kAllgather, "allgather"},
                                {kRing, "ring"},
                                {kParamServer, "param_server"},
                                {kMoshpit, "moshpit"},
                                {kGossip, "gossip"},
                                {kAuto, "auto"}});
}

// equal: every replica takes sync.every inner steps. speed: in proportion to its speed, the fastest
// takes sync.every (DyLU of Async Local-SGD).
enum class Balance { kEqual, kSpeed };
constexpr auto enumerators_of(Of<Balance>) {
  using enum Balance;
  return enumerators<Balance>({{kEqual, "equal"}, {kSpeed, "speed"}});
}

// How the average of a round moves the anchor (outer_opt/core/step/outer_optimizer.h).
enum class OuterMethod { kNesterov, kSgd, kAdam };
constexpr auto enumerators_of(Of<OuterMethod>) {
  using enum OuterMethod;
  return enumerators<OuterMethod>({{kNesterov, "nesterov"}, {kSgd, "sgd"}, {kAdam, "adam"}});
}

inline constexpr std::string_view kMomentum[] = {"momentum"};
inline constexpr std::string_view kAdamVectors[] = {"adam_m", "adam_v"};
inline constexpr std::string_view kAdamOptions[] = {"beta1", "beta2", "eps"};

// What a job knows of a method without its formula; a row of each, in the order of the enum.
struct OuterTraits {
  OuterMethod method;
  double lr;  // the default of sync.outer.lr
  // State vectors. Checkpoints keep "momentum" as "outer_momentum", in a file of the role
  // "outer/momentum"; so a name never changes.
  std::span<const std::string_view> vectors;
  std::span<const std::string_view> options;  // keys of [sync.outer] that it reads, besides lr
};
inline constexpr OuterTraits kOuterTraits[] = {
    {OuterMethod::kNesterov, 0.9, kMomentum, kMomentum},
    {OuterMethod::kSgd, 0.9, kMomentum, kMomentum},
    {OuterMethod::kAdam, 0.01, kAdamVectors, kAdamOptions},
};
constexpr const OuterTraits& traits_of(OuterMethod method) {
  return kOuterTraits[static_cast<std::size_t>(method)];
}
static_assert([] {
  std::size_t row = 0;
  for (const OuterTraits& traits : kOuterTraits) {
    if (static_cast<std::size_t>(traits.method) != row++) return false;
  }
  return row == enumerator_count<OuterMethod>();
}());

// Where outer momentum is kept: whole at every replica, or each owner of a part only that part.
enum class OuterState { kReplicated, kSharded };
constexpr auto enumerators_of(Of<OuterState>) {
  using enum OuterState;
  return enumerators<OuterState>({{kReplicated, "replicated"}, {kSharded, "sharded"}});
}

// How the members' pseudo-gradients become one (docs/reduce_protocol.md).
enum class Aggregator { kMean, kTrimmedMean, kCenteredClip };
constexpr auto enumerators_of(Of<Aggregator>) {
  using enum Aggregator;
  return enumerators<Aggregator>(
      {{kMean, "mean"}, {kTrimmedMean, "trimmed_mean"}, {kCenteredClip, "centered_clip"}});
}

// How pseudo-gradients travel (outer_opt/core/codec/codec.h); the order is that of the numbers on
// the wire.
enum class CodecKind { kFp32, kInt8, kFp16, kBf16, kInt4, kE3m0, kSparse2, kE5m2 };
constexpr auto enumerators_of(Of<CodecKind>) {
  using enum CodecKind;
  return enumerators<CodecKind>({{kFp32, "fp32"},
                                 {kInt8, "int8"},
                                 {kFp16, "fp16"},
                                 {kBf16, "bf16"},
                                 {kInt4, "int4"},
                                 {kE3m0, "e3m0"},
                                 {kSparse2, "sparse2"},
                                 {kE5m2, "e5m2"}});
}

// What crosses a stage boundary; int8: one fp32 scale per block.
enum class ActivationCodec { kFp32, kBf16, kInt8 };
constexpr auto enumerators_of(Of<ActivationCodec>) {
  using enum ActivationCodec;
  return enumerators<ActivationCodec>({{kFp32, "fp32"}, {kBf16, "bf16"}, {kInt8, "int8"}});
}

enum class Recompute { kKeep, kRecompute };  // keep the graph, or only the stage's input
constexpr auto enumerators_of(Of<Recompute>) {
  using enum Recompute;
  return enumerators<Recompute>({{kKeep, "keep"}, {kRecompute, "recompute"}});
}

// flush: as many microbatches in flight as keep every replica busy. 1f1b: only as many as there are
// replicas, backwards first; less memory, slower over latency. 2bw: two weight versions and no
// barrier between inner steps; gradients are one step old.
enum class PipelineSchedule { kFlush, kOneForwardOneBackward, kTwoBufferedWeights };
constexpr auto enumerators_of(Of<PipelineSchedule>) {
  using enum PipelineSchedule;
  return enumerators<PipelineSchedule>(
      {{kFlush, "flush"}, {kOneForwardOneBackward, "1f1b"}, {kTwoBufferedWeights, "2bw"}});
}

}  // namespace shoal
