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
#include <mutex>
#include <string>
#include <vector>

#include "base/log_lines.h"
#include "swarm/core/trainer_messages.h"

namespace shoal::attached {

class ControlLog {
 public:
  // `write` gets whole lines without a line break, one at a time.
  explicit ControlLog(std::function<void(const std::string&)> write) : write_(std::move(write)) {}

  void heard(const ToTrainer& command);
  void said(const FromTrainer& message);

 private:
  void line(LogLevel level, const std::string& text);
  LogLevel of_round() const { return every_step_ ? LogLevel::kDebug : LogLevel::kInfo; }

  void note(const LoadReplica& load);
  void note(const OpenRound& round);
  void note(const CloseRound& round);
  void note(const CommitRound& commit);
  void note(const AbortRound& abort);
  void note(const ResumeAt& resume);
  void note(const PipelineView& view);
  void note(const Release& release);
  void note(const WriteCheckpointTo& write);
  void note(const Loaded& loaded);
  void note(const ReplicaFailed& failed);
  void note(const RoundReport& report);
  void note(const Vote& vote);
  void note(const ReduceFailed& failed);
  void note(const Evaluated& evaluated);
  void note(const CheckpointReady& ready);
  void note(const CheckpointFailed& failed);
  template <typename Body>
  void note(const FromReplica<Body>& message) {
    note(message.body);
  }
  template <typename Body>
  void note(const ToReplica<Body>& message) {
    note(message.body);
  }
  // Nothing to write: the reports beside them say it.
  void note(const Evaluate&) {}
  void note(const LoadProgress&) {}
  void note(const ReducePlan&) {}
  void note(const StopTrainer&) {}
  void note(const TrainerReady&) {}
  void note(const Progress&) {}
  void note(const PipelineStats&) {}
  void note(const Applied&) {}

  std::function<void(const std::string&)> write_;
  std::mutex mutex_;
  bool every_step_ = false;         // of ddp
  std::vector<ReplicaId> members_;  // of the newest view, sorted
};

}  // namespace shoal::attached
