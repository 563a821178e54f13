#include "coordinator/service/http/client_limits.h"

#include <algorithm>

namespace shoal::coordinator::rest {

bool is_probe(std::string_view path) {
  return path == "/livez" || path == "/readyz" || path == "/healthz";
}

void ClientLimits::refill(Client& client, std::int64_t now_ns) const {
  const ClientShare& share = share_of(client);
  const double elapsed_s = static_cast<double>(now_ns - client.counted_at_ns) * 1e-9;
  const double earned = elapsed_s * static_cast<double>(share.requests_per_s);
  client.requests =
      std::min(client.requests + std::max(earned, 0.0), static_cast<double>(share.requests_burst));
  client.counted_at_ns = now_ns;
}

// Forgets clients without a connection whose share of requests is whole again, which loses nothing;
// if that frees no room, all clients without a connection.
void ClientLimits::forget_idle(std::int64_t now_ns) {
  std::erase_if(clients_, [&](const auto& entry) {
    Client& client = *entry.second;
    refill(client, now_ns);
    return client.connections + client.probes == 0 &&
           client.requests >= static_cast<double>(share_of(client).requests_burst);
  });
  if (clients_.size() < options_.clients_max) return;
  std::erase_if(clients_, [](const auto& entry) {
    return entry.second->connections + entry.second->probes == 0;
  });
}

std::shared_ptr<ClientLimits::Client> ClientLimits::find(const std::string& name,
                                                         std::int64_t now_ns) {
  if (const auto known = clients_.find(name); known != clients_.end()) return known->second;
  if (clients_.size() >= options_.clients_max) forget_idle(now_ns);
  auto client = std::make_shared<Client>();
  client->is_this_host = name == kThisHost;
  client->requests = static_cast<double>(share_of(*client).requests_burst);
  client->counted_at_ns = now_ns;
  clients_.emplace(name, client);
  return client;
}

std::optional<ClientLimits::Visit> ClientLimits::enter(const std::string& name,
                                                       std::int64_t now_ns) {
  const MutexLock lock(mutex_);
  std::shared_ptr<Client> client = find(name, now_ns);
  if (connections_ < options_.connections_max &&
      client->connections < share_of(*client).connections) {
    ++connections_, ++client->connections;
    return Visit(this, std::move(client), false);
  }
  if (probes_ < options_.probes_max && client->probes < options_.probes_per_client) {
    ++probes_, ++client->probes;
    return Visit(this, std::move(client), true);
  }
  return std::nullopt;
}

ClientLimits::Visit::Visit(Visit&& other) noexcept
    : limits_(std::exchange(other.limits_, nullptr)),
      client_(std::move(other.client_)),
      for_probes_(other.for_probes_),
      has_stream_(std::exchange(other.has_stream_, false)),
      body_(std::exchange(other.body_, Bytes())) {}

ClientLimits::Visit::~Visit() {
  if (limits_ == nullptr) return;
  release_body();
  const MutexLock lock(limits_->mutex_);
  if (has_stream_) --client_->streams;
  if (for_probes_) {
    --limits_->probes_, --client_->probes;
  } else {
    --limits_->connections_, --client_->connections;
  }
}

bool ClientLimits::Visit::take_request(std::int64_t now_ns) {
  if (for_probes_) return true;
  const MutexLock lock(limits_->mutex_);
  limits_->refill(*client_, now_ns);
  if (client_->requests < 1) return false;
  client_->requests -= 1;
  return true;
}

bool ClientLimits::Visit::take_stream() {
  const MutexLock lock(limits_->mutex_);
  if (has_stream_) return true;
  if (client_->streams >= limits_->share_of(*client_).streams) return false;
  ++client_->streams;
  return has_stream_ = true;
}

bool ClientLimits::Visit::hold_body(Bytes size) {
  const MutexLock lock(limits_->mutex_);
  const Bytes of_client = client_->bodies - body_ + size, of_all = limits_->bodies_ - body_ + size;
  const bool too_much =
      of_client > limits_->share_of(*client_).bodies || of_all > limits_->options_.bodies_max;
  if (size > body_ && too_much) return false;
  client_->bodies = of_client, limits_->bodies_ = of_all, body_ = size;
  return true;
}

}  // namespace shoal::coordinator::rest
