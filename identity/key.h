// Private keys: ECDSA over P-256. A key is made where it is used and never leaves its host; what
// travels is a signing request (request.h). A CA that is given may have another kind of key.
//
// Threads: a key does not change once made; copies share it, and any thread may use it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <openssl/types.h>

#include "base/result.h"
#include "identity/hash256.h"

namespace shoal::identity {

inline constexpr std::size_t kSignatureMax = 128;  // bytes of an ECDSA signature over P-256: 72

class PrivateKey {
 public:
  static PrivateKey make();

  // One PEM block, of PKCS #8 or SEC 1. Refused: a block with a password, another curve, parameters
  // in place of the curve's name.
  static Result<PrivateKey> parse(std::string_view pem);
  // The key of a CA that an operator gives: P-256, P-384, or RSA of 2048 to 4096 bits.
  static Result<PrivateKey> parse_given(std::string_view pem);

  // A file of mode 0600 (private_file.h). The path is the field of every error.
  static Result<PrivateKey> load(const std::string& path);
  Status save(const std::string& path) const;
  // That of the file; where there is none, a new one that is saved there.
  static Result<PrivateKey> load_or_make(const std::string& path);

  std::string pem() const;  // PKCS #8, not encrypted: for files of mode 0600 and TLS libraries
  Hash256 public_fingerprint() const;  // of the public half, in its DER form

  std::string sign(std::string_view bytes) const;  // ECDSA with SHA-256, in DER

  EVP_PKEY* get() const { return key_.get(); }  // lent

 private:
  explicit PrivateKey(std::shared_ptr<EVP_PKEY> key) : key_(std::move(key)) {}
  std::shared_ptr<EVP_PKEY> key_;
};

// Whether a public key is ECDSA over P-256, by name: what we sign certificates for.
Status check_public_key(EVP_PKEY* key);
Hash256 fingerprint_of_key(EVP_PKEY* key);
// Whether `signature` was made by the private half over these bytes. False for any malformed one.
bool has_signed(EVP_PKEY* key, std::string_view bytes, std::string_view signature);

}  // namespace shoal::identity
