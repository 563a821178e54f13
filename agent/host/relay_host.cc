#include "agent/host/relay_host.h"

#include <chrono>
#include <utility>

#include <unistd.h>

#include "base/host_port.h"
#include "wire/tcp_socket.h"

namespace shoal::agent {
namespace {

Instant system_now() {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(
              std::chrono::system_clock::now().time_since_epoch())
              .count()};
}

Error of_flag(Error error) {
  error.field = "--relay";
  return error;
}

}  // namespace

Status check_relay(const RelaySettings& settings) {
  if (Status good = wire::relay::check_options(settings.options); !good.ok()) return good;
  const auto fd = wire::listen_at(settings.options.bind);
  if (!fd.ok()) return of_flag(fd.error());
  ::close(*fd);
  return {};
}

void RelayHost::revoke(const std::vector<AgentId>& agents) {
  const MutexLock lock(mutex_);
  revoked_ = {agents.begin(), agents.end()};
}

identity::Beliefs RelayHost::beliefs(identity::Roots roots) const {
  const MutexLock lock(mutex_);
  return {std::move(roots), {.agents = revoked_, .serials = {}}};
}

Status RelayHost::refresh() {
  const auto believed = membership_->believes();
  if (!believed) return {};
  if (relay_) {
    trust_->set(beliefs(believed->roots));
    return {};
  }
  trust_ = std::make_shared<identity::Trust>(beliefs(believed->roots));
  auto relay = wire::relay::Relay::start(settings_.options, believed->cluster, trust_, system_now);
  if (!relay.ok()) return of_flag(relay.error());
  relay_ = std::move(relay).value();
  address_ = settings_.advertise;
  if (auto advertised = read_host_port(address_); advertised && advertised->port == 0) {
    advertised->port = read_host_port(relay_->address())->port;
    address_ = advertised->text();
  }
  return {};
}

std::optional<RelayFigures> RelayHost::figures() const {
  if (!relay_) return std::nullopt;
  const wire::relay::RelayCounts counts = relay_->counts();
  const auto number = [](std::uint64_t count) { return static_cast<std::int64_t>(count); };
  return RelayFigures{.waiting = number(counts.waiting),
                      .joined = number(counts.joined),
                      .joined_total = number(counts.joined_total),
                      .carried = Bytes(number(counts.bytes_total)),
                      .refused_identity = number(counts.refused_identity),
                      .refused_asks = number(counts.refused_asks),
                      .refused_handshakes = number(counts.refused_handshakes)};
}

}  // namespace shoal::agent
