#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "base/check.h"
#include "base/text.h"

namespace shoal {

struct Sha256::Context {
  EVP_MD_CTX* handle = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(handle); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  SHOAL_CHECK(EVP_DigestInit_ex(context_->handle, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::span<const std::byte> bytes) {
  SHOAL_CHECK(EVP_DigestUpdate(context_->handle, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  SHOAL_CHECK(EVP_DigestFinal_ex(context_->handle, bytes, &size) == 1);
  return hex_of(std::as_bytes(std::span(bytes, size)));
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text.data(), text.size())));
  return hash.finish();
}

struct HmacSha256::Context {
  EVP_MAC* method = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  EVP_MAC_CTX* handle = EVP_MAC_CTX_new(method);
  ~Context() {
    EVP_MAC_CTX_free(handle);
    EVP_MAC_free(method);
  }
};

HmacSha256::HmacSha256(std::string_view key) : context_(std::make_unique<Context>()) {
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0),
                                   OSSL_PARAM_construct_end()};
  SHOAL_CHECK(EVP_MAC_init(context_->handle, reinterpret_cast<const unsigned char*>(key.data()),
                           key.size(), parameters) == 1);
}
HmacSha256::~HmacSha256() = default;

std::string HmacSha256::of(std::string_view text) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  std::size_t size = 0;
  const bool done =
      EVP_MAC_init(context_->handle, nullptr, 0, nullptr) == 1 &&
      EVP_MAC_update(context_->handle, reinterpret_cast<const unsigned char*>(text.data()),
                     text.size()) == 1 &&
      EVP_MAC_final(context_->handle, bytes, &size, sizeof bytes) == 1;
  SHOAL_CHECK(done);
  return hex_of(std::as_bytes(std::span(bytes, size)));
}

bool same_code(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace shoal
