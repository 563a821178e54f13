// One simulated machine: a disk with the agent's identity and checkpoint folders, the agent daemon
// (the real core) and one trainer per device. The daemon can die alone, when its trainers live on
// and attach to the next one, or with all that runs there; it can freeze and be asked to stop. A
// supervisor starts it again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
  void crash(bool lose_disk);  // and its trainers
  void kill_daemon();          // alone
  void pause() {
    if (!paused()) paused_at_ = sim_.now();
    process_.pause();
  }
  void resume() {
    if (!frozen_) process_.resume();
  }
  // The machine stands still, and all that runs on it.
  void freeze();
  bool frozen() const { return frozen_; }
  void thaw();
  // Boots with a copy of that host's disk: as the same agent, somewhere else.
  void boot_as(const Host& other);
  void unplug();                  // it is gone with its disk, and nobody starts it again
  void stop();                    // SIGTERM
  std::function<void()> on_exit;  // the daemon ended; the world starts it again

  void collect_transitions();  // of the running core into the counts; once per life

  bool alive() const { return process_.alive(); }
  bool paused() const { return process_.paused(); }
  // It was asked to stop, or says good-bye.
  bool leaving() const {
    return core_ != nullptr && core_->view().daemon != agent::DaemonState::kRunning;
  }
  Instant paused_at() const { return paused_at_; }
  const std::string& uid() const { return uid_; }
  void fail_next_upload() { fail_upload_ = true; }
  // A bit changes in a file that is on its way, up or down.
  void flip_next_file() { flip_file_ = true; }
  std::vector<std::unique_ptr<Trainer>>& trainers() { return trainers_; }
  const std::vector<std::unique_ptr<Trainer>>& trainers() const { return trainers_; }

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
  bool is_bad_card(std::int32_t device) const override { return bad_cards_.contains(device); }
  void break_card(std::int32_t device) { bad_cards_.insert(device); }
  bool has_bad_card() const { return !bad_cards_.empty(); }
  void replace_cards() { bad_cards_.clear(), sick_cards_.clear(); }
  // Its driver reports a fatal XID, now.
  void fall_sick(std::int32_t device);
  bool has_sick_card() const { return !sick_cards_.empty(); }
  // The device computes at this share of its speed until then.
  void throttle(std::int32_t device, double share, Instant until) {
    throttled_[device] = {share, until};
  }
  void end_throttling() { throttled_.clear(); }
  double device_speed(std::int32_t device) const override;
  // Loads take this long until then.
  void slow_loads(Instant until, Duration time) { slow_loads_until_ = until, slow_load_ = time; }
  Duration load_time() const override;
  // Its data file is another one until then; who has opened it keeps the one that it has.
  void replace_data(Instant until) { other_data_until_ = until; }
  // With the next hello that names a replica.
  void claim_falsely() { claims_falsely_ = true; }
  void shorten_next_part() { shortens_part_ = true; }
  std::string data_file() const override {
    return sim_.now() < other_data_until_ ? "another corpus" : "corpus";
  }

 private:
  void end_daemon();
  std::vector<DeviceSample> samples() const;
  std::vector<agent::LeftTrainer> left_trainers();
  void later(agent::Input input);  // in this life of the daemon, in order
  void input(const agent::Input& input);
  void arm();
  void perform(const agent::Effect& effect);
  void open_link(const agent::OpenLink& effect);
  void add_false_claim(Hello& hello);
  void perform_files(const agent::Effect& effect);
  Trainer& trainer(std::int32_t slot);
  void fetch(const agent::FetchCheckpoint& effect);
  Result<CheckpointFiles> receive(const agent::CheckpointPartId& wanted);
  void hash(const agent::HashCheckpoint& effect);
  void upload(const agent::UploadCheckpoint& effect);
  CheckpointFiles on_the_way(CheckpointFiles files, const char* where);
  void exit(const agent::ExitProcess& effect);
  agent::Options options() const;

  Sim& sim_;
  Network& network_;
  PeerNetwork& peers_;
  CoordinatorProcess& coordinator_;
  Process process_;
  Prng prng_;
  const int index_;
  std::string name_;
  bool frozen_ = false;
  Instant paused_at_;
  std::uint64_t life_ = 0;                          // counts boots and deaths
  std::string uid_;                                 // on disk
  std::map<std::string, CheckpointFiles> folders_;  // on disk
  std::unique_ptr<agent::Agent> core_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::map<std::int32_t, std::int32_t> devices_;               // of trainers, by slot
  std::map<std::int32_t, agent::TrainerIdentity> identities_;  // the roster's, by slot
  std::optional<Instant> armed_;
  bool fail_upload_ = false, flip_file_ = false, claims_falsely_ = false, shortens_part_ = false;
  Instant slow_loads_until_;
  Duration slow_load_;
  Instant other_data_until_;
  std::map<std::int32_t, Bytes> short_of_memory_;  // by device: what it really has
  std::set<std::int32_t> bad_cards_;
  std::map<std::int32_t, Instant> sick_cards_;  // since when
  struct Throttled {
    double share = 1;
    Instant until;
  };
  std::map<std::int32_t, Throttled> throttled_;
};

}  // namespace shoal::sim
