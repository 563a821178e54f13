// One piece of work in a thread of its own, numbered, so that the end of a piece that was given up
// can be told from the end of the current one. stop() asks the work to end and waits for it; work
// that honors its stop token ends within moments.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <thread>
#include <utility>

namespace shoal::replica {

class Background {
 public:
  // `work(number, stop)` runs in a new thread; what ran before is stopped first.
  void start(std::function<void(std::uint64_t, std::stop_token)> work) {
    stop();
    ++number_;
    thread_ = std::jthread(
        [work = std::move(work), number = number_](std::stop_token stop) { work(number, stop); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
    ++number_;  // whatever it still reports is of the past
  }
  // Lets the work come to its own end, which must be bounded.
  void wait() {
    if (!thread_.joinable()) return;
    thread_.join();
    ++number_;
  }
  std::uint64_t current() const { return number_; }

 private:
  std::uint64_t number_ = 0;
  std::jthread thread_;
};

}  // namespace shoal::replica
