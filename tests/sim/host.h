// One simulated machine: a disk with the agent's identity and checkpoint folders, the agent daemon
// (the real core) and one trainer per device. The daemon can crash, freeze, be asked to stop; its
// trainers die with it. A supervisor starts it again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/agent.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

class Host final : public AgentEnd, public TrainerOwner {
 public:
  Host(Sim& sim, Network& network, PeerNetwork& peers, CoordinatorProcess& coordinator, int index);

  void boot();
  void crash(bool lose_disk);
  void pause() { process_.pause(); }
  void resume() { process_.resume(); }
  void stop();                    // SIGTERM
  std::function<void()> on_exit;  // the daemon ended; the world starts it again

  void collect_transitions();  // of the running core into the counts; once per life

  bool alive() const { return process_.alive(); }
  bool paused() const { return process_.paused(); }
  void fail_next_upload() { fail_upload_ = true; }
  std::vector<std::unique_ptr<Trainer>>& trainers() { return trainers_; }

  int host() const override { return index_; }
  std::uint64_t life() const override { return life_; }
  void link_up(agent::LinkId link) override;
  void link_down(agent::LinkId link, const Error& error) override;
  void coordinator_said(agent::LinkId link, const ToAgent& message) override;

  void trainer_attached(agent::TrainerId trainer, const TrainerReady& ready) override;
  void trainer_said(agent::TrainerId trainer, const FromTrainer& message) override;
  void trainer_exited(agent::TrainerId trainer, const agent::ProcessExit& exit) override;
  const CheckpointFiles* folder(const std::string& name) const override;
  void put_folder(const std::string& name, CheckpointFiles files) override;
  Bytes real_memory(std::int32_t device) const override;
  void limit_memory(std::int32_t device, Bytes most) override;
  void restore_memory() { short_of_memory_.clear(); }

 private:
  void later(agent::Input input);  // in this life of the daemon, in order
  void input(const agent::Input& input);
  void arm();
  void perform(const agent::Effect& effect);
  void perform_files(const agent::Effect& effect);
  Trainer& trainer(std::int32_t slot);
  void fetch(const agent::FetchCheckpoint& effect);
  void hash(const agent::HashCheckpoint& effect);
  void upload(const agent::UploadCheckpoint& effect);
  void exit(const agent::ExitProcess& effect);
  agent::Options options() const;

  Sim& sim_;
  Network& network_;
  PeerNetwork& peers_;
  CoordinatorProcess& coordinator_;
  Process process_;
  Prng prng_;
  const int index_;
  std::uint64_t life_ = 0;                          // counts boots and deaths
  std::string uid_;                                 // on disk
  std::map<std::string, CheckpointFiles> folders_;  // on disk
  std::unique_ptr<agent::Agent> core_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::optional<Instant> armed_;
  bool fail_upload_ = false;
  std::map<std::int32_t, Bytes> short_of_memory_;  // by device: what it really has
};

}  // namespace shoal::sim
