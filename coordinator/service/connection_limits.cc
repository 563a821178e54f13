#include "coordinator/service/connection_limits.h"

#include <algorithm>

#include "base/check.h"

namespace shoal::coordinator {

ConnectionLimitOptions connection_limits_of(std::size_t descriptors_max) {
  constexpr std::size_t kUnfinishedMost = 4'096;
  ConnectionLimitOptions options;
  options.unfinished = std::clamp<std::size_t>(descriptors_max / 8, 8, kUnfinishedMost);
  options.per_client = options.unfinished * 3 / 4;
  options.all = std::max(descriptors_max * 7 / 16, options.unfinished);
  return options;
}

SocketId ConnectionLimits::oldest(const Ids& silent, const Ids& heard) {
  if (!silent.empty()) return *silent.begin();
  return heard.empty() ? 0 : *heard.begin();
}

SocketId ConnectionLimits::oldest_unfinished() const { return oldest(silent_, heard_); }

ConnectionLimits::Verdict ConnectionLimits::add(SocketId id, const std::string& peer,
                                                const std::string& client, Instant now,
                                                bool exempt) {
  // The end of a connection may be noticed after the next one has its address and port.
  if (const auto before = by_peer_.find(peer); before != by_peer_.end()) remove(before->second);
  Verdict verdict;
  const auto evict = [&](SocketId one) {
    remove(one);
    verdict.evicted.push_back(one);
  };
  if (!exempt) {
    const auto known = clients_.find(client);
    if (known != clients_.end() &&
        known->second.silent.size() + known->second.heard.size() >= options_.per_client) {
      evict(oldest(known->second.silent, known->second.heard));
    }
    const bool is_full = unfinished() >= options_.unfinished || size() >= options_.all;
    if (is_full && oldest_unfinished() != 0) evict(oldest_unfinished());
    if (size() >= options_.all) {
      verdict.admitted = false;
      return verdict;
    }
    clients_[client].silent.insert(id);
    silent_.insert(id);
  } else {
    exempt_.insert(id);
  }
  connections_.emplace(id, Connection{peer, client, now, false, exempt, {}});
  by_peer_[peer] = id;
  return verdict;
}

void ConnectionLimits::heard(SocketId id) {
  if (silent_.erase(id) == 0) return;
  heard_.insert(id);
  Client& client = clients_.at(connections_.at(id).client);
  client.silent.erase(id);
  client.heard.insert(id);
}

void ConnectionLimits::drop_unfinished(SocketId id, const Connection& connection) {
  silent_.erase(id);
  heard_.erase(id);
  exempt_.erase(id);
  const auto client = clients_.find(connection.client);
  if (client == clients_.end()) return;
  client->second.silent.erase(id);
  client->second.heard.erase(id);
  if (client->second.silent.empty() && client->second.heard.empty()) clients_.erase(client);
}

std::vector<SocketId> ConnectionLimits::identify(const std::string& peer, AgentId member) {
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end()) return {};
  const SocketId id = found->second;
  Connection& connection = connections_.at(id);
  if (connection.finished) return {};
  drop_unfinished(id, connection);
  connection.finished = true;
  connection.member = member;
  if (!member) return {};
  Ids& own = members_[member];
  own.insert(id);
  if (own.size() <= options_.per_member) return {};
  const SocketId first = *own.begin();
  remove(first);
  return {first};
}

std::vector<SocketId> ConnectionLimits::late(Instant now) const {
  std::vector<SocketId> late;
  for (const Ids* ids : {&silent_, &heard_, &exempt_}) {
    for (const SocketId id : *ids) {
      if (now - connections_.at(id).since < options_.finish) break;  // the others are newer
      late.push_back(id);
    }
  }
  return late;
}

void ConnectionLimits::remove(SocketId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Connection& connection = found->second;
  if (!connection.finished) drop_unfinished(id, connection);
  if (const auto member = members_.find(connection.member); member != members_.end()) {
    member->second.erase(id);
    if (member->second.empty()) members_.erase(member);
  }
  const auto named = by_peer_.find(connection.peer);
  if (named != by_peer_.end() && named->second == id) by_peer_.erase(named);
  connections_.erase(found);
}

}  // namespace shoal::coordinator
