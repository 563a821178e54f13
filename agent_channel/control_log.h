// What a trainer or a reducer writes of its replica for people, a line per thing that happened:
// state transfer, rounds, reduces with bytes and seconds, evaluation, checkpoints, lost peers.
// Everything that matters passes between it and its agent, so the log is told what is said in both
// directions; inner steps and figures of progress it leaves out. A line is its level, a word and
// what belongs to it:
//
//   info: reduced round=12 attempt=1 sent_bytes=123456 received_bytes=123400 seconds=0.412
//
// The agent's journal takes the level off and knows the replica. Rounds of ddp are single inner
// steps: debug. What is repeated after a reconnect is written again.
//
// May be called from any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log_lines.h"
#include "messages/trainer_messages.h"
#include "threads/mutex.h"

namespace shoal::agent_channel {

class ControlLog {
 public:
  // `write` gets whole lines without a line break, one at a time.
  explicit ControlLog(std::function<void(const std::string&)> write) : write_(std::move(write)) {}

  void heard(const ToTrainer& command);
  void said(const FromTrainer& message);

 private:
  void line(LogLevel level, const std::string& text) SHOAL_REQUIRES(mutex_);
  LogLevel of_round() const SHOAL_REQUIRES(mutex_) {
    return every_step_ ? LogLevel::kDebug : LogLevel::kInfo;
  }

  void note(const LoadReplica& load) SHOAL_REQUIRES(mutex_);
  void note(const OpenRound& round) SHOAL_REQUIRES(mutex_);
  void note(const CloseRound& round) SHOAL_REQUIRES(mutex_);
  void note(const CommitRound& commit) SHOAL_REQUIRES(mutex_);
  void note(const AbortRound& abort) SHOAL_REQUIRES(mutex_);
  void note(const ResumeAt& resume) SHOAL_REQUIRES(mutex_);
  void note(const PipelineView& view) SHOAL_REQUIRES(mutex_);
  void note(const Release& release) SHOAL_REQUIRES(mutex_);
  void note(const WriteCheckpointTo& write) SHOAL_REQUIRES(mutex_);
  void note(const Loaded& loaded) SHOAL_REQUIRES(mutex_);
  void note(const ReplicaFailed& failed) SHOAL_REQUIRES(mutex_);
  void note(const RoundReport& report) SHOAL_REQUIRES(mutex_);
  void note(const Vote& vote) SHOAL_REQUIRES(mutex_);
  void note(const ReduceFailed& failed) SHOAL_REQUIRES(mutex_);
  void note(const Evaluated& evaluated) SHOAL_REQUIRES(mutex_);
  void note(const CopiesHeld& held) SHOAL_REQUIRES(mutex_);
  void note(const CheckpointReady& ready) SHOAL_REQUIRES(mutex_);
  void note(const CheckpointFailed& failed) SHOAL_REQUIRES(mutex_);
  template <typename Body>
  void note(const FromReplica<Body>& message) SHOAL_REQUIRES(mutex_) {
    note(message.body);
  }
  template <typename Body>
  void note(const ToReplica<Body>& message) SHOAL_REQUIRES(mutex_) {
    note(message.body);
  }
  // Nothing to write: the reports beside them say it.
  void note(const Evaluate&) SHOAL_REQUIRES(mutex_) {}
  void note(const KeepCopies&) SHOAL_REQUIRES(mutex_) {}
  void note(const KeepRecord&) SHOAL_REQUIRES(mutex_) {}
  void note(const LoadProgress&) SHOAL_REQUIRES(mutex_) {}
  void note(const ReducePlan&) SHOAL_REQUIRES(mutex_) {}
  void note(const Relays&) SHOAL_REQUIRES(mutex_) {}
  void note(const StopTrainer&) SHOAL_REQUIRES(mutex_) {}
  void note(const MeasureBlock&) SHOAL_REQUIRES(mutex_) {}
  void note(const BlockMeasured&) SHOAL_REQUIRES(mutex_) {}
  void note(const TrainerReady&) SHOAL_REQUIRES(mutex_) {}
  void note(const Progress&) SHOAL_REQUIRES(mutex_) {}
  void note(const PipelineStats&) SHOAL_REQUIRES(mutex_) {}
  void note(const PortRefusals&) SHOAL_REQUIRES(mutex_) {}
  void note(const Applied&) SHOAL_REQUIRES(mutex_) {}

  std::function<void(const std::string&)> write_;
  Mutex mutex_;
  bool every_step_ SHOAL_GUARDED_BY(mutex_) = false;         // of ddp
  std::vector<ReplicaId> members_ SHOAL_GUARDED_BY(mutex_);  // of the newest view, sorted
};

}  // namespace shoal::agent_channel
