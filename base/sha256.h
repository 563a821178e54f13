// SHA-256 of a stream of bytes, as 64 lower-case hex characters: the identity of files and
// migrations. HMAC-SHA-256 of a text: the signature of what only its signer verifies.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace shoal {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::span<const std::byte> bytes);
  std::string finish();  // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_of(std::string_view text);

// HMAC-SHA-256 (RFC 2104) of texts, one after another, as 64 lower-case hex characters. The key is
// set up once. Not thread-safe.
class HmacSha256 {
 public:
  explicit HmacSha256(std::string_view key);  // not empty
  ~HmacSha256();
  HmacSha256(const HmacSha256&) = delete;

  std::string of(std::string_view text);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Takes the same time wherever the two differ.
bool same_code(std::string_view a, std::string_view b);

}  // namespace shoal
