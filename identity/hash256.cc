#include "identity/hash256.h"

#include <openssl/crypto.h>

#include "base/text.h"
#include "identity/openssl.h"

namespace shoal::identity {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

Hash256 sha256(std::string_view bytes) {
  Hash256 hash;
  must(EVP_Digest(bytes.data(), bytes.size(), hash.bytes.data(), nullptr, EVP_sha256(), nullptr));
  return hash;
}

std::string to_hex(const Hash256& hash) { return hex_of(std::as_bytes(std::span(hash.bytes))); }

std::optional<Hash256> parse_hash(std::string_view hex) {
  if (hex.size() != kHashDigits) return std::nullopt;
  Hash256 hash;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const std::size_t digit = kDigits.find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    hash.bytes[i / 2] = static_cast<std::uint8_t>(hash.bytes[i / 2] << 4 | digit);
  }
  return hash;
}

bool same_hash(const Hash256& a, const Hash256& b) {
  return CRYPTO_memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

}  // namespace shoal::identity
