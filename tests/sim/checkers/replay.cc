// The tables are the state: when everything is durable, a fresh core made from them has the digest
// of the live one.
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

class Replay final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "replay"; }

  void compared(const Digest& live, const Digest& replayed) override {
    if (live != replayed) {
      violated("live " + to_hex(live) + ", from the tables " + to_hex(replayed));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> make_replay(const Checker::Context& context) {
  return std::make_unique<Replay>(context);
}

}  // namespace shoal::sim
