// See switchboard.h.
#include "wire/relay/core/switchboard.h"

#include <algorithm>
#include <utility>

namespace shoal::wire::relay {
namespace {

Error full(const char* field, const std::string& what, int most) {
  return {Code::kResourceExhausted, "this relay has " + what + ": " + std::to_string(most), field,
          "try again later, or let another agent relay, too"};
}

template <typename Map, typename Of>
int count(const Map& map, Of of) {
  return static_cast<int>(std::ranges::count_if(map, of));
}

}  // namespace

Status check_limits(const Limits& l) {
  for (const auto& [field, value] : {std::pair("waiting_max", l.waiting_max),
                                     std::pair("waiting_per_agent_max", l.waiting_per_agent_max),
                                     std::pair("calls_max", l.calls_max),
                                     std::pair("calls_per_agent_max", l.calls_per_agent_max),
                                     std::pair("joined_max", l.joined_max),
                                     std::pair("joined_per_agent_max", l.joined_per_agent_max)}) {
    if (value < 1) {
      return Error{Code::kValidation, "must be at least 1, got " + std::to_string(value), field,
                   "give a number above 0"};
    }
  }
  for (const auto& [field, value] :
       {std::pair("answer_limit", l.answer_limit), std::pair("silence_limit", l.silence_limit)}) {
    if (value <= Duration()) {
      return Error{Code::kValidation, "must be above 0 ms, got " + std::to_string(value.ms()),
                   field, "give a time above 0"};
    }
  }
  return {};
}

std::map<ConnectionId, Switchboard::Waiting>::iterator Switchboard::find_waiting(
    ReplicaId replica) {
  return std::ranges::find_if(waiting_,
                              [&](const auto& each) { return each.second.who.replica == replica; });
}

std::optional<Error> Switchboard::full_for_waiting(AgentId agent) const {
  const int of_agent =
      count(waiting_, [&](const auto& each) { return each.second.who.agent == agent; });
  if (of_agent >= limits_.waiting_per_agent_max) {
    return full("waiting_per_agent_max", "as many replicas of that agent as it takes",
                limits_.waiting_per_agent_max);
  }
  if (std::ssize(waiting_) >= limits_.waiting_max) {
    return full("waiting_max", "as many replicas as it takes", limits_.waiting_max);
  }
  return std::nullopt;
}

std::optional<Error> Switchboard::full_for_call(AgentId agent) const {
  const int calling =
      count(calls_, [&](const auto& each) { return each.second.from.agent == agent; });
  const int joined = count(joined_, [&](const auto& each) {
    return each.second.is_caller && each.second.agent == agent;
  });
  if (calling >= limits_.calls_per_agent_max) {
    return full("calls_per_agent_max", "as many open calls of that agent as it takes",
                limits_.calls_per_agent_max);
  }
  if (joined + calling >= limits_.joined_per_agent_max) {
    return full("joined_per_agent_max", "as many connections of that agent as it takes",
                limits_.joined_per_agent_max);
  }
  if (std::ssize(calls_) >= limits_.calls_max) {
    return full("calls_max", "as many open calls as it takes", limits_.calls_max);
  }
  if (std::ssize(joined_) / 2 + std::ssize(calls_) >= limits_.joined_max) {
    return full("joined_max", "as many connections as it takes", limits_.joined_max);
  }
  return std::nullopt;
}

Effects Switchboard::wait(ConnectionId id, const Member& who, Instant now) {
  Effects effects;
  if (const auto earlier = find_waiting(who.replica); earlier != waiting_.end()) {
    if (earlier->second.who.agent != who.agent) {
      return {Refuse{id,
                     {Code::kPermissionDenied,
                      to_string(who.replica) + " waits here for another agent", "", ""}}};
    }
    effects.push_back(Refuse{
        earlier->first, {Code::kCancelled, to_string(who.replica) + " waits here again", "", ""}});
    waiting_.erase(earlier);
  }
  if (const auto error = full_for_waiting(who.agent)) {
    effects.push_back(Refuse{id, *error});
    return effects;
  }
  waiting_[id] = {who, now};
  effects.push_back(Grant{id});
  return effects;
}

Effects Switchboard::call(ConnectionId id, const Member& who, ReplicaId whom, CallId call,
                          Instant now) {
  const auto called = find_waiting(whom);
  if (called == waiting_.end() || called->second.who.job != who.job) {
    return {Refuse{
        id,
        {Code::kNotFound,
         "no " + to_string(whom) + " of " + to_string(who.job) + " waits at this relay", "", ""}}};
  }
  if (const auto error = full_for_call(who.agent)) return {Refuse{id, *error}};
  const bool fresh =
      calls_.try_emplace(call, Call{id, who, called->second.who, now + limits_.answer_limit})
          .second;
  if (!fresh) {
    return {Refuse{id, {Code::kConflict, "a call of that number is open", "call", ""}}};
  }
  return {Tell{called->first, call}};
}

Effects Switchboard::answer(ConnectionId id, const Member& who, CallId call) {
  const auto open = calls_.find(call);
  if (open == calls_.end() || open->second.to != who) {
    return {Refuse{
        id,
        {Code::kNotFound, "no such call of " + to_string(who.replica) + " is open", "call", ""}}};
  }
  const ConnectionId caller = open->second.caller;
  joined_[caller] = {id, open->second.from.agent, true};
  joined_[id] = {caller, open->second.from.agent, false};
  calls_.erase(open);
  return {Join{caller, id}};
}

void Switchboard::heard(ConnectionId id, Instant now) {
  if (const auto waiting = waiting_.find(id); waiting != waiting_.end()) {
    waiting->second.heard_at = now;
  }
}

Effects Switchboard::gone(ConnectionId id) {
  waiting_.erase(id);
  std::erase_if(calls_, [&](const auto& each) { return each.second.caller == id; });
  const auto half = joined_.find(id);
  if (half == joined_.end()) return {};
  const ConnectionId other = half->second.other;
  joined_.erase(half);
  joined_.erase(other);
  return {Close{other}};
}

Effects Switchboard::tick(Instant now) {
  Effects effects;
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (now < it->second.until) {
      ++it;
      continue;
    }
    effects.push_back(Refuse{it->second.caller,
                             {Code::kDeadlineExceeded,
                              to_string(it->second.to.replica) + " did not answer within " +
                                  std::to_string(limits_.answer_limit.ms()) + " ms",
                              "", ""}});
    it = calls_.erase(it);
  }
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (now - it->second.heard_at < limits_.silence_limit) {
      ++it;
      continue;
    }
    effects.push_back(
        Refuse{it->first,
               {Code::kDeadlineExceeded,
                "nothing was heard of it for " + std::to_string(limits_.silence_limit.ms()) + " ms",
                "", ""}});
    it = waiting_.erase(it);
  }
  return effects;
}

}  // namespace shoal::wire::relay
