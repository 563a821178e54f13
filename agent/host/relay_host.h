// The relay of an agent (docs/relays.md), when its operator wants one: it begins as soon as this
// host is a machine of the cluster, because only then it knows which CAs to trust, and follows the
// CAs that the machine trusts and what the coordinator says of revoked agents.
//
// Threads: one that drives the agent; revoke() may be called by any thread.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/membership.h"
#include "messages/message_parts.h"
#include "threads/mutex.h"
#include "wire/relay/relay.h"

namespace shoal::agent {

struct RelaySettings {
  wire::relay::RelayOptions options;
  // host:port that replicas dial; a port of 0 stands for the one that it listens on.
  std::string advertise;
};
// Whether it can listen there. Errors: validation, unavailable; the field is "--relay".
Status check_relay(const RelaySettings& settings);

class RelayHost {
 public:
  RelayHost(RelaySettings settings, std::shared_ptr<const Membership> membership)
      : settings_(std::move(settings)), membership_(std::move(membership)) {}

  // Starts it, or takes over what the machine trusts by now. After Membership::ensure().
  Status refresh();
  // The replicas of these agents are turned away, from the next refresh() on.
  void revoke(const std::vector<AgentId>& agents) SHOAL_EXCLUDES(mutex_);
  std::string address() const { return address_; }  // empty: it has not begun
  std::optional<RelayFigures> figures() const;

 private:
  identity::Beliefs beliefs(identity::Roots roots) const SHOAL_EXCLUDES(mutex_);

  const RelaySettings settings_;
  const std::shared_ptr<const Membership> membership_;
  std::shared_ptr<identity::Trust> trust_;
  std::unique_ptr<wire::relay::Relay> relay_;
  std::string address_;
  mutable Mutex mutex_;
  std::set<AgentId> revoked_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::agent
