// One replica in the pipeline, for real: a StageSession driven over streams and a device. It
// moves activations and their gradients (encoded as swarm.activations says) between neighbors and
// knows nothing of rounds beyond their numbers, nor of the coordinator.
//
// Threads: work() and the commands belong to the compute thread. Frames arrive on the node's I/O
// thread, are checked and decoded there or, if they are large, on another one, and wait in a
// bounded inbox; `wake` is called from these threads, once per change from empty. Sends return at
// once; what waits to be sent is bounded by the credits.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "outer_opt/core/round/lease_runs.h"
#include "swarm/core/session/stage_session.h"
#include "swarm/pipeline/stage_compute.h"
#include "wire/stream/peers.h"

namespace shoal::swarm {

// The pipeline's part of a trainer's peer port. The peers outlive it; replicas come and go behind
// it, and have all gone when it ends.
class PipelineService {
 public:
  static std::unique_ptr<PipelineService> create(wire::stream::Peers& peers);
  virtual ~PipelineService() = default;
};

struct StageRuntimeOptions {
  SessionOptions session;
  JobId job;
  std::int64_t epoch = 0;
  ActivationCodec codec = ActivationCodec::kBf16;
  std::int64_t batch = 1;  // sequences of one evaluated batch: whole microbatches
};

// What the owner of the replica hears. Called from work() and from commands; must not call the
// runtime back.
class StageListener {
 public:
  virtual ~StageListener() = default;
  virtual void stepped(std::int64_t step, Tokens tokens, const StageCompute::Stepped& stepped,
                       double loss) = 0;  // loss: router's mean of that step, else 0
  // `unused`: of a router's lease, leased and not trained
  // (outer_opt/core/participant/router_lease.h)
  virtual void boundary(const ReachBoundary& boundary, const outer_opt::LeaseRuns& unused) = 0;
  virtual void evaluated(const EvaluationDone& evaluated) = 0;
  // Why no replica of the next stage can be reached; the stage continues when one can.
  virtual void cut_off(const std::string& detail) = 0;
  // The answer to sample(): `logits` of the next token. True: the window that it put into `window`
  // is to be continued.
  virtual bool next_token(std::span<const float> logits, std::vector<std::uint32_t>& window) = 0;
};

class StageRuntime {
 public:
  static std::unique_ptr<StageRuntime> create(const StageRuntimeOptions& options,
                                              PipelineService& service, StageCompute& compute,
                                              StageListener& listener, std::function<void()> wake,
                                              RoundNumber held, std::int64_t step);
  virtual ~StageRuntime() = default;  // closes the streams

  virtual void view(const PipelineView& view) = 0;
  virtual void open(const OpenRound& round) = 0;
  virtual void close() = 0;
  virtual void stop() = 0;
  virtual void committed(RoundNumber round, std::int64_t step) = 0;
  virtual void evaluate(const RoundKey& key, const EvalSlice& slice) = 0;
  // Router, after committed(): asks for the logits after `window`, `context` tokens, as long as the
  // listener wants more. The first step of the next round is not over before; end_sample() ends it.
  virtual void sample(std::vector<std::uint32_t> window) = 0;
  virtual void end_sample() = 0;

  // Takes in what has arrived, then computes at most one pass. Returns false when there was nothing
  // to compute; `wait` then says how long nothing will change by time alone. A failure, also one of
  // a command before, is the end: the runtime does nothing any more.
  virtual bool work(MaybeComputeFailure& failure, Duration& wait) = 0;

  virtual PipelineStats stats() = 0;  // of the time since the last call
};

}  // namespace shoal::swarm
