// One simulated operating-system process: it can be killed, started again and stopped for a while
// (SIGSTOP). What was scheduled for a killed process never runs; what is scheduled for a stopped
// one runs, in order, when it continues, with the state it had before.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "tests/sim/event_queue.h"

namespace shoal::sim {

class Process {
 public:
  explicit Process(EventQueue& queue) : queue_(queue) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool alive() const { return alive_; }
  bool paused() const { return paused_; }
  std::uint64_t generation() const { return generation_; }

  void start() {
    ++generation_;  // what was scheduled between two lives belongs to neither
    alive_ = true;
  }
  void kill() {
    ++generation_;
    alive_ = paused_ = false;
    held_.clear();
  }
  void pause() { paused_ = alive_; }
  void resume() {
    if (!paused_) return;
    paused_ = false;
    std::deque<std::function<void()>> held = std::move(held_);
    held_.clear();
    const std::uint64_t generation = generation_;
    for (auto& run : held) {
      if (generation == generation_) run();
    }
  }

  // Runs `run` at `when` unless this life of the process has ended by then.
  void at(Instant when, std::function<void()> run) {
    queue_.at(when, [this, generation = generation_, run = std::move(run)]() mutable {
      if (generation != generation_ || !alive_) return;
      if (paused_) {
        held_.push_back(std::move(run));
      } else {
        run();
      }
    });
  }
  void after(Duration delay, std::function<void()> run) {
    at(queue_.now() + delay, std::move(run));
  }
  // At once; in a stopped process, behind what already waits.
  void when_running(std::function<void()> run) {
    if (paused_) {
      held_.push_back(std::move(run));
    } else if (alive_) {
      run();
    }
  }

 private:
  EventQueue& queue_;
  bool alive_ = false, paused_ = false;
  std::uint64_t generation_ = 0;
  std::deque<std::function<void()>> held_;
};

}  // namespace shoal::sim
