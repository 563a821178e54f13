#include "coordinator/service/token_meter.h"

#include <algorithm>
#include <ranges>

namespace shoal::coordinator {
namespace {

constexpr Duration kApart = seconds(1), kShortest = seconds(2);
constexpr Duration kWhole = seconds(30), kMinute = seconds(60), kKept = seconds(300);

}  // namespace

bool TokenMeter::is_due(Instant now) const {
  return marks_.empty() || now - marks_.back().at >= kApart;
}

void TokenMeter::heard(Instant now, Tokens tokens, bool at_commit) {
  const std::size_t count = marks_.size();
  if (count > 1 && marks_[count - 1].at - marks_[count - 2].at < kApart) marks_.pop_back();
  marks_.push_back({now, tokens, at_commit});
  while (now - marks_.front().at > kKept) marks_.pop_front();
}

const TokenMeter::Mark& TokenMeter::since(Instant now) const {
  const auto newest_first = marks_ | std::views::reverse;
  const auto commit = std::ranges::find_if(
      newest_first, [&](const Mark& mark) { return mark.at_commit && now - mark.at >= kWhole; });
  if (commit != newest_first.end()) return *commit;
  const auto any = std::ranges::find_if(newest_first,
                                        [&](const Mark& mark) { return now - mark.at >= kMinute; });
  return any != newest_first.end() ? *any : marks_.front();
}

std::optional<double> TokenMeter::per_second(Instant now) const {
  if (marks_.empty()) return std::nullopt;
  const Mark& from = since(now);
  const double elapsed = (now - from.at).seconds();
  if (elapsed < kShortest.seconds()) return std::nullopt;
  const auto trained = static_cast<double>((marks_.back().tokens - from.tokens).count());
  return std::max(0.0, trained / elapsed);
}

}  // namespace shoal::coordinator
