#include "swarm/core/session/step_books.h"

#include "base/check.h"

namespace shoal::swarm {

void StepLedger::forget_added() {
  for (auto& [source, entries] : sources_) {
    for (auto& [index, entry] : entries) entry.added = false;
  }
}

Tokens StepBooks::take(std::int64_t step) {
  const Tokens tokens = std::exchange(of(step).tokens, {});
  taken_ += tokens;
  return tokens;
}

void StepBooks::close(std::int64_t step) {
  StepBook& book = of(step);
  SHOAL_CHECK(book.live == 0 && book.tokens.n == 0, "an inner step is left unfinished");
  book.drawn = 0;
  book.ledger.clear();
}

void StepBooks::begin_again(std::int64_t step) {
  of(step).ledger.forget_added();
  of(step).drawn = 0;
}

void StepBooks::clear() {
  books_ = {};
  taken_ = {};
}

}  // namespace shoal::swarm
