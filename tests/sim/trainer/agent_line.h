// The line of a simulated trainer to its agent, as agent_channel/control.h is that of a real one:
// the process lives on when its agent dies, and says what it works on to the next one (HeldWork).
// Messages take a moment and keep their order. They reach the life of the daemon in which they were
// said and no later one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/core/io.h"
#include "messages/held_work.h"
#include "tests/sim/coordinator_process.h"
#include "tests/sim/process.h"

namespace shoal::sim {

// The agent as its trainer sees it.
class TrainerOwner {
 public:
  virtual ~TrainerOwner() = default;
  virtual void trainer_attached(agent::TrainerId trainer, const TrainerReady& ready) = 0;
  virtual void trainer_said(agent::TrainerId trainer, const FromTrainer& message) = 0;
  virtual void trainer_exited(agent::TrainerId trainer, const agent::ProcessExit& exit) = 0;
  virtual const CheckpointFiles* folder(const std::string& name) const = 0;
  virtual void put_folder(const std::string& name, CheckpointFiles files) = 0;
  // What a device really has, whatever the agent says of it.
  virtual Bytes real_memory(std::int32_t device) const = 0;
  virtual void limit_memory(std::int32_t device, Bytes most) = 0;
  virtual bool is_bad_card(std::int32_t device) const = 0;  // nothing works on the device
  // Share of its usual speed at which the device computes now.
  virtual double device_speed(std::int32_t device) const = 0;
  virtual std::string data_file() const = 0;  // what is in it
  virtual Duration load_time() const = 0;     // of a replica's state, from now on
};

class AgentLine {
 public:
  AgentLine(Process& process, TrainerOwner& owner) : process_(process), owner_(owner) {}

  // Begins the line of a process that has just been started.
  void begin(agent::TrainerId trainer, const TrainerReady& ready, Duration until_attached);
  void say(const FromTrainer& message);
  void heard(const ToTrainer& message) { work_.heard(message); }
  // `give_up`: none came back for as long as a process waits.
  void lose_agent(std::function<void()> give_up);
  // `answers`: that agent still lives by then.
  void find_agent(Duration delay, std::function<bool()> answers);

 private:
  void attach();

  Process& process_;
  TrainerOwner& owner_;
  agent::TrainerId trainer_;
  TrainerReady ready_;
  HeldWork work_;
  bool attached_ = false;
  std::uint64_t losses_ = 0;
};

}  // namespace shoal::sim
