// Whether the compute thread of a replica still runs, by what it says: it speaks between two pieces
// of work (a step, a batch of an evaluation, a token of a sample), about once a second or as often
// as a piece ends. How long it may be silent follows from how long it usually is; a first step,
// which compiles and warms up, has a limit of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "coordinator/core/decisions/options.h"

namespace shoal::coordinator {

class ComputeWatch {
 public:
  // It said something; `works`: between two pieces of work. Only the time between two such words
  // tells how long a piece takes.
  void said(Instant now, bool works);
  // Silence until now was nobody's: its agent was out of reach.
  void listen_from(Instant now);

  std::optional<Instant> last_word() const { return word_; }
  // How long it may say nothing.
  Duration limit(const Options& options) const;
  // How long its pieces of work may take; 0: not known.
  Duration patience(const Options& options) const;
  Duration usual() const { return usual_; }

  bool asked = false;      // to report what it has, since its last word
  std::uint64_t line = 0;  // the connection over which it is heard

 private:
  std::optional<Instant> word_;
  bool works_ = false;  // the last word was one between two pieces
  Duration usual_;      // 0: not known
};

}  // namespace shoal::coordinator
