#include "agent/host/journal.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "threads/file_content.h"

namespace shoal::agent {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::string to_text(Instant at) {
  const std::time_t whole = at.ns / kSecond;
  std::tm parts{};
  gmtime_r(&whole, &parts);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%09lldZ",
                parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                parts.tm_sec, static_cast<long long>(at.ns % kSecond));
  return text.data();
}

std::optional<Instant> parse_instant(const std::string& text) {
  std::tm parts{};
  long long rest = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%9lldZ%n", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &rest, &end) != 7 ||
      end != static_cast<int>(text.size()))
    return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return Instant{static_cast<std::int64_t>(timegm(&parts)) * kSecond + rest};
}

// The next word and the space behind it.
std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// Not so after a kill in the middle of one.
bool ends_with_line(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return !in.seekg(-1, std::ios::end) || in.get() == '\n';
}

// Takes lines from the newest back until the page is full or older ones do not matter.
class Backwards {
 public:
  explicit Backwards(const LogQuery& query) : query_(query) {}

  bool done() const { return done_; }

  void add_file(std::string_view text) {
    while (!text.empty() && !done_) {
      if (text.back() == '\n') text.remove_suffix(1);
      const std::size_t start = text.rfind('\n') + 1;  // npos + 1: 0
      add(text.substr(start));
      text = text.substr(0, start);
    }
  }

  // Oldest first. A query after an instant gets the first lines that follow, others the last ones.
  LogPage finish() {
    std::reverse(found_.begin(), found_.end());
    std::size_t bytes = 0, count = 0;
    const std::size_t most = std::min(found_.size(), static_cast<std::size_t>(query_.limit));
    const auto size_at = [&](std::size_t i) {
      return (query_.after ? found_[i] : found_[found_.size() - 1 - i]).text.size();
    };
    while (count < most && (count == 0 || bytes + size_at(count) <= kLogPageBytesMax))
      bytes += size_at(count++);
    const auto first =
        query_.after ? found_.begin() : found_.end() - static_cast<std::ptrdiff_t>(count);
    return {{first, first + static_cast<std::ptrdiff_t>(count)}};
  }

 private:
  void add(std::string_view text) {
    const auto line = parse_line(text);
    if (!line) return;  // cut off by a full disk or a kill
    done_ = query_.after && line->at <= *query_.after;
    if (fits(query_, *line)) found_.push_back(*line);
    done_ = done_ || (!query_.after && static_cast<int>(found_.size()) == query_.limit);
  }

  const LogQuery& query_;
  std::vector<LogLine> found_;  // newest first
  bool done_ = false;
};

bool has_word(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

}  // namespace

Journal::Journal(std::string path, std::function<Instant()> now, JournalLimits limits)
    : path_(std::move(path)),
      now_(std::move(now)),
      limits_(limits),
      file_(path_, limits.file_bytes, limits.files_kept) {
  const LogPage newest = read({.limit = 1});
  if (!newest.lines.empty()) last_ = newest.lines.back().at;
  if (!ends_with_line(path_)) file_.append("\n");
}

void Journal::add(LogLevel level, std::string_view source, ReplicaId replica,
                  std::string_view text) {
  const MutexLock guard(mutex_);
  last_ = std::max(now_(), last_ + nanoseconds(1));
  std::string kept(text.substr(0, kLogTextMax));
  std::replace(kept.begin(), kept.end(), '\n', ' ');
  file_.append(format_line({last_, level, std::string(source), replica, std::move(kept)}) + "\n");
}

LogPage Journal::read(const LogQuery& query) const {
  Backwards lines(query);
  for (int i = 0; i <= limits_.files_kept && !lines.done(); ++i)
    lines.add_file(file_content(i == 0 ? path_ : path_ + "." + std::to_string(i)).value_or(""));
  return lines.finish();
}

LogLevel take_level(std::string_view& line) {
  const std::size_t colon = line.find(": ");
  const auto named = colon == std::string_view::npos
                         ? std::nullopt
                         : parse_enumerator<LogLevel>(line.substr(0, colon));
  if (named) {
    line.remove_prefix(colon + 2);
    return *named;
  }
  for (const char* word : {"error", "fatal", "terminate", "exception", "check failed"}) {
    if (has_word(line, word)) return LogLevel::kError;
  }
  return has_word(line, "warn") ? LogLevel::kWarning : LogLevel::kInfo;
}

std::string format_line(const LogLine& line) {
  return to_text(line.at) + " " + to_string(line.level) + " " + line.source + " " +
         (line.replica ? to_string(line.replica) : "-") + " " + line.text;
}

std::optional<LogLine> parse_line(std::string_view text) {
  const auto at = parse_instant(std::string(take_word(text)));
  const auto level = parse_enumerator<LogLevel>(take_word(text));
  const std::string_view source = take_word(text), replica = take_word(text);
  if (!at || !level || source.empty() || replica.empty()) return std::nullopt;
  const auto id = replica == "-" ? std::optional(ReplicaId()) : parse_id<ReplicaTag>(replica);
  if (!id) return std::nullopt;
  return LogLine{*at, *level, std::string(source), *id, std::string(text.substr(0, kLogTextMax))};
}

}  // namespace shoal::agent
