#include "messages/held_work.h"

#include "base/overloaded.h"

namespace shoal {

void HeldWork::heard(const ToTrainer& command) {
  std::visit(
      Overloaded{[this](const LoadReplica& c) { take(c); },
                 [this](const Release& c) { release(c.replica); },
                 [this](const ToReplica<CommitRound>& c) { expect(c.replica, c.body.record); },
                 [this](const ToReplica<ResumeAt>& c) { expect(c.replica, c.body.record); },
                 [this](const ToReplica<KeepRecord>& c) { renew(c.replica, c.body.record); },
                 [](const auto&) {}},
      command);
}

// A repetition of the load changes nothing.
void HeldWork::take(const LoadReplica& load) {
  if (works_on(load.assign.replica)) return;
  drop();
  holds_ = load.assign;
  coming_.expect(load.assign.record);
}

void HeldWork::release(ReplicaId replica) {
  outbox_.forget_last_words(replica);
  if (works_on(replica)) drop();
}

void HeldWork::drop() {
  if (holds_) outbox_.forget(holds_->replica);
  holds_.reset();
  loaded_.reset();
  coming_.clear();
}

void HeldWork::expect(ReplicaId replica, const CommitRecord& record) {
  if (works_on(replica)) coming_.expect(record);
}

// The assignment carries the record of the held state, which is newer than all that it passed.
void HeldWork::renew(ReplicaId replica, const CommitRecord& record) {
  if (!works_on(replica) || coming_.renew(record)) return;
  if (loaded_ && loaded_->key == record.key) holds_->record = record;
}

void HeldWork::said(const FromTrainer& message) {
  const auto keep = [this](const auto& m) {
    if (works_on(m.replica)) outbox_.keep(m.replica, m, std::nullopt);
  };
  std::visit(
      Overloaded{[](const TrainerReady&) {}, [](const LoadProgress&) {}, [](const Progress&) {},
                 [](const PipelineStats&) {}, [](const PortRefusals&) {},
                 [](const BlockMeasured&) {}, [this](const Loaded& m) { note(m); },
                 [this](const ReplicaFailed& m) {
                   if (works_on(m.replica)) drop();
                   outbox_.keep_last_words(m.replica, m, std::nullopt);
                 },
                 [this](const CheckpointFailed& m) {
                   outbox_.keep_last_words(m.replica, m, std::nullopt);
                 },
                 [&](const FromReplica<Applied>& m) {
                   note(m);
                   keep(m);
                 },
                 [&](const auto& m) { keep(m); }},
      message);
}

void HeldWork::note(const Loaded& loaded) {
  if (!works_on(loaded.replica)) return;
  loaded_ = loaded;
  if (auto record = coming_.take(loaded.key)) holds_->record = std::move(*record);
}

void HeldWork::note(const FromReplica<Applied>& applied) {
  const Applied& now = applied.body;
  if (!works_on(applied.replica) || !loaded_) return;
  auto record = coming_.take(now.key);
  if (!record) return;
  holds_->record = std::move(*record);
  loaded_->key = now.key;
  loaded_->anchor = now.anchor;
  loaded_->momentum = now.momentum;
}

std::vector<FromTrainer> HeldWork::say_again() {
  std::vector<FromTrainer> all;
  if (loaded_) all.push_back(*loaded_);
  for (FromTrainer& message : outbox_.say_all(Instant())) all.push_back(std::move(message));
  return all;
}

}  // namespace shoal
