// One request over TLS to the coordinator: what a host asks that is no agent yet, or whose
// certificate is about to end. Blocks; every step of it is within one deadline.
//
// Threads: may be called by any thread.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "identity/tls_context.h"

namespace shoal::agent {

struct TlsPeer {
  std::string address;  // host:port
  identity::Client role;
};

// The body of an answer of 2xx. A refusal becomes an Error with the coordinator's sentence and
// remedy: kUnauthenticated for 401, kPermissionDenied for what will not change by itself,
// kUnavailable for the rest and for what cannot be reached.
Result<std::string> post_over_tls(const TlsPeer& peer, const std::string& path,
                                  const std::string& body, Duration limit);

// What is wrong with certificates between this host and that port, by a handshake alone; none: they
// are good, or nobody answers.
std::optional<Error> fault_of_handshake(const TlsPeer& peer, Duration limit);

}  // namespace shoal::agent
