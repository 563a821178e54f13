// Puts certificates together for authority.h: version 3, a random serial, and the extensions that
// RFC 5280 asks for. It decides nothing.
//
// Threads: may be called by any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <openssl/types.h>

#include "base/time.h"
#include "identity/certificate.h"
#include "identity/key.h"

namespace shoal::identity {

// When a certificate counts; whole seconds.
struct Validity {
  Instant from, to;
  bool operator==(const Validity&) const = default;
};

// What only the certificate of a member has.
struct MemberPart {
  PeerName name;
  std::vector<std::string> hosts;  // of a server: DNS names and IP addresses, checked before
};

// A certificate for a public key, signed by `signer` in the name of `issuer`.
struct CertificatePlan {
  EVP_PKEY* key = nullptr;
  Validity validity;
  std::string common_name;               // when there is no certificate to take the subject from
  const Certificate* subject = nullptr;  // of a cross certificate: whose subject it gets
  const Certificate* issuer = nullptr;   // null: signed by itself
  std::optional<int> path_length;        // of a CA: how many further ones may stand below it
  std::optional<MemberPart> member;
};
Certificate issue(const CertificatePlan& plan, const PrivateKey& signer);

// A DNS name of letters, digits, hyphens and dots, or an IP address of either kind.
bool is_host(const std::string& text);
bool is_ip_address(const std::string& text);

}  // namespace shoal::identity
