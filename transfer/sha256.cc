#include "transfer/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

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
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kHex[bytes[i] >> 4];
    text += kHex[bytes[i] & 15];
  }
  return text;
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text.data(), text.size())));
  return hash.finish();
}

}  // namespace shoal
