#include "identity/secret.h"

#include <openssl/rand.h>

#include "identity/openssl.h"

namespace shoal::identity {

std::string make_secret() {
  Hash256 random;
  must(RAND_priv_bytes(random.bytes.data(), static_cast<int>(random.bytes.size())));
  return to_hex(random);
}

bool is_secret(std::string_view text) { return parse_hash(text).has_value(); }

std::string hash_of_secret(std::string_view secret) { return to_hex(sha256(secret)); }

bool is_secret_of(std::string_view secret, std::string_view hash) {
  const auto expected = parse_hash(hash);
  return expected && is_secret(secret) && same_hash(sha256(secret), *expected);
}

std::optional<std::vector<std::string_view>> words_of_token(std::string_view text,
                                                            std::string_view prefix,
                                                            std::size_t count) {
  if (text.size() > kTokenTextMax || !text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  std::vector<std::string_view> words;
  while (text.starts_with('.') && words.size() < count) {
    text.remove_prefix(1);
    words.push_back(text.substr(0, text.find('.')));
    text.remove_prefix(words.back().size());
  }
  if (!text.empty() || words.size() != count || !is_secret(words.back())) return std::nullopt;
  return words;
}

}  // namespace shoal::identity
