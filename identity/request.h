// Certificate signing requests (PKCS #10): how the holder of a key asks for a certificate without
// showing the key. A request says nothing but its public key: who the certificate is for is decided
// by the coordinator, so a subject or extensions in a request are passed over.
//
// Threads: a request does not change; copies share it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <openssl/types.h>

#include "base/result.h"
#include "identity/hash256.h"
#include "identity/key.h"

namespace shoal::identity {

inline constexpr std::size_t kRequestMax = std::size_t{8} << 10;  // bytes of PEM

// The request of this key, in PEM, with an empty subject.
std::string make_request(const PrivateKey& key);

class SigningRequest {
 public:
  // Refused, with the field "csr": what is no request in PEM, a key that is not ECDSA over P-256, a
  // signature that the key did not make (the sender may not hold it).
  static Result<SigningRequest> parse(std::string_view pem);

  const Hash256& fingerprint() const { return fingerprint_; }  // of the request's DER
  Hash256 key_fingerprint() const { return fingerprint_of_key(key_.get()); }
  EVP_PKEY* public_key() const { return key_.get(); }  // lent

 private:
  SigningRequest(std::shared_ptr<EVP_PKEY> key, const Hash256& fingerprint)
      : key_(std::move(key)), fingerprint_(fingerprint) {}
  std::shared_ptr<EVP_PKEY> key_;
  Hash256 fingerprint_;
};

}  // namespace shoal::identity
