// Numbers, times and words as people read them. Pure functions of their arguments. Rates of
// lines are in bits, as network people count them; sizes are in base/number_text.h. What a machine
// should read goes out as JSON instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::cli {

std::string human_count(double count);          // "950", "13.1k", "2.40M"
std::string human_duration(double seconds);     // "4.2 s", "2m 05s", "3h 12m", "90d 01h"
std::string human_bit_rate(double bits_per_s);  // "24.0 Mbit/s"
std::string fixed(double value, int digits);
std::string four_digits(double value);  // of any size: "0.0003125", "2.5", "1.25e+08"
std::string plural(std::int64_t count, const std::string& one);  // "1 agent", "2 agents"
// "agent-2" before "agent-10".
bool comes_before(std::string_view one, std::string_view other);

// Seconds since the Unix epoch of an RFC 3339 UTC time; nothing when it is not one.
std::optional<double> parse_rfc3339(std::string_view text);

// "12s ago" of an RFC 3339 time; "-" when the text is not one.
std::string human_age(std::string_view rfc3339, double now_unix_s);

// The candidate closest to the word, when it is close enough to be what was meant.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace shoal::cli
