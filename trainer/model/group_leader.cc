// See group_leader.h.
#include "trainer/model/group_leader.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <string>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "proto/job_spec_text.h"
#include "trainer/model/group_member.h"

extern char** environ;

namespace shoal::trainer {

// ---- processes

GroupMember::GroupMember(GroupMember&& other) noexcept
    : socket(std::move(other.socket)), process(std::exchange(other.process, -1)) {}

GroupMember::~GroupMember() {
  if (process <= 0) return;
  kill(process, SIGKILL);  // it holds nothing that is worth a goodbye
  waitpid(process, nullptr, 0);
}

Result<GroupMember> start_group_member(const std::string& program,
                                       std::vector<std::string> environment) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Error{Code::kResourceExhausted, std::string("socketpair: ") + std::strerror(errno), "",
                 ""};
  }
  GroupMember member;
  member.socket = std::make_unique<GroupSocket>(ends[0]);
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  std::vector<char*> variables;
  for (std::string& one : environment) variables.push_back(one.data());
  variables.push_back(nullptr);
  std::string name = program, command = kGroupMemberCommand;
  std::array<char*, 3> arguments{name.data(), command.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kGroupMemberSocket);
  const int failed = posix_spawn(&member.process, program.c_str(), &actions, nullptr,
                                 arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed == 0) return member;
  member.process = -1;
  return Error{Code::kNotFound, "cannot start " + program + ": " + std::strerror(failed), "", ""};
}

// ---- the replica group

namespace {

Status member_failed() { return Error{Code::kInternal, "a member failed", "", ""}; }

}  // namespace

GroupLeader::GroupLeader(StageModel& model, std::vector<GroupMember> members,
                         std::unique_ptr<swarm::DeviceGroup> group)
    : model_(model),
      members_(std::move(members)),
      replica_group_(static_cast<int>(members_.size()) + 1, group ? group->version() : 0),
      group_(std::move(group)),
      given_(members_.size() + 1, -1) {
  const std::string job = proto::spec_to_json(model.spec()).dump();
  for (int rank = 1; rank < replica_group_.size(); ++rank) {
    if (!socket(rank).send({GroupMessageKind::kLoad}, {std::as_bytes(std::span(job))}, kLimit))
      drop(rank);
  }
}

void GroupLeader::drop(int rank) {
  std::cerr << "shoal-trainer: WARNING: member " << rank << " of the replica group is lost"
            << std::endl;
  replica_group_.lost(rank);
}

// A member takes a while to load; the others do not wait for it.
void GroupLeader::take_in_newcomers() {
  for (int rank = 1; rank < replica_group_.size(); ++rank) {
    if (replica_group_.state(rank) != swarm::GroupMemberState::kStarting) continue;
    if (!socket(rank).waiting()) continue;
    const auto header = socket(rank).receive(kLimit);
    header && header->kind == GroupMessageKind::kJoined
        ? replica_group_.joined(rank, header->library)
        : drop(rank);
  }
}

GroupPieces GroupLeader::state() {
  parameters_.resize(value_count());
  model_.read_parameters(parameters_);
  if (!model_.keeps_gradient()) {  // else there are no moments
    m_.resize(value_count());
    v_.resize(static_cast<std::size_t>(model_.second_moment_count()));
    model_.read_adam(m_, v_);
  }
  return {std::as_bytes(std::span(parameters_)), std::as_bytes(std::span(m_)),
          std::as_bytes(std::span(v_))};
}

void GroupLeader::give_state() {
  GroupPieces pieces;
  for (const int rank : replica_group_.members()) {
    std::int64_t& given = given_[static_cast<std::size_t>(rank)];
    if (rank == 0 || given == model_.writes()) continue;
    if (pieces.empty()) pieces = state();
    GroupHeader header{GroupMessageKind::kState, replica_group_.generation()};
    header.step = model_.adam_step();
    socket(rank).send(header, pieces, kLimit) ? void(given = model_.writes()) : drop(rank);
  }
}

