#include "base/digest.h"

#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/byte_digester.h"
#include "base/check.h"

static_assert(std::endian::native == std::endian::little, "digests are defined little-endian");

namespace shoal {
namespace {

Digest from_xxh(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

struct Digester::State {
  XXH3_state_t xxh;
};

std::string to_hex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(digest.high >> (4 * i)) & 15];
    text[31 - i] = kDigits[(digest.low >> (4 * i)) & 15];
  }
  return text;
}

std::optional<Digest> parse_digest(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  Digest digest;
  for (int i = 0; i < 32; ++i) {
    const int value = hex_value(hex[i]);
    if (value < 0) return std::nullopt;
    auto& half = i < 16 ? digest.high : digest.low;
    half = (half << 4) | static_cast<std::uint64_t>(value);
  }
  return digest;
}

Digest digest_of(std::span<const std::byte> bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}
Digest digest_of(std::span<const float> values) { return digest_of(std::as_bytes(values)); }
std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct ByteDigester::State {
  XXH3_state_t xxh;
};
ByteDigester::ByteDigester() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}
ByteDigester::~ByteDigester() = default;
void ByteDigester::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}
Digest ByteDigester::finish() const { return from_xxh(XXH3_128bits_digest(&state_->xxh)); }

// The state needs 64-byte alignment, which operator new gives since C++17.
Digester::Digester() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }
Digester::~Digester() { delete state_; }

Digester& Digester::add(std::uint64_t value) {
  XXH3_128bits_update(&state_->xxh, &value, sizeof value);
  return *this;
}

Digester& Digester::add(double value) { return add(std::bit_cast<std::uint64_t>(value)); }

Digester& Digester::add(std::string_view text) {
  add(static_cast<std::uint64_t>(text.size()));
  XXH3_128bits_update(&state_->xxh, text.data(), text.size());
  return *this;
}

Digester& Digester::add(std::span<const std::byte> bytes) {
  add(static_cast<std::uint64_t>(bytes.size()));
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Digest Digester::finish() const { return from_xxh(XXH3_128bits_digest(&state_->xxh)); }

}  // namespace shoal
