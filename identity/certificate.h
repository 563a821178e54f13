// Certificates as they are read, sent and looked at. Whether one is to be believed is said by
// verify_peer() (peer.h) alone.
//
// Threads: a certificate does not change; copies share it, and any thread may use it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/types.h>

#include "base/result.h"
#include "base/time.h"
#include "identity/hash256.h"
#include "identity/names.h"

namespace shoal::identity {

inline constexpr std::size_t kCertificateMax = std::size_t{16} << 10;  // bytes of DER
inline constexpr std::size_t kChainMost = 8;                           // certificates of one chain
inline constexpr std::size_t kChainTextMax = std::size_t{64} << 10;    // bytes of PEM

class Certificate {
 public:
  // Shares what the caller holds; not null.
  static Certificate share(X509* certificate);

  static Result<Certificate> from_der(std::string_view der);
  // Exactly one block of PEM, or 1 to kChainMost of them. Other blocks, as of a key, are passed
  // over. Errors: invalid_argument, field "certificate".
  static Result<Certificate> parse(std::string_view pem);
  static Result<std::vector<Certificate>> parse_chain(std::string_view pem);

  std::string pem() const;
  std::string der() const;
  Hash256 fingerprint() const;      // SHA-256 of the DER
  Hash256 key_fingerprint() const;  // SHA-256 of the public key's DER
  std::string serial() const;       // lower-case hex, at most 40 digits

  Instant not_before() const;  // whole seconds
  Instant not_after() const;

  bool is_authority() const;                       // may sign certificates
  bool is_signed_by(const Certificate& ca) const;  // by its key; says nothing of names and time
  // The one URI among its names. Errors: none or several, or not a name.
  Result<PeerName> name() const;

  X509* get() const { return certificate_.get(); }  // lent
  EVP_PKEY* public_key() const;                     // lent; null when OpenSSL cannot use it

 private:
  explicit Certificate(std::shared_ptr<X509> certificate) : certificate_(std::move(certificate)) {}
  std::shared_ptr<X509> certificate_;
};

std::string to_pem(const std::vector<Certificate>& chain);

// "2026-11-24 04:00:00 UTC", for messages.
std::string to_utc(Instant instant);

}  // namespace shoal::identity
