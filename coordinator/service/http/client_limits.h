// What one client may take of the HTTP server, so that no client takes all of it: connections,
// event streams, requests a second, and memory for bodies. A client is an IPv4 address, the /64 of
// an IPv6 address, or this host: behind a proxy here everybody is this host, which may take more.
//
// Probes have connections of their own: where a client has no connection left, or the server has
// none, one more is let in for a moment to ask for /livez, /readyz or /healthz, and for nothing
// else.
//
// Threads: all methods may be called by any thread. The time is the caller's, from a steady clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/units.h"
#include "coordinator/service/people/client_name.h"
#include "threads/mutex.h"

namespace shoal::coordinator::rest {

struct ClientShare {
  std::int64_t connections = 0;  // at once, streams included
  std::int64_t streams = 0;
  std::int64_t requests_per_s = 0;  // on average
  std::int64_t requests_burst = 0;  // at once, after a pause
  Bytes bodies;                     // that are in memory at once
  bool operator==(const ClientShare&) const = default;
};

struct ClientLimitOptions {
  std::int64_t connections_max = 1000;  // of all clients, without those of probes
  std::int64_t probes_max = 16;         // connections for probes, beyond the others
  std::int64_t probes_per_client = 4;
  Bytes bodies_max = mebibytes(64);  // of all clients
  std::size_t clients_max = 10'000;  // that are remembered while they have no connection
  ClientShare other{100, 50, 100, 500, mebibytes(16)};
  ClientShare this_host{190, 150, 1'000, 5'000, mebibytes(32)};
};

using coordinator::client_of;

bool is_probe(std::string_view path);

class ClientLimits {
  // Under the mutex of the limits.
  struct Client {
    bool is_this_host = false;
    std::int64_t connections = 0, probes = 0, streams = 0;
    Bytes bodies;
    double requests = 0;  // that it may still make now
    std::int64_t counted_at_ns = 0;
  };

 public:
  explicit ClientLimits(ClientLimitOptions options) : options_(options) {}
  ClientLimits(const ClientLimits&) = delete;

  // One connection for as long as it lives, with what it holds. The limits must outlive it.
  class Visit {
   public:
    Visit(Visit&& other) noexcept;
    Visit& operator=(Visit&&) = delete;
    ~Visit();

    bool for_probes() const { return for_probes_; }
    // Each returns false where it would be too much.
    bool take_request(std::int64_t now_ns);
    bool take_stream();          // once; given back with the connection
    bool hold_body(Bytes size);  // instead of the one before
    void release_body() { hold_body(Bytes()); }

   private:
    friend class ClientLimits;
    Visit(ClientLimits* limits, std::shared_ptr<Client> client, bool for_probes)
        : limits_(limits), client_(std::move(client)), for_probes_(for_probes) {}

    ClientLimits* limits_;  // null: moved from
    std::shared_ptr<Client> client_;
    bool for_probes_, has_stream_ = false;
    Bytes body_;
  };

  // None: not even for a probe.
  std::optional<Visit> enter(const std::string& client, std::int64_t now_ns) SHOAL_EXCLUDES(mutex_);

 private:
  const ClientShare& share_of(const Client& client) const {
    return client.is_this_host ? options_.this_host : options_.other;
  }
  std::shared_ptr<Client> find(const std::string& name, std::int64_t now_ns) SHOAL_REQUIRES(mutex_);
  void forget_idle(std::int64_t now_ns) SHOAL_REQUIRES(mutex_);
  void refill(Client& client, std::int64_t now_ns) const SHOAL_REQUIRES(mutex_);

  const ClientLimitOptions options_;
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Client>> clients_ SHOAL_GUARDED_BY(mutex_);
  std::int64_t connections_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::int64_t probes_ SHOAL_GUARDED_BY(mutex_) = 0;
  Bytes bodies_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::coordinator::rest
