// The words of the job file for the values of job_spec.h.
#include "base/job_spec.h"

namespace shoal {

const char* to_string(ModelFamily value) { return value == ModelFamily::kLlama ? "llama" : "gpt2"; }
const char* to_string(Tokenizer value) { return value == Tokenizer::kBytes ? "bytes" : "uint16"; }
const char* to_string(Schedule value) { return value == Schedule::kCosine ? "cosine" : "constant"; }
const char* to_string(Precision value) { return value == Precision::kFp32 ? "fp32" : "bf16"; }
const char* to_string(Optimizer value) { return value == Optimizer::kAdamw ? "adamw" : "muon"; }
const char* to_string(SyncAlgorithm value) {
  switch (value) {
    case SyncAlgorithm::kNone:
      return "none";
    case SyncAlgorithm::kDiloco:
      return "diloco";
    case SyncAlgorithm::kLocalSgd:
      return "local_sgd";
    case SyncAlgorithm::kDdp:
      return "ddp";
    case SyncAlgorithm::kAsync:
      return "async";
  }
  return "unknown";
}
const char* to_string(OuterState value) {
  switch (value) {
    case OuterState::kReplicated:
      return "replicated";
    case OuterState::kSharded:
      return "sharded";
  }
  return "unknown";
}
const char* to_string(Topology value) {
  switch (value) {
    case Topology::kButterfly:
      return "butterfly";
    case Topology::kAllgather:
      return "allgather";
    case Topology::kRing:
      return "ring";
    case Topology::kParamServer:
      return "param_server";
    case Topology::kMoshpit:
      return "moshpit";
    case Topology::kGossip:
      return "gossip";
    case Topology::kAuto:
      return "auto";
  }
  return "unknown";
}
const char* to_string(Balance value) { return value == Balance::kEqual ? "equal" : "speed"; }
const char* to_string(Aggregator value) {
  switch (value) {
    case Aggregator::kMean:
      return "mean";
    case Aggregator::kTrimmedMean:
      return "trimmed_mean";
    case Aggregator::kCenteredClip:
      return "centered_clip";
  }
  return "unknown";
}
const char* to_string(CodecKind value) {
  switch (value) {
    case CodecKind::kFp32:
      return "fp32";
    case CodecKind::kInt8:
      return "int8";
    case CodecKind::kFp16:
      return "fp16";
    case CodecKind::kBf16:
      return "bf16";
    case CodecKind::kInt4:
      return "int4";
    case CodecKind::kE3m0:
      return "e3m0";
    case CodecKind::kSparse2:
      return "sparse2";
  }
  return "unknown";
}
const char* to_string(ActivationCodec value) {
  switch (value) {
    case ActivationCodec::kFp32:
      return "fp32";
    case ActivationCodec::kBf16:
      return "bf16";
    case ActivationCodec::kInt8:
      return "int8";
  }
  return "unknown";
}
const char* to_string(Recompute value) { return value == Recompute::kKeep ? "keep" : "recompute"; }
const char* to_string(PipelineSchedule value) {
  switch (value) {
    case PipelineSchedule::kFlush:
      return "flush";
    case PipelineSchedule::kOneForwardOneBackward:
      return "1f1b";
    case PipelineSchedule::kTwoBufferedWeights:
      return "2bw";
  }
  return "unknown";
}
const char* to_string(WiringPolicy value) {
  switch (value) {
    case WiringPolicy::kServiceTime:
      return "service_time";
    case WiringPolicy::kSticky:
      return "sticky";
    case WiringPolicy::kRandom:
      return "random";
  }
  return "unknown";
}

}  // namespace shoal
