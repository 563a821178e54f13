// A job that is shown as being worked on is: while it is warming, training or finalizing, some
// record of it changes within a time that follows from the options, or its phase does. Time without
// a running coordinator does not count.
#include <map>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::JobPhase;

class Deadlines final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "deadlines"; }

  void coordinator_started() override { begin_anew(); }
  void coordinator_continued() override { begin_anew(); }
  void restored(const Tables&, bool) override { moved_at_.clear(); }

  void durable(const Record& record, const Tables&) override {
    const JobId job = job_of(record);
    if (job != JobId()) moved_at_[job] = now();
  }

  void moment(const Tables& tables) override {
    if (now() < look_at_) return;
    look_at_ = now() + seconds(5);
    for (const auto& [id, job] : tables.jobs) {
      const bool shown = job.phase == JobPhase::kWarming || job.phase == JobPhase::kTraining ||
                         job.phase == JobPhase::kFinalizing;
      const auto moved = moved_at_.find(id);
      if (!shown || moved == moved_at_.end()) continue;
      if (now() - moved->second <= options().coverage_limit()) continue;
      return violated(to_string(id) + " is called " + to_string(job.phase) + ", " +
                      to_string(job.reason) + ", and nothing happens to it");
    }
  }

 private:
  static JobId job_of(const Record& record) {
    if (const auto* r = std::get_if<coordinator::JobRecord>(&record)) return r->id;
    if (const auto* r = std::get_if<coordinator::ReplicaRecord>(&record)) return r->job;
    if (const auto* r = std::get_if<coordinator::RoundRecord>(&record)) return r->key.job;
    if (const auto* r = std::get_if<coordinator::ContributionRecord>(&record)) return r->key.job;
    if (const auto* r = std::get_if<coordinator::CheckpointRecord>(&record)) return r->key.job;
    return {};
  }

  void begin_anew() {
    for (auto& [job, at] : moved_at_) at = now();
  }

  std::map<JobId, Instant> moved_at_;
  Instant look_at_;
};

}  // namespace

std::unique_ptr<Checker> make_deadlines(const Checker::Context& context) {
  return std::make_unique<Deadlines>(context);
}

}  // namespace shoal::sim
