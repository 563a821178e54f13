// The log of the daemon and its trainers, kept on the host in one bounded set of files, one line of
// text for each entry:
//
//   2026-11-21T08:06:06.123456789Z warning trainer-0 rep_12 out of memory
//
// ("-" for nobody). Lines are stamped as they are written, each later than the one before, across
// restarts too. Writing is thread-safe; reading opens the files again and needs no lock.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "agent/host/log_file.h"
#include "base/log_lines.h"
#include "base/result.h"
#include "threads/mutex.h"

namespace shoal::agent {

struct JournalLimits {
  std::int64_t file_bytes = 8 << 20;
  int files_kept = 2;  // beside the one that is written
};

class Journal {
 public:
  // `now` gives Unix time; it may stand still or go back.
  Journal(std::string path, std::function<Instant()> now, JournalLimits limits = {});

  void add(LogLevel level, std::string_view source, ReplicaId replica, std::string_view text);

  // At most limit lines that fit, and at most kLogPageBytesMax of them: the last ones, or the first
  // after query.after.
  LogPage read(const LogQuery& query) const;

 private:
  const std::string path_;
  const std::function<Instant()> now_;
  const JournalLimits limits_;
  Mutex mutex_;
  LogFile file_ SHOAL_GUARDED_BY(mutex_);
  Instant last_ SHOAL_GUARDED_BY(mutex_);
};

// The level that a line names before its text ("warning: …"), which is taken off; for a line
// without one, a guess from the words that programs use.
LogLevel take_level(std::string_view& line);

std::string format_line(const LogLine& line);  // without a line break
std::optional<LogLine> parse_line(std::string_view text);

}  // namespace shoal::agent
