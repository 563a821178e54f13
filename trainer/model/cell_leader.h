// The leader's side of a cell (swarm/core/cell/cell.h): its members are other processes of this
// host, spoken to over sockets (cell_wire.h). The gradients of a step are added by the devices
// where all can do that (swarm/cuda/device_group.h); else they meet here and are added in the order
// of the ranks, so all take the same step with the same bits, whoever was first. Whenever the
// leader's parameters were written by something else than a step (a commit, say), members get its
// state anew before the next one.
//
// A member that ends, fails or says nothing for too long is out; the step is computed again by
// those who are left, with a new communicator, and the leader goes on alone when nobody is. One
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "swarm/core/cell/cell.h"
#include "swarm/cuda/device_group.h"
#include "trainer/model/cell_wire.h"
#include "trainer/model/failure.h"
#include "trainer/model/stage_model.h"

namespace shoal::trainer {

// One member: its socket, and the process behind it, which ends with this.
struct CellMember {
  std::unique_ptr<CellSocket> socket;
  int process = -1;  // its id; -1: none to end

  CellMember() = default;
  CellMember(CellMember&& other) noexcept;
  CellMember& operator=(CellMember&&) = delete;
  ~CellMember();
};

// Starts `program` as the member of a rank (cell_member.h), with this environment beside the own.
Result<CellMember> start_cell_member(const std::string& program,
                                     std::vector<std::string> environment);

class CellLeader {
 public:
  // Members have been told nothing yet; ranks follow their order, from 1. `model` outlives this.
  // `group`: what the leader's device adds gradients with; null: gradients come over the sockets.
  CellLeader(StageModel& model, std::vector<CellMember> members,
             std::unique_ptr<swarm::DeviceGroup> group);

  using Compute = std::function<MaybeFailure(const swarm::CellShare&, double& loss)>;
  // The gradient of the mean over a batch becomes that of the model, and `loss` its loss; `compute`
  // does the own share. Fails only as `compute` does.
  MaybeFailure gradient(Steps step, const swarm::CellShare& batch, const Compute& compute,
                        double& loss);

  const swarm::Cell& cell() const { return cell_; }

 private:
  static constexpr Duration kLimit = seconds(60);  // of one message
  static constexpr std::int64_t kSlower = 10;      // than the leader, what a member may be

  void take_in_newcomers();
  void give_state();
  CellPieces state();
  // These say false when the step is void and to be begun again.
  bool form_group(Steps step);
  bool tell_all(const CellHeader& header, const CellPieces& payload);
  bool send_shares(Steps step, const std::vector<swarm::CellShare>& shares);
  bool add(Steps step, double& loss);
  bool collect(Steps step, double& loss);
  bool add_on_devices(Steps step);
  bool hear(CellKind kind, Steps step, bool patiently);
  bool everybody_has(const Status& own, CellKind kind, Steps step);

  Result<std::optional<CellHeader>> next_of(int rank, CellKind kind, Steps step, Duration limit);
  Status take_gradient(int rank, Steps step, double& loss);
  void send_sum(Steps step, double loss);
  void say_who_adds();
  void drop(int rank);
  CellSocket& socket(int rank) { return *members_[static_cast<std::size_t>(rank) - 1].socket; }
  std::size_t value_count() const { return static_cast<std::size_t>(model_.value_count()); }

  StageModel& model_;
  std::vector<CellMember> members_;
  swarm::Cell cell_;
  const std::unique_ptr<swarm::DeviceGroup> group_;
  std::pair<std::size_t, bool> said_;  // logged last: how many, and whether the devices add
  std::vector<std::int64_t> given_;    // by rank: the writes() that its state has
  std::vector<bool> answered_;         // by rank: to kGroup or kAdd
  Duration patience_ = kLimit;         // with a member that computes
  std::vector<float> sum_, received_, parameters_, m_, v_;
};

}  // namespace shoal::trainer