bool GroupLeader::send_shares(Steps step, const std::vector<swarm::GroupShare>& shares) {
  const std::int32_t generation = replica_group_.generation();
  for (const int rank : replica_group_.members()) {
    if (rank == 0) continue;
    const swarm::GroupShare& share = shares[static_cast<std::size_t>(rank)];
    const GroupHeader header{GroupMessageKind::kCompute, generation, step.count(), share.first,
                             share.count};
    if (!socket(rank).send(header, {}, kLimit)) drop(rank);
  }
  return replica_group_.generation() == generation;
}

// ---- what members say

// None: the message belongs to a void step, and is dropped.
Result<std::optional<GroupHeader>> GroupLeader::next_of(int rank, GroupMessageKind kind, Steps step,
                                                        Duration limit) {
  const auto header = socket(rank).receive(limit);
  if (!header) return header.error();
  if (header->generation != replica_group_.generation() || header->step != step.count()) {
    if (Status skipped = socket(rank).skip(header->size, kLimit); !skipped) return skipped.error();
    return std::optional<GroupHeader>();
  }
  if (header->kind == kind) return std::optional(*header);
  return Error{Code::kInternal, "an unexpected message", "", ""};
}

Status GroupLeader::take_gradient(int rank, Steps step, double& loss) {
  const bool on_device = replica_group_.sum() == swarm::GroupSum::kDevices;
  for (;;) {
    const auto header = next_of(rank, GroupMessageKind::kGradient, step, patience_);
    if (!header) return header.error();
    if (!*header) continue;
    received_.resize(on_device ? 0 : value_count());
    if ((*header)->size != received_.size() * sizeof(float)) {
      return Error{Code::kInternal, "a gradient of another size", "", ""};
    }
    loss += (*header)->loss;
    return socket(rank).receive(std::as_writable_bytes(std::span(received_)), kLimit);
  }
}

bool GroupLeader::collect(Steps step, double& loss) {
  for (const int rank : replica_group_.members()) {
    if (rank == 0) continue;
    if (!take_gradient(rank, step, loss)) return drop(rank), false;
    replica_group_.gave(rank);
    for (std::size_t i = 0; i < received_.size(); ++i) sum_[i] += received_[i];
  }
  return true;
}

// The members that have answered kGroup or kAdd. Without patience, only answers that are already
// there count.
bool GroupLeader::hear(GroupMessageKind kind, Steps step, bool patiently) {
  for (const int rank : replica_group_.members()) {
    while (rank != 0 && !answered_[static_cast<std::size_t>(rank)]) {
      if (!patiently && !socket(rank).waiting()) break;
      const auto header = next_of(rank, kind, step, kLimit);
      if (!header) return drop(rank), false;
      if (!*header) continue;
      if ((*header)->good == 0) return false;
      answered_[static_cast<std::size_t>(rank)] = true;
    }
  }
  return true;
}

// ---- adding on the devices

bool GroupLeader::tell_all(const GroupHeader& header, const GroupPieces& payload) {
  answered_.assign(members_.size() + 1, false);
  GroupHeader own = header;
  for (const int rank : replica_group_.members()) {
    if (rank == 0) continue;
    ++own.first;  // kGroup: ranks without gaps
    if (!socket(rank).send(own, payload, kLimit)) drop(rank);
  }
  return replica_group_.generation() == header.generation;
}

// After the leader's own part of kGroup or kAdd: whether all members have finished theirs. If a
// member is lost, the next generation tries again; if none is, the library has failed.
bool GroupLeader::everybody_has(const Status& own, GroupMessageKind kind, Steps step) {
  const std::int32_t generation = replica_group_.generation();
  if (own && hear(kind, step, true)) return true;
  const Status why = own ? member_failed() : own;
  group_->leave();
  for (const int rank : replica_group_.members()) {
    if (rank != 0 && socket(rank).gone()) drop(rank);
  }
  if (replica_group_.generation() == generation &&
      replica_group_.sum() == swarm::GroupSum::kDevices) {
    std::cerr << "shoal-trainer: WARNING: the devices of the replica group do not add with "
              << group_->name() << ": " << to_string(why.error()) << std::endl;
    replica_group_.add_failed();
  }
  return false;
}

