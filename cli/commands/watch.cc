// The redrawing of the two-line block and the choice of what is news.
#include "cli/commands/watch.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "cli/commands/job_text.h"
#include "cli/format.h"
#include "cli/http_client.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

constexpr double kAskEveryS = 0.5;
constexpr double kLineEveryS = 10;  // a plain line at least this often while it trains

class Display {
 public:
  explicit Display(WatchOutput output)
      : output_(output), live_(output != WatchOutput::kJson && terminal().stderr_is_tty) {}

  void show(const Json& job, double now) {
    const JobProgress progress = read_progress(job);
    speed_.add(now, progress.step, progress.tokens);
    if (live_) return redraw(progress);
    const bool moved = progress.round != round_ || progress.phase != phase_ ||
                       progress.validation_loss != validation_ || progress.reason != reason_;
    const bool due = now - shown_at_ >= kLineEveryS && progress.step != step_;
    if (!moved && !due) return;
    round_ = progress.round, phase_ = progress.phase, step_ = progress.step;
    validation_ = progress.validation_loss, reason_ = progress.reason;
    shown_at_ = now;
    if (output_ == WatchOutput::kJson) return print(job.dump() + "\n");
    const std::string line = progress_line(progress, speed_);
    output_ == WatchOutput::kMessages ? say(line) : print(line + "\n");
  }

  // A message above the block; the block is drawn again below it.
  void interject(const std::string& message) {
    clear();
    say(message);
  }

 private:
  void clear() {
    if (drawn_) std::fputs("\033[2A\033[J", stderr);
    drawn_ = false;
  }

  void redraw(const JobProgress& progress) {
    clear();
    for (const std::string& line :
         progress_block(progress, speed_, stderr_columns(), terminal().stderr_color)) {
      say(line);
    }
    drawn_ = true;
  }

  WatchOutput output_;
  bool live_;
  bool drawn_ = false;
  SpeedMeter speed_;
  double round_ = -1, step_ = -1, shown_at_ = -kLineEveryS;
  std::optional<double> validation_;
  std::string phase_, reason_;
};

// What has gone wrong with the job since the watching began: a phase and numbers do not show that
// an agent was lost, or that round 4 comes after round 6. Of a job that was just submitted, all:
// an agent without the data fails before anybody can watch.
class Warnings {
 public:
  // What is new, the oldest first. Nothing while they cannot be asked.
  std::vector<std::string> news(const Api& api, const Json& job) {
    const std::string id = url_escape(text_at(job, "id"));
    const auto answer = api.list("/events?job=" + id + "&severity=warning&order=desc", kMost);
    if (!answer.ok()) return {};
    if (!seen_ && is_young(job)) seen_ = 0;
    return fresh_warnings(answer->at("items"), seen_);
  }

 private:
  static constexpr std::size_t kMost = 20;
  static constexpr double kYoungS = 60;

  static bool is_young(const Json& job) {
    const auto created = parse_rfc3339(text_at(job, "created_at", ""));
    return created && static_cast<double>(std::time(nullptr)) - *created < kYoungS;
  }

  std::optional<double> seen_;  // the newest that was there at the last look
};

// Notices stages of a training pipeline that depend on a single agent.
class Lone {
 public:
  std::optional<std::string> news(const Api& api, const Json& job, double now) {
    const bool piped = text_at(job, "spec/swarm/stages", "1") != "1";
    if (!piped || text_at(job, "status/phase") != "training" || now < ask_at_) return std::nullopt;
    ask_at_ = now + kLookEveryS;
    const auto answer = api.get("/jobs/" + url_escape(text_at(job, "id")) + "/topology");
    const Json* replicas = answer.ok() ? at_path(*answer, "replicas") : nullptr;
    if (replicas == nullptr) return std::nullopt;
    std::string text = lone_stages(*replicas);
    if (text == said_) return std::nullopt;
    said_ = std::move(text);
    return said_.empty() ? "note: no stage depends on a single agent any more"
                         : "note: " + said_ +
                               ": if such an agent is lost, the job rolls back to a checkpoint";
  }

 private:
  static constexpr double kLookEveryS = 5;
  double ask_at_ = 0;
  std::string said_;
};

Error detached(const std::string& job) {
  return {
      Code::kCancelled, "stopped watching; the job continues", "",
      "watch again with `shoal job watch " + job + "`, end it with `shoal job cancel " + job + "`"};
}

}  // namespace

Result<Json> watch_job(const Api& api, const std::string& job, const WatchOptions& options) {
  catch_interrupts();
  Display display(options.output);
  Warnings warnings;
  Lone lone;
  const double started = now_s();
  double heard = started;
  bool lost = false;
  for (;;) {
    auto answer = api.get("/jobs/" + url_escape(job));
    if (interrupted()) return detached(job);
    const double now = now_s();
    if (answer.ok()) {
      if (lost) display.interject("The coordinator is back.");
      lost = false;
      heard = now;
      if (options.output != WatchOutput::kJson) {
        for (const std::string& warning : warnings.news(api, *answer)) {
          display.interject(warning);
        }
        if (const auto note = lone.news(api, *answer, now)) display.interject(*note);
      }
      display.show(*answer, now);
      const JobProgress progress = read_progress(*answer);
      if (progress.finished() || progress.phase == options.until) return answer;
    } else if (answer.error().code != Code::kUnavailable &&
               answer.error().code != Code::kDeadlineExceeded) {
      return answer.error();
    } else {
      if (now - heard > options.unreachable_max_s || heard == started) return answer.error();
      if (!lost) display.interject("The coordinator does not answer; waiting for it.");
      lost = true;
    }
    if (options.timeout_s > 0 && now - started > options.timeout_s) {
      return Error{Code::kDeadlineExceeded,
                   "the job is not " + (options.until.empty() ? "finished" : options.until) +
                       " after " + human_duration(options.timeout_s),
                   "--timeout", "it continues; watch again with `shoal job watch " + job + "`"};
    }
    if (!pause_for(kAskEveryS)) return detached(job);
  }
}

std::vector<std::string> fresh_warnings(const Json& newest_first, std::optional<double>& seen) {
  std::vector<std::string> fresh;
  double newest = seen.value_or(0);
  for (const Json& event : newest_first) {
    const double seq = number_at(event, "seq");
    newest = std::max(newest, seq);
    if (!seen || seq <= *seen) continue;
    fresh.push_back("warning: " + text_at(event, "at") + "  " + text_at(event, "message"));
  }
  seen = newest;
  std::reverse(fresh.begin(), fresh.end());
  return fresh;
}

int outcome_of(const Json& job) {
  const JobProgress end = read_progress(job);
  if (end.phase == "completed") return kExitOk;
  say("Job " + end.name + (end.phase == "failed" ? " has failed: " : " was cancelled: ") +
      (end.detail.empty() ? words(end.reason) : end.detail));
  return kExitJobFailed;
}

}  // namespace shoal::cli
