// All that counts in the commits of a job was trained on the same data: a host with another file is
// refused. Only a job that starts over with its initial parameters may begin with other data.
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
      const auto [of_job, first] =
          of_job_.try_emplace(round.key.job, Data{round.key.epoch, read->second});
      Data& data = of_job->second;
      const bool anew = round.key.epoch != data.epoch && round.key.round == 1;
      if (anew) data = {round.key.epoch, read->second};
      if (data.digest == read->second) continue;
      return violated(to_string(it->second.replica) + " counts in " + to_text(round.key) +
                      " and trained on other data");
    }
  }

  struct Data {
    std::int64_t epoch = 0;  // in which it was first read
    Digest digest;
  };
  std::map<ReplicaId, Digest> read_;
  std::map<JobId, Data> of_job_;
};

}  // namespace

std::unique_ptr<Checker> make_same_data(const Checker::Context& context) {
  return std::make_unique<SameData>(context);
}

}  // namespace shoal::sim
