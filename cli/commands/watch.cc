// The redrawing of the two-line block and the choice of what is news.
#include "cli/commands/watch.h"

#include <cstdio>

#include <time.h>

#include "cli/format.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

constexpr double kAskEveryS = 0.5;
constexpr double kLineEveryS = 10;  // a plain line at least this often while it trains

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

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
         progress_block(progress, speed_, stderr_columns(), terminal().stderr_colour)) {
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

Error detached(const std::string& job) {
  return {
      Code::kCancelled, "stopped watching; the job goes on", "",
      "watch again with `shoal job watch " + job + "`, end it with `shoal job cancel " + job + "`"};
}

}  // namespace

Result<Json> watch_job(const Api& api, const std::string& job, const WatchOptions& options) {
  catch_interrupts();
  Display display(options.output);
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
                   "the job is not " + (options.until.empty() ? "over" : options.until) +
                       " after " + human_duration(options.timeout_s),
                   "--timeout", "it goes on; watch again with `shoal job watch " + job + "`"};
    }
    if (!pause_for(kAskEveryS)) return detached(job);
  }
}

int outcome_of(const Json& job) {
  const JobProgress end = read_progress(job);
  if (end.phase == "completed") return kExitOk;
  say("Job " + end.name + " is " + end.phase + ": " +
      (end.detail.empty() ? words(end.reason) : end.detail));
  return kExitJobFailed;
}

}  // namespace shoal::cli
