// All that counts in the commits of a job was trained on the same data: a host with another file is
// refused.
#include <map>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/commits.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::RoundRecord;

class SameData final : public CommitChecker {
 public:
  using CommitChecker::CommitChecker;
  const char* name() const override { return "same_data"; }

  void data_read(ReplicaId replica, const Digest& data) override { read_[replica] = data; }
  void restored(const Tables& tables, bool forgotten) override {
    CommitChecker::restored(tables, forgotten);
    if (forgotten) of_job_.clear();
  }

 private:
  void committed(const RoundRecord& round, const Tables& tables) override {
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      const bool counts = it->second.state == ContributionState::kCommitted ||
                          it->second.state == ContributionState::kKept;
      const auto read = read_.find(it->second.replica);
      if (!counts || read == read_.end() || !read->second) continue;
      const auto [of_job, first] = of_job_.emplace(round.key.job, read->second);
      if (of_job->second == read->second) continue;
      return violated(to_string(it->second.replica) + " counts in " + to_text(round.key) +
                      " and trained on other data");
    }
  }

  std::map<ReplicaId, Digest> read_;
  std::map<JobId, Digest> of_job_;
};

}  // namespace

std::unique_ptr<Checker> make_same_data(const Checker::Context& context) {
  return std::make_unique<SameData>(context);
}

}  // namespace shoal::sim
