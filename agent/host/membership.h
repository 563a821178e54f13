// This host as a machine of the cluster: its key, its certificate, and the CAs it trusts. The key
// is made here and never leaves it; a join token gets the first certificate, and each one is
// renewed with the key, while connected or after an outage (identity/renewal.h). Files in the
// agent's data folder, of mode 0600:
//
//   machine.key      the private key, made once
//   machine.pem      the certificate, and what is sent with it
//   machine.roots    the CAs of the cluster
//
// Threads: all methods may be called by any thread; a thread of its own renews.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "agent/host/tls_call.h"
#include "base/backoff.h"
#include "base/ids.h"
#include "base/result.h"
#include "threads/mutex.h"

namespace shoal::agent {

// Coordinators have this name in their certificates, whatever address one dials.
inline constexpr const char* kCoordinatorTlsName = "shoal-coordinator";

struct MembershipOptions {
  std::string folder;  // the agent's data folder
  std::string uid;     // of that folder
  std::string name;
  std::string join_token;   // its text; empty: this host must have joined before
  std::string enrol;        // host:port where a host joins and renews (HTTPS)
  std::string coordinator;  // host:port for agents
};

class Membership {
 public:
  // Reads the files and calls nobody. Errors name the file, or --join-token when there is neither a
  // certificate nor a token.
  static Result<std::shared_ptr<Membership>> open(MembershipOptions options);
  ~Membership();

  // Makes sure that there is a valid certificate: joins or renews if not. Blocks for kCallLimit at
  // most. kUnauthenticated and kPermissionDenied are permanent.
  Status ensure();
  // Credentials of the newest certificate; call ensure() first.
  std::shared_ptr<grpc::ChannelCredentials> credentials() const;
  // The error of the certificates if they are why a channel failed, which gRPC does not report. If
  // the other end refuses ours, this renews it, and learns how far the clocks are apart.
  std::optional<Error> fault();

  // What this machine trusts as its cluster; none: it has not joined yet.
  struct Believed {
    identity::ClusterName cluster;
    identity::Roots roots;
  };
  std::optional<Believed> believes() const;

  static constexpr Duration kCallLimit = seconds(5);

 private:
  struct Held {
    std::string chain, roots;  // PEM
    identity::Credentials own;
    identity::Roots trusted;
    identity::PeerName name;
  };
  Membership(MembershipOptions options, identity::PrivateKey key);
  Result<Held> read_held(const std::string& chain, const std::string& roots) const;
  Status load() SHOAL_EXCLUDES(mutex_);
  Status enrol() SHOAL_REQUIRES(calling_) SHOAL_EXCLUDES(mutex_);
  Status renew(const Held& held) SHOAL_REQUIRES(calling_) SHOAL_EXCLUDES(mutex_);
  Status take(const std::string& answer) SHOAL_EXCLUDES(mutex_);
  std::optional<Held> held() const SHOAL_EXCLUDES(mutex_);
  identity::Client role_of(const Held& held) const;
  void keep_renewing(const std::stop_token& stop);

  const MembershipOptions options_;
  const identity::PrivateKey key_;
  mutable Mutex mutex_;
  Mutex calling_;                              // one call at a time; taken before mutex_
  Backoff pauses_ SHOAL_GUARDED_BY(calling_);  // between renewals that fail
  Prng prng_ SHOAL_GUARDED_BY(calling_);
  std::optional<Held> held_ SHOAL_GUARDED_BY(mutex_);
  std::jthread renewing_;  // last: it uses the others
};

}  // namespace shoal::agent