// Every adding member is ready to add.
bool GroupLeader::form_group(Steps step) {
  say_who_adds();
  const std::int32_t generation = replica_group_.generation();
  if (replica_group_.sum() == swarm::GroupSum::kLeader) {
    if (group_) group_->leave();
    return true;
  }
  if (group_->ready(generation)) return true;
  const auto id = group_->make_id();
  if (!id) return everybody_has(id.error(), GroupMessageKind::kGrouped, step);
  const auto size = static_cast<int>(replica_group_.members().size());
  const GroupHeader header{GroupMessageKind::kGroup, generation, step.count(), 0, size};
  if (!tell_all(header, {std::span(*id)})) return false;
  bool all_well = true;
  const Status formed = group_->form({generation, 0, size}, *id, [&] {
    all_well = all_well && hear(GroupMessageKind::kGrouped, step, false);
    return !all_well;
  });
  return replica_group_.generation() == generation &&
         everybody_has(all_well ? formed : member_failed(), GroupMessageKind::kGrouped, step);
}

bool GroupLeader::add_on_devices(Steps step) {
  const std::int32_t generation = replica_group_.generation();
  if (!tell_all({GroupMessageKind::kAdd, generation, step.count()}, {})) return false;
  const std::span<float> gradient = model_.step_gradient_in_place();
  bool all_well = true;
  const Status added = group_->add(gradient.data(), gradient.size(), [&] {
    all_well = all_well && hear(GroupMessageKind::kAdded, step, false);
    return !all_well;
  });
  if (replica_group_.generation() != generation) return false;
  if (!everybody_has(all_well ? added : member_failed(), GroupMessageKind::kAdded, step))
    return false;
  for (const int rank : replica_group_.members()) replica_group_.added(rank);
  return true;
}

void GroupLeader::say_who_adds() {
  const std::size_t size = replica_group_.members().size();
  const bool on_devices = replica_group_.sum() == swarm::GroupSum::kDevices;
  if (size == 1 || said_ == std::pair(size, on_devices)) return;
  said_ = {size, on_devices};
  std::cerr << "shoal-trainer: the gradients of a replica group of " << size << " are added "
            << (on_devices ? "on the devices, with " + group_->name()
                           : std::string("by its leader, over sockets"))
            << std::endl;
}

// ---- a step

// The gradient of the whole batch becomes that of the model.
bool GroupLeader::add(Steps step, double& loss) {
  if (replica_group_.sum() == swarm::GroupSum::kDevices)
    return collect(step, loss) && add_on_devices(step);
  sum_.resize(value_count());
  model_.read_step_gradient(sum_);
  if (!collect(step, loss)) return false;
  model_.write_step_gradient(sum_);
  return true;
}

// A member that does not get it is lost with the next step; this step is taken.
void GroupLeader::send_sum(Steps step, double loss) {
  GroupHeader header{GroupMessageKind::kSum, replica_group_.generation(), step.count()};
  header.loss = loss;
  GroupPieces values;
  if (replica_group_.sum() == swarm::GroupSum::kLeader) values = {std::as_bytes(std::span(sum_))};
  for (const int rank : replica_group_.members()) {
    if (rank != 0 && !socket(rank).send(header, values, kLimit)) drop(rank);
  }
}

MaybeFailure GroupLeader::gradient(Steps step, const swarm::GroupShare& batch,
                                   const Compute& compute, double& loss) {
  take_in_newcomers();
  for (;;) {
    give_state();
    if (!form_group(step)) continue;
    const auto shares =
        replica_group_.begin_step(batch.first, batch.count, model_.spec().train.microbatch);
    if (!send_shares(step, shares)) continue;
    const auto start = std::chrono::steady_clock::now();
    if (auto failure = compute(shares[0], loss)) return failure;
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    patience_ = kLimit + Duration{kSlower * took.count()};
    replica_group_.gave(0);
    if (replica_group_.members().size() > 1 && !add(step, loss)) continue;
    replica_group_.step_taken();
    if (replica_group_.members().size() > 1) send_sum(step, loss);
    return std::nullopt;
  }
}

}  // namespace shoal::trainer
