#include "swarm/core/session/step_books.h"

#include "base/check.h"

namespace shoal::swarm {

void StepLedger::forget_added() {
  for (auto& [source, entries] : sources_) {
    for (auto& [index, entry] : entries) entry.added = false;
  }
}

void StepLedger::add_to(Digester& digester) const {
  digester.add(sources_.size());
  for (const auto& [source, entries] : sources_) {
    digester.add(source.first.n).add(static_cast<std::int32_t>(source.second)).add(entries.size());
    for (const auto& [index, entry] : entries) {
      digester.add(index).add(entry.sends).add(entry.forwards).add(entry.added);
    }
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

void StepBooks::add_to(Digester& digester) const {
  for (const StepBook& book : books_) {
    book.ledger.add_to(digester);
    digester.add(book.drawn).add(book.live).add(book.tokens.n);
  }
  digester.add(taken_.n);
}

}  // namespace shoal::swarm
