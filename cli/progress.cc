// The data-parallel figure: a ring all-reduce moves 2 (n-1)/n of the gradient's bytes per member
// and step (Patarasuk and Yuan 2009, section 2), so n members send 2 (n-1) * 4 bytes per fp32
// parameter.
#include "cli/progress.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/number_text.h"
#include "cli/format.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

constexpr double kWindowS = 30;
constexpr std::size_t kSamplesMax = 64;

std::optional<double> optional_number(const Json& job, std::string_view path) {
  const Json* node = at_path(job, path);
  if (!node || !node->is_number()) return std::nullopt;
  return node->get<double>();
}

std::string loss_text(const char* label, const std::optional<double>& loss) {
  return loss ? std::string(label) + " " + fixed(*loss, 3) : std::string();
}

std::string traffic_text(const JobProgress& job) {
  if (job.bytes_sent <= 0) return "";
  std::string text = "sent " + size_text(job.bytes_sent);
  if (job.bytes_data_parallel) {
    text += " (data parallel: " + size_text(*job.bytes_data_parallel) + ")";
  }
  return text;
}

std::string speed_text(const JobProgress& job, const SpeedMeter& speed) {
  const auto rate = job.tokens_per_s ? job.tokens_per_s : speed.tokens_per_s();
  return rate && *rate > 0 ? human_count(*rate) + " tokens/s" : "";
}

std::string left_text(const JobProgress& job, const SpeedMeter& speed) {
  if (job.phase != "training" || job.reason == "pausing" || job.step >= job.steps) return "";
  const auto left = speed.seconds_left(job.steps - job.step);
  return left ? human_duration(*left) + " left" : "";
}

std::string joined(const std::vector<std::string>& parts, const char* separator, int columns) {
  std::string line;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const std::string longer = line.empty() ? part : line + separator + part;
    if (columns > 0 && display_width(longer) > static_cast<std::size_t>(columns)) break;
    line = longer;
  }
  return line;
}

std::string round_text(const JobProgress& job) { return "round " + rounds_cell(job); }

std::string step_text(const JobProgress& job) {
  return "step " + fixed(job.step, 0) + "/" + fixed(job.steps, 0);
}

// What to say instead of numbers while nothing moves; in a word where something does.
std::string waiting_text(const JobProgress& job) {
  if (job.finished() || job.reason == "running") return "";
  if (!job.detail.empty() && job.phase != "training") return job.detail;
  return job.reason == "none" ? "" : words(job.reason);
}

}  // namespace

std::string rounds_cell(const JobProgress& job) {
  return fixed(job.round, 0) + (job.rounds ? "/" + fixed(*job.rounds, 0) : "");
}

bool JobProgress::finished() const {
  return phase == "completed" || phase == "failed" || phase == "cancelled";
}

double JobProgress::fraction() const {
  return steps > 0 ? std::clamp(step / steps, 0.0, 1.0) : 0.0;
}

std::string words(std::string snake_case) {
  std::replace(snake_case.begin(), snake_case.end(), '_', ' ');
  return snake_case;
}

JobProgress read_progress(const Json& job) {
  JobProgress read;
  read.id = text_at(job, "id", "");
  read.name = text_at(job, "name", text_at(job, "spec/name", ""));
  read.phase = text_at(job, "status/phase", "");
  read.reason = text_at(job, "status/reason", "");
  read.detail = text_at(job, "status/detail", "");
  read.step = number_at(job, "status/progress/inner_step");
  read.steps = number_at(job, "spec/train/steps");
  read.round = number_at(job, "status/progress/rounds_committed");
  read.rounds = optional_number(job, "status/progress/rounds_total");
  read.tokens = number_at(job, "status/progress/tokens");
  read.train_loss = optional_number(job, "status/train_loss");
  read.validation_loss = optional_number(job, "status/validation_loss");
  read.tokens_per_s = optional_number(job, "status/progress/tokens_per_second");
  read.bytes_sent = number_at(job, "status/bytes_sent");
  read.bytes_data_parallel = optional_number(job, "status/bytes_ddp");
  return read;
}

void SpeedMeter::add(double now_s, double step, double tokens) {
  if (!samples_.empty() && step < samples_.back().step)
    samples_.clear();  // rolled back to a checkpoint
  samples_.push_back({now_s, step, tokens});
  const auto stale = [&](const Sample& sample) { return now_s - sample.at > kWindowS; };
  while (samples_.size() > 2 && (stale(samples_.front()) || samples_.size() > kSamplesMax)) {
    samples_.erase(samples_.begin());
  }
}

std::optional<double> SpeedMeter::tokens_per_s() const {
  if (samples_.size() < 2) return std::nullopt;
  const double seconds = samples_.back().at - samples_.front().at;
  const double tokens = samples_.back().tokens - samples_.front().tokens;
  if (seconds < 1 || tokens <= 0) return std::nullopt;
  return tokens / seconds;
}

std::optional<double> SpeedMeter::seconds_left(double steps_left) const {
  if (samples_.size() < 2) return std::nullopt;
  const double seconds = samples_.back().at - samples_.front().at;
  const double steps = samples_.back().step - samples_.front().step;
  if (seconds < 1 || steps <= 0) return std::nullopt;
  return steps_left * seconds / steps;
}

std::string bar(double fraction, int cells) {
  static constexpr std::array kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * cells * 8);
  std::string out;
  for (int i = 0; i < eighths / 8; ++i) out += "█";
  out += kEighths[static_cast<std::size_t>(eighths % 8)];
  const int used = eighths / 8 + (eighths % 8 ? 1 : 0);
  return out + std::string(static_cast<std::size_t>(std::max(0, cells - used)), ' ');
}

std::vector<std::string> progress_block(const JobProgress& job, const SpeedMeter& speed,
                                        int columns, bool color) {
  const int cells = std::clamp(columns - 60, 8, 40);
  const std::string head =
      joined({job.name + "  " + job.phase, "|" + bar(job.fraction(), cells) + "|", round_text(job),
              step_text(job), left_text(job, speed)},
             "  ", columns - 1);
  const std::string numbers = joined(
      {waiting_text(job), loss_text("train", job.train_loss),
       loss_text("validation", job.validation_loss), speed_text(job, speed), traffic_text(job)},
      " · ", columns - 3);
  return {paint(head, job.finished() ? color_of_state(job.phase) : Color::kNone, color),
          paint("  " + numbers, Color::kDim, color)};
}

std::string progress_line(const JobProgress& job, const SpeedMeter& speed) {
  return joined({job.name + ": " + job.phase, round_text(job), step_text(job), waiting_text(job),
                 loss_text("train", job.train_loss), loss_text("validation", job.validation_loss),
                 speed_text(job, speed), traffic_text(job), left_text(job, speed)},
                " · ", 0);
}

}  // namespace shoal::cli
