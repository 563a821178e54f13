// The leader's side of a replica group (swarm/core/replica_group/replica_group.h): its members are
// other processes of this host, spoken to over sockets (group_wire.h). The gradients of a step are
// added by the devices where all can do that (swarm/cuda/device_group.h); else they meet here and
// are added in the order of the ranks, so all take the same step with the same bits, whichever
// member was first. Whenever the leader's parameters were written by something else than a step (a
// commit, say), members get its state again before the next one.
//
// A member that ends, fails or says nothing for too long is out; the step is computed again by
// those who are left, with a new communicator, and the leader continues alone when nobody is. One
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "swarm/core/replica_group/replica_group.h"
#include "swarm/cuda/device_group.h"
#include "trainer/model/failure.h"
#include "trainer/model/group_wire.h"
#include "trainer/model/stage_model.h"

namespace shoal::trainer {

// One member: its socket, and the process behind it, which ends with this.
struct GroupMember {
  std::unique_ptr<GroupSocket> socket;
  int process = -1;  // its id; -1: none to end

  GroupMember() = default;
  GroupMember(GroupMember&& other) noexcept;
  GroupMember& operator=(GroupMember&&) = delete;
  ~GroupMember();
};

// Starts `program` as the member of a rank (group_member.h), with this environment beside the own.
Result<GroupMember> start_group_member(const std::string& program,
                                       std::vector<std::string> environment);

class GroupLeader {
 public:
  // Members have been told nothing yet; ranks follow their order, from 1. `model` outlives this.
  // `group`: what the leader's device adds gradients with; null: gradients come over the sockets.
  GroupLeader(StageModel& model, std::vector<GroupMember> members,
              std::unique_ptr<swarm::DeviceGroup> group);

  using Compute = std::function<MaybeFailure(const swarm::GroupShare&, double& loss)>;
  // The gradient of the mean over a batch becomes that of the model, and `loss` its loss; `compute`
  // does the own share. Fails only as `compute` does.
  MaybeFailure gradient(Steps step, const swarm::GroupShare& batch, const Compute& compute,
                        double& loss);

  const swarm::ReplicaGroup& replica_group() const { return replica_group_; }

 private:
  static constexpr Duration kLimit = seconds(60);  // of one message
  static constexpr std::int64_t kSlower = 10;      // than the leader, what a member may be

  void take_in_newcomers();
  void give_state();
  GroupPieces state();
  // These say false when the step is void and to be begun again.
  bool form_group(Steps step);
  bool tell_all(const GroupHeader& header, const GroupPieces& payload);
  bool send_shares(Steps step, const std::vector<swarm::GroupShare>& shares);
  bool add(Steps step, double& loss);
  bool collect(Steps step, double& loss);
  bool add_on_devices(Steps step);
  bool hear(GroupMessageKind kind, Steps step, bool patiently);
  bool everybody_has(const Status& own, GroupMessageKind kind, Steps step);

  Result<std::optional<GroupHeader>> next_of(int rank, GroupMessageKind kind, Steps step,
                                             Duration limit);
  Status take_gradient(int rank, Steps step, double& loss);
  void send_sum(Steps step, double loss);
  void say_who_adds();
  void drop(int rank);
  GroupSocket& socket(int rank) { return *members_[static_cast<std::size_t>(rank) - 1].socket; }
  std::size_t value_count() const { return static_cast<std::size_t>(model_.value_count()); }

  StageModel& model_;
  std::vector<GroupMember> members_;
  swarm::ReplicaGroup replica_group_;
  const std::unique_ptr<swarm::DeviceGroup> group_;
  std::pair<std::size_t, bool> said_;  // logged last: how many, and whether the devices add
  std::vector<std::int64_t> given_;    // by rank: the writes() that its state has
  std::vector<bool> answered_;         // by rank: to kGroup or kAdd
  Duration patience_ = kLimit;         // with a member that computes
  std::vector<float> sum_, received_, parameters_, m_, v_;
};

}  // namespace shoal::trainer
