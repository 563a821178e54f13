// See cell_leader.h.
#include "trainer/cell_leader.h"

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
#include "trainer/cell_member.h"

extern char** environ;

namespace shoal::trainer {

// ---- processes

CellMember::CellMember(CellMember&& other) noexcept
    : socket(std::move(other.socket)), process(std::exchange(other.process, -1)) {}

CellMember::~CellMember() {
  if (process <= 0) return;
  kill(process, SIGKILL);  // it holds nothing that is worth a goodbye
  waitpid(process, nullptr, 0);
}

Result<CellMember> start_cell_member(const std::string& program,
                                     std::vector<std::string> environment) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Error{Code::kResourceExhausted, std::string("socketpair: ") + std::strerror(errno), "",
                 ""};
  }
  CellMember member;
  member.socket = std::make_unique<CellSocket>(ends[0]);
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  std::vector<char*> variables;
  for (std::string& one : environment) variables.push_back(one.data());
  variables.push_back(nullptr);
  std::string name = program, command = kCellMemberCommand;
  std::array<char*, 3> arguments{name.data(), command.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kCellMemberSocket);
  const int failed = posix_spawn(&member.process, program.c_str(), &actions, nullptr,
                                 arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed == 0) return member;
  member.process = -1;
  return Error{Code::kNotFound, "cannot start " + program + ": " + std::strerror(failed), "", ""};
}

// ---- the cell

CellLeader::CellLeader(StageModel& model, std::vector<CellMember> members)
    : model_(model),
      members_(std::move(members)),
      cell_(static_cast<int>(members_.size()) + 1),
      given_(members_.size() + 1, -1),
      sum_(static_cast<std::size_t>(model.value_count())),
      received_(sum_.size()) {
  const std::string job = proto::spec_to_json(model.spec()).dump();
  for (int rank = 1; rank < cell_.size(); ++rank) {
    if (!socket(rank).send({CellKind::kLoad}, {std::as_bytes(std::span(job))}, kLimit)) drop(rank);
  }
}

void CellLeader::drop(int rank) {
  std::cerr << "shoal-trainer: WARNING: member " << rank << " of the cell is lost" << std::endl;
  cell_.lost(rank);
}

// A member takes a while to load; the others do not wait for it.
void CellLeader::take_in_newcomers() {
  for (int rank = 1; rank < cell_.size(); ++rank) {
    if (cell_.state(rank) != swarm::CellMemberState::kStarting) continue;
    if (!socket(rank).waiting()) continue;
    const auto header = socket(rank).receive(kLimit);
    header && header->kind == CellKind::kJoined ? cell_.joined(rank) : drop(rank);
  }
}

CellPieces CellLeader::state() {
  parameters_.resize(sum_.size());
  model_.read_parameters(parameters_);
  if (!model_.keeps_gradient()) {  // else there are no moments
    m_.resize(sum_.size());
    v_.resize(static_cast<std::size_t>(model_.second_moment_count()));
    model_.read_adam(m_, v_);
  }
  return {std::as_bytes(std::span(parameters_)), std::as_bytes(std::span(m_)),
          std::as_bytes(std::span(v_))};
}

void CellLeader::give_state() {
  CellPieces pieces;
  for (const int rank : cell_.members()) {
    std::int64_t& given = given_[static_cast<std::size_t>(rank)];
    if (rank == 0 || given == model_.writes()) continue;
    if (pieces.empty()) pieces = state();
    CellHeader header{CellKind::kState, cell_.generation()};
    header.step = model_.adam_step();
    socket(rank).send(header, pieces, kLimit) ? void(given = model_.writes()) : drop(rank);
  }
}

bool CellLeader::send_shares(Steps step, const std::vector<swarm::CellShare>& shares) {
  const std::int32_t generation = cell_.generation();
  for (const int rank : cell_.members()) {
    if (rank == 0) continue;
    const swarm::CellShare& share = shares[static_cast<std::size_t>(rank)];
    const CellHeader header{CellKind::kCompute, generation, step.count(), share.first, share.count};
    if (!socket(rank).send(header, {}, kLimit)) drop(rank);
  }
  return cell_.generation() == generation;
}

// What belongs to a step that is void comes first and is dropped.
Status CellLeader::take_gradient(int rank, Steps step, double& loss) {
  for (;;) {
    const auto header = socket(rank).receive(patience_);
    if (!header) return header.error();
    const bool fits =
        header->kind == CellKind::kGradient && header->size == received_.size() * sizeof(float);
    if (!fits) return Error{Code::kInternal, "a message that belongs nowhere", "", ""};
    if (header->generation != cell_.generation() || header->step != step.count()) {
      if (Status skipped = socket(rank).skip(header->size, kLimit); !skipped) return skipped;
      continue;
    }
    loss += header->loss;
    return socket(rank).receive(std::as_writable_bytes(std::span(received_)), kLimit);
  }
}

void CellLeader::collect(Steps step, double& loss) {
  for (const int rank : cell_.members()) {
    if (rank == 0) continue;
    if (!take_gradient(rank, step, loss)) return drop(rank);
    cell_.gave(rank);
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += received_[i];
  }
}

// Who does not get it is lost with the next step; this one is taken.
void CellLeader::send_sum(Steps step, double loss) {
  CellHeader header{CellKind::kSum, cell_.generation(), step.count()};
  header.loss = loss;
  for (const int rank : cell_.members()) {
    if (rank != 0 && !socket(rank).send(header, {std::as_bytes(std::span(sum_))}, kLimit)) {
      drop(rank);
    }
  }
}

MaybeFailure CellLeader::gradient(Steps step, const swarm::CellShare& batch, const Compute& compute,
                                  double& loss) {
  take_in_newcomers();
  for (;;) {
    give_state();
    const auto shares = cell_.begin_step(batch.first, batch.count, model_.spec().train.microbatch);
    if (!send_shares(step, shares)) continue;
    const auto start = std::chrono::steady_clock::now();
    if (auto failure = compute(shares[0], loss)) return failure;
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    patience_ = kLimit + Duration{kSlower * took.count()};
    if (cell_.members().size() == 1 && cell_.under_way()) {  // alone
      cell_.gave(0);
      cell_.step_taken();
      return std::nullopt;
    }
    cell_.gave(0);
    model_.read_step_gradient(sum_);
    collect(step, loss);
    if (!cell_.complete()) continue;
    cell_.step_taken();
    model_.write_step_gradient(sum_);
    send_sum(step, loss);
    return std::nullopt;
  }
}

}  // namespace shoal::trainer
