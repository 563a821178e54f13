#include "coordinator/service/people/refusals.h"

#include <algorithm>
#include <optional>

namespace shoal::coordinator {
namespace {

constexpr std::size_t kWhyMost = 200;

// Bytes of strangers, for a terminal.
std::string printable(std::string_view text) {
  std::string shown(text.substr(0, kWhyMost));
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return shown;
}

std::string more(std::int64_t count, const char* what) {
  return count == 0 ? std::string() : "; " + std::to_string(count) + what;
}

}  // namespace

Refusals::Refusals(Note note, std::function<Instant()> clock, RefusalNoteLimits limits,
                   std::shared_ptr<Meters> meters)
    : note_(std::move(note)),
      clock_(std::move(clock)),
      limits_(limits),
      meters_(std::move(meters)),
      rows_(limits.at_once) {}

bool Refusals::take_row(Instant now) {
  const double elapsed_h = std::max((now - refilled_at_).seconds(), 0.0) / 3600;
  rows_ = std::min(rows_ + elapsed_h * limits_.per_hour, limits_.at_once);
  refilled_at_ = now;
  if (rows_ < 1) return false;
  --rows_;
  return true;
}

// Null: it was noted a short while ago.
Refusals::Source* Refusals::find(std::string_view action, const std::string& source, Instant now) {
  const auto key = std::pair(std::string(action), source);
  if (const auto known = sources_.find(key); known != sources_.end()) {
    const bool rests = now - known->second.noted_at < limits_.quiet;
    if (rests) ++known->second.untold;
    return rests ? nullptr : &known->second;
  }
  if (sources_.size() >= limits_.sources_max) {
    sources_.erase(std::ranges::min_element(
        sources_, {}, [](const auto& entry) { return entry.second.noted_at; }));
  }
  return &sources_[key];
}

void Refusals::tell(std::string_view action, const std::string& source, std::string_view why,
                    const std::string& principal) {
  if (!note_) return;
  AuditRecord record{.principal = principal,
                     .action = std::string(action),
                     .object = printable(source),
                     .after = printable(why)};
  {
    const MutexLock lock(mutex_);
    const Instant now = clock_();
    const std::string whose = principal == kStranger ? source : principal;
    Source* known = find(action, whose, now);
    if (known == nullptr) return;
    if (!take_row(now)) {
      ++known->untold;
      ++unnoted_;
      return;
    }
    record.after += more(known->untold, " more from there before") +
                    more(std::exchange(unnoted_, 0), " of all sources were not noted");
    *known = {now, 0};
  }
  note_(std::move(record));
}

}  // namespace shoal::coordinator
