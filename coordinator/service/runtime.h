// The production driver of the core: one thread feeds it inputs and ticks, the store makes its
// records durable, the delivery thread performs everything else in order (delivery.h). Progress of
// agents also goes to telemetry and to the live view. A write that fails ends the process: nothing
// may be said that is not durable, and the folder is sound at the next start.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/core/coordinator.h"
#include "coordinator/service/agent_port.h"
#include "coordinator/service/cluster.h"
#include "coordinator/service/delivery.h"
#include "coordinator/service/live_view.h"
#include "coordinator/service/record_observer.h"
#include "coordinator/service/telemetry_exporter.h"
#include "threads/clock.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

struct RuntimeOptions {
  Options core;
  std::string checkpoint_root;
  std::vector<CheckpointRecord> found_checkpoints;   // Booted.found
  RecordKeys record_keys;                            // Booted.record_keys
  std::size_t inputs_max = 65'536;                   // waiting for the core
  std::size_t inputs_per_stream = 8'192;             // of these, from one agent's stream
  std::size_t requests_max = 1'024;                  // commands waiting for their answer
  std::function<void(const Error&)> on_fatal;        // a write failed; must end the process
  std::function<void(const EventRecord&)> on_event;  // became durable; delivery thread
  std::function<void(Instant now, const Record&)> on_record = nullptr;  // likewise; null: nobody
  std::function<void(const NoteDecision&)> on_decision = nullptr;       // likewise
  std::shared_ptr<Meters> meters = std::make_shared<Meters>();
  // On the core's thread, whenever it turns, and at least so often. Zero: only when it turns.
  std::function<void()> on_turn;
  Duration turn_every;
};

class Runtime final : public Cluster, public InputPort {
 public:
  // Loads the snapshot into a core. `store` must outlive the runtime.
  static Result<std::unique_ptr<Runtime>> create(RuntimeOptions options, Store& store);
  ~Runtime() override;

  // The digest of the loaded state, equal to that of --check-store; only before start().
  Digest digest() const { return core_->digest(); }
  // The records of checkpoints at start, for the agents' side.
  const std::vector<CheckpointRecord>& checkpoints_at_start() const { return checkpoints_; }

  void start(AgentPort& agents);  // Booted, then whatever was posted before
  // From now on records are signed with the newest of these.
  void change_record_keys(RecordKeys keys) { post(RecordKeysChanged{std::move(keys)}); }
  // Takes no more input, finishes what is queued, waits for the store; false when the limit was too
  // short. The agents' side is not called any more when it returns. Waiting commands are answered
  // with kUnavailable.
  bool stop(Duration limit);

  // Cluster
  void submit(NewJob job, bool dry_run, std::function<void(Answer)> done) override;
  void cancel(JobId job, std::function<void(Answer)> done) override;
  void pause(JobId job, std::function<void(Answer)> done) override;
  void resume(JobId job, ObjectUser by, std::function<void(Answer)> done) override;
  void change(ChangeJob command, std::function<void(Answer)> done) override;
  void remove_job(JobId job, std::vector<CheckpointRecord> aside,
                  std::function<void(Answer)> done) override;
  void command_checkpoint(CommandCheckpoint command, std::function<void(Answer)> done) override;
  void command_agent(AgentId agent, AgentVerb verb, std::function<void(Answer)> done) override;
  void read_logs(AgentId agent, const LogQuery& query,
                 std::function<void(Result<LogPage>)> done) override;
  std::shared_ptr<const LiveView> live() const override { return board_->view(clock_.now()); }
  Readiness readiness() const override;
  std::int64_t inputs_waiting() const override;
  CheckpointSpace checkpoint_space() const override { return observer_.checkpoint_space(); }
  std::shared_ptr<Meters> meters() const override { return options_.meters; }
  Store& store() override { return store_; }
  std::string checkpoint_folder(CheckpointId checkpoint) const override;
  std::shared_ptr<void> on_events(std::function<void(std::int64_t newest_seq)> wake) override;

  // InputPort
  bool post(Input input) override;
  bool has_replica(AgentId agent, ReplicaId replica) override {
    return board_->has_replica(agent, replica);
  }
  std::int64_t replicas_of(AgentId agent) override { return board_->replicas_of(agent); }
  bool works_for(AgentId agent, JobId job) override { return board_->works_for(agent, job); }
  bool begins_from(AgentId agent, CheckpointId checkpoint, JobId job) override {
    return board_->begins_from(agent, checkpoint, job);
  }
  bool continues_from(AgentId agent, CheckpointId checkpoint) override {
    return board_->continues_from(agent, checkpoint);
  }
  void count_session() override { options_.meters->runtime.sessions.Increment(); }
  void count_refused_message() override { options_.meters->runtime.refused_messages.Increment(); }
  std::optional<ReplicaPlace> place_of(ReplicaId replica) override {
    return board_->place_of(replica);
  }

 private:
  struct Subscribers;

  Runtime(RuntimeOptions options, Store& store, const Snapshot& snapshot);
  void run();
  std::vector<Input> next_inputs(std::optional<Instant> deadline, bool& stopping)
      SHOAL_EXCLUDES(mutex_);
  void apply(const Input& input);
  void observe(Instant now, const Input& input);
  void observe(const PipelineStats& stats);
  void tell_series(const Record& record);
  void perform(Delivery::Group group);
  void perform(Effect effect);
  void answer(Reply reply) SHOAL_EXCLUDES(mutex_);
  void request(std::function<void(Answer)> done, const std::function<Input(RequestId)>& make)
      SHOAL_EXCLUDES(mutex_);
  void fail_requests(const std::string& why) SHOAL_EXCLUDES(mutex_);

  const RuntimeOptions options_;
  Store& store_;
  const UnixClock clock_;
  const std::vector<CheckpointRecord> checkpoints_;
  std::unique_ptr<Coordinator> core_;  // core thread only, once started
  std::unique_ptr<LiveBoard> board_;
  TelemetryExporter exporter_;
  RecordObserver observer_;
  std::atomic<AgentPort*> agents_{nullptr};  // none before start()
  std::shared_ptr<Subscribers> subscribers_;

  mutable Mutex mutex_;
  CondVar arrived_;
  std::vector<Input> inputs_ SHOAL_GUARDED_BY(mutex_);
  FlatMap<ConnectionId, std::size_t> waiting_ SHOAL_GUARDED_BY(mutex_);  // of those, by stream
  std::map<RequestId, std::function<void(Answer)>> requests_ SHOAL_GUARDED_BY(mutex_);
  std::uint64_t next_request_ SHOAL_GUARDED_BY(mutex_) = 1;
  bool booted_ SHOAL_GUARDED_BY(mutex_) = false;
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  bool failed_ SHOAL_GUARDED_BY(mutex_) = false;

  std::unique_ptr<Delivery> delivery_;
  std::thread thread_;
};

}  // namespace shoal::coordinator
