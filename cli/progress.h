// How far a job is, for people: read from the API's job object, drawn as a bar of two lines on a
// terminal or as one plain line elsewhere. Pure functions; watch.h does the asking and the
// redrawing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/api.h"

namespace shoal::cli {

struct JobProgress {
  std::string id, name, phase, reason, detail;
  double step = 0, steps = 0;
  double round = 0;              // committed
  std::optional<double> rounds;  // of the whole job, where somebody knows
  double tokens = 0;
  std::optional<double> train_loss, validation_loss;  // nats per token
  std::optional<double> tokens_per_s;
  double bytes_sent = 0;                      // by all replicas, on the socket
  std::optional<double> bytes_data_parallel;  // what all-reducing every gradient would have sent
  bool finished() const;                      // completed, failed or cancelled
  double fraction() const;                    // of the inner steps
};
JobProgress read_progress(const Json& job);

std::string rounds_cell(const JobProgress& job);  // "3/24", or "3" where rounds have no number

// Speed and time left from what was seen over the last while; the first sample only starts the
// clock.
class SpeedMeter {
 public:
  void add(double now_s, double step, double tokens);
  std::optional<double> tokens_per_s() const;
  std::optional<double> seconds_left(double steps_left) const;

 private:
  struct Sample {
    double at, step, tokens;
  };
  std::vector<Sample> samples_;  // the last 30 s, at most 64
};

std::string bar(double fraction, int cells);  // "██████▌   ", exactly `cells` wide

// Two lines, no wider than `columns`; parts that do not fit are left out from the right.
std::vector<std::string> progress_block(const JobProgress& job, const SpeedMeter& speed,
                                        int columns, bool color);
std::string progress_line(const JobProgress& job, const SpeedMeter& speed);

// "waiting_for_replicas" as people write it.
std::string words(std::string snake_case);

}  // namespace shoal::cli
