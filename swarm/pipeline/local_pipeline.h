// A whole pipeline in one process, for tests and benchmarks: every replica has a thread, a peer
// node and a pipeline service of its own, real sockets between them, and a device that waits
// (timed_compute.h). The caller plays the coordinator: views, rounds and commits. Replicas can be
// killed and added in the middle.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "outer_opt/transport/peer_node.h"
#include "swarm/pipeline/stage_runtime.h"
#include "swarm/pipeline/timed_compute.h"
#include "threads/mutex.h"

namespace shoal::swarm {

struct LocalOptions {
  std::int32_t stages = 2;
  StageShape shape;
  Duration forward, backward;  // of one microbatch at speed 1
  double jitter = 0;
  ActivationCodec codec = ActivationCodec::kBf16;
  bool entropy_coding = false;
  PipelineSchedule schedule = PipelineSchedule::kFlush;
  LinkOptions link;
  Duration keepalive = seconds(4);
  double window_per_replica = 8;
  Duration unreachable_limit = seconds(10);
  std::size_t sample_tokens = 8;
  std::uint64_t seed = 1;
};

// What one replica has said so far.
struct LocalNews {
  std::vector<ReachBoundary> boundaries;
  std::vector<EvaluationDone> evaluations;
  std::vector<std::int64_t> steps;  // taken
  std::vector<Tokens> step_tokens;
  double last_loss = 0;                // router: mean of its last step
  std::vector<std::uint32_t> sampled;  // the likeliest tokens
  std::vector<std::string> cut_off;    // why, each time
  MaybeComputeFailure failure;
};

class LocalReplica final : public StageListener {
 public:
  LocalReplica(const LocalOptions& options, ReplicaId id, StageIndex stage, double speed,
               RoundNumber held, std::int64_t step, std::function<void()> changed);
  ~LocalReplica() override;  // closes its sockets at once, without saying goodbye

  PipelineMember member() const;
  void tell(std::function<void(StageRuntime&)> command);  // on its thread, soon
  LocalNews news();
  PipelineStats stats();  // waits for its thread
  std::size_t tasks();    // of the device, not forgotten; waits for its thread

  void stepped(std::int64_t step, Tokens tokens, const StageCompute::Stepped& stepped,
               double loss) override;
  void boundary(const ReachBoundary& boundary, const outer_opt::LeaseRuns& unused) override;
  void evaluated(const EvaluationDone& evaluated) override;
  void cut_off(const std::string& detail) override;
  bool next_token(std::span<const float> logits, std::vector<std::uint32_t>& window) override;

 private:
  void live(RoundNumber held, std::int64_t step) SHOAL_EXCLUDES(mutex_);
  void note(const std::function<void(LocalNews&)>& change) SHOAL_EXCLUDES(mutex_);
  template <typename T>
  T ask(const std::function<T(StageRuntime&)>& question);

  const LocalOptions options_;
  const ReplicaId id_;
  const StageIndex stage_;
  const double speed_;
  const std::function<void()> changed_;
  std::unique_ptr<outer_opt::PeerNode> node_;
  std::unique_ptr<PipelineService> service_;
  TimedCompute compute_;

  Mutex mutex_;
  CondVar awake_;
  std::deque<std::function<void(StageRuntime&)>> commands_ SHOAL_GUARDED_BY(mutex_);
  bool woken_ SHOAL_GUARDED_BY(mutex_) = false;
  bool stopped_ SHOAL_GUARDED_BY(mutex_) = false;
  LocalNews news_ SHOAL_GUARDED_BY(mutex_);
  std::thread thread_;
};

class LocalPipeline {
 public:
  explicit LocalPipeline(const LocalOptions& options) : options_(options) {}

  // Not in the view before tell_view().
  ReplicaId add(StageIndex stage, double speed = 1);
  void kill(ReplicaId id);  // still in the view before tell_view()
  void tell_view();
  // Opens the next round; its steps have `microbatches` in all, spread over the routers.
  void open(std::int64_t steps, std::int64_t microbatches);
  void commit();  // once every replica is at the boundary: all hold the round now

  LocalReplica& at(ReplicaId id) { return *replicas_.at(id); }
  std::vector<ReplicaId> ids() const;
  std::vector<ReplicaId> of(StageIndex stage) const;

  // Waits until `good`, which is evaluated after every change, is true. False if `limit` passes
  // first, or if a replica fails and `good` does not expect that.
  bool wait(Duration limit, const std::function<bool()>& good);
  bool wait_for_boundary(Duration limit);  // of the open round, at all replicas
  std::string failures();                  // of all replicas, in words
  std::int64_t step() const { return step_; }

 private:
  const LocalOptions options_;
  std::map<ReplicaId, std::unique_ptr<LocalReplica>> replicas_;
  std::map<ReplicaId, std::size_t> boundaries_;  // heard before this round
  std::uint64_t last_id_ = 0;
  std::int64_t view_ = 0, step_ = 0;
  RoundNumber held_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::uint64_t changes_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal::swarm
