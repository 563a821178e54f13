// Asks the driver of the GPUs through a helper process (driver_queries.h), each question with a
// deadline. The helper is started when it is needed. One that does not answer in time, ends, or
// cannot be understood is killed; what of it hangs in the driver is not waited for. It has none of
// this process's descriptors, and dies with the thread that started it.
//
// One thread at a time.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <sys/types.h>

#include "agent/host/driver_queries.h"
#include "base/result.h"
#include "base/time.h"

namespace shoal::agent {

struct DriverOptions {
  std::string library;  // a path or a soname; empty: GPUs are not asked
  std::string program = "/proc/self/exe";
  // Until the driver has started: it may initialize each GPU, which takes seconds where no other
  // process uses them. Then for each question.
  Duration start_limit = seconds(30), answer_limit = seconds(5);
};

class DriverHelper {
 public:
  explicit DriverHelper(DriverOptions options) : options_(std::move(options)) {}
  ~DriverHelper();
  DriverHelper(const DriverHelper&) = delete;
  DriverHelper& operator=(const DriverHelper&) = delete;

  // Starts a helper, and in it the driver. How many GPUs there are; none: there is no driver. An
  // Error says why the driver cannot be used.
  Result<std::optional<unsigned>> open();
  // From now on a question ends when that is requested.
  void stop_with(std::stop_token stop) { stop_ = std::move(stop); }
  bool is_open() const { return pid_ > 0; }
  pid_t process() const { return pid_; }  // -1: none runs
  void end();

  // An Error says what is wrong with this question; no helper runs then.
  Result<GpuIdentity> find(unsigned number);
  Result<GpuIdentity> describe(unsigned number);
  Result<std::vector<std::int32_t>> xids(unsigned number);
  Result<GpuReading> read(unsigned number, bool list);

 private:
  Status start();
  Result<std::string> ask(const std::string& request, Duration limit);
  Error died();
  void reap();

  const DriverOptions options_;
  std::stop_token stop_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::vector<pid_t> killed_;  // and not waited for yet
};

}  // namespace shoal::agent
