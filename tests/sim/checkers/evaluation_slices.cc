// Every slice of an evaluation counts once: when a round has its validation loss, the sum behind it
// is that of what trainers said of each slice, and its tokens are those of all slices. Before that
// it has no more tokens than the slices together.
#include <cmath>
#include <map>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::RoundRecord;

class EvaluationSlices final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "evaluation_slices"; }

  void restored(const Tables&, bool forgotten) override {
    if (forgotten) slices_.clear();
  }

  void evaluated(ReplicaId, const Evaluated& e) override {
    slices_[e.key][{e.slice.slices, e.slice.slice}] = e;
  }

  void durable(const Record& record, const Tables&) override {
    const auto* round = std::get_if<RoundRecord>(&record);
    if (round == nullptr || round->validation_tokens.n == 0) return;
    double sum = 0;
    std::int64_t tokens = 0, seen = 0;
    for (const auto& [slice, said] : slices_[round->key]) {
      if (slice.first != round->eval_slices) continue;
      ++seen;
      sum += said.loss_sum;
      tokens += said.tokens.n;
    }
    const std::string what = to_text(round->key) + " evaluates ";
    if (round->validation_tokens.n > tokens) return violated(what + "tokens that nobody said");
    if (round->validation_loss == 0) return;
    if (seen != round->eval_slices || round->validation_tokens.n != tokens) {
      return violated(what + std::to_string(round->validation_tokens.n) + " tokens of " +
                      std::to_string(tokens));
    }
    if (std::fabs(round->validation_sum - sum) > 1e-9 * sum) violated(what + "a slice twice");
  }

 private:
  using Slice = std::pair<std::int64_t, std::int64_t>;  // of so many, which
  std::map<RoundKey, std::map<Slice, Evaluated>> slices_;
};

}  // namespace

std::unique_ptr<Checker> make_evaluation_slices(const Checker::Context& context) {
  return std::make_unique<EvaluationSlices>(context);
}

}  // namespace shoal::sim
