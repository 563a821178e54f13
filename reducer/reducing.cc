#include "reducer/reducing.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"

namespace shoal::reducer {
namespace {

constexpr Duration kLook = seconds(1);

const ReduceMember& member_of(const ReducePlan& plan, ReplicaId replica) {
  return *std::ranges::find(plan.members, replica, &ReduceMember::replica);
}

}  // namespace

Reducing::Reducing(outer_opt::PeerNode& node, EventQueue& queue,
                   std::function<void(const FromTrainer&)> say, TrainerReady ready)
    : node_(node), queue_(queue), say_(std::move(say)), ready_(std::move(ready)) {}

Reducing::~Reducing() { stop(); }

void Reducing::run() {
  while (!over_) {
    if (const auto event = queue_.pop(kLook)) handle(*event);
  }
}

void Reducing::handle(const Event& event) {
  std::visit(Overloaded{
                 [this](const ToTrainer& command) { obey(command); },
                 [this](const ReduceEnded& end) { ended(end); },
                 [this](const agent_channel::StreamEnded&) { over_ = true; },
             },
             event);
}

// Whatever is told to those that train is not for this process.
void Reducing::obey(const ToTrainer& command) {
  if (std::holds_alternative<StopTrainer>(command)) over_ = true;
  if (const auto* c = std::get_if<LoadReplica>(&command)) return load(*c);
  if (const auto* c = std::get_if<Release>(&command)) return release(c->replica);
  const auto* plan = std::get_if<ToReplica<ReducePlan>>(&command);
  if (plan == nullptr || !reducer_ || plan->replica != replica_) return;
  outer_opt::Actions actions;
  reducer_->reduce(plan->body, actions);
  perform(actions);
}

void Reducing::load(const LoadReplica& command) {
  const Assign& assign = command.assign;
  if (reducer_ && replica_ == assign.replica) return;
  stop();
  replica_ = assign.replica;
  reducer_.emplace(replica_);
  say_(Loaded{replica_, assign.source.key, {}, {}, 0, node_.address()});
}

void Reducing::release(ReplicaId replica) {
  if (reducer_ && replica == replica_) {
    stop();
    reducer_.reset();
  }
  say_(ready_);
}

void Reducing::ended(const ReduceEnded& event) {
  if (!reducer_) return;
  outer_opt::Actions actions;
  const outer_opt::ReduceResult& result = event.result;
  if (result.ok) {
    reducer_->reduced(event.key, event.attempt, result.outcome.stats, result.outcome.seen, actions);
  } else {
    reducer_->reduce_failed(
        {event.key, event.attempt, result.error.lost, result.error.failure, result.error.detail},
        actions);
  }
  perform(actions);
}

void Reducing::perform(const outer_opt::Actions& actions) {
  for (const outer_opt::Action& action : actions) {
    if (const auto* begin = std::get_if<outer_opt::StartReduce>(&action)) start(begin->plan);
    if (std::holds_alternative<outer_opt::StopReduce>(action)) stop();
    const auto* say = std::get_if<outer_opt::Say>(&action);
    if (say == nullptr) continue;
    std::visit(
        [this](const auto& body) {
          say_(FromReplica<std::decay_t<decltype(body)>>{replica_, body});
        },
        say->message);
  }
}

void Reducing::start(const ReducePlan& plan) {
  stop();
  part_.assign(static_cast<std::size_t>(member_of(plan, replica_).part_count), 0.0f);
  work_ = std::jthread([this, plan, self = replica_](std::stop_token stop) {
    queue_.push(ReduceEnded{plan.key, plan.attempt, node_.reduce(plan, self, {}, part_, stop)});
  });
}

void Reducing::stop() {
  if (!work_.joinable()) return;
  work_.request_stop();
  work_.join();
}

}  // namespace shoal::reducer
