// The lines that agents write on their hosts, and what can be asked of them. The instant of a line
// is its place: no two lines of one agent have the same, so "after that instant" continues where a
// page ended, whatever was rotated or started again meanwhile.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"

namespace shoal {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
constexpr auto enumerators_of(Of<LogLevel>) {
  using enum LogLevel;
  return enumerators<LogLevel>(
      {{kDebug, "debug"}, {kInfo, "info"}, {kWarning, "warning"}, {kError, "error"}});
}

inline constexpr int kLogLinesMax = 1000;                 // of one answer
inline constexpr std::size_t kLogTextMax = 4096;          // of one line; what is beyond is cut off
inline constexpr std::size_t kLogPageBytesMax = 1 << 20;  // of one answer; at least one line fits

struct LogLine {
  Instant at;
  LogLevel level = LogLevel::kInfo;
  std::string source;  // "agent", "trainer-0"; one word
  ReplicaId replica;   // the replica that it is about; zero: none
  std::string text;    // without a line break
  bool operator==(const LogLine&) const = default;
};
constexpr auto fields_of(Of<LogLine>) {
  using T = LogLine;
  return fields(field<&T::at>(), field<&T::level>(), field<&T::source>(),
                field<&T::replica>(or_none()), field<&T::text>(at_most(kLogTextMax)));
}

struct LogQuery {
  int limit = 200;               // 1..kLogLinesMax
  std::optional<Instant> after;  // the first lines after it; none: the last lines of all
  LogLevel level_min = LogLevel::kDebug;
  std::string source;               // empty: any
  std::vector<ReplicaId> replicas;  // empty: any line
  std::string text;                 // somewhere in the line, without regard to case; empty: any
  bool operator==(const LogQuery&) const = default;
};
constexpr auto fields_of(Of<LogQuery>) {
  using T = LogQuery;
  return fields(field<&T::limit>(), field<&T::after>(), field<&T::level_min>("level"),
                field<&T::source>(), field<&T::replicas>(or_none()), field<&T::text>());
}

struct LogPage {
  std::vector<LogLine> lines;  // oldest first
  bool operator==(const LogPage&) const = default;
};
constexpr auto fields_of(Of<LogPage>) {
  using T = LogPage;
  return fields(field<&T::lines>(at_most(kLogLinesMax)));
}

bool fits(const LogQuery& query, const LogLine& line);

}  // namespace shoal
