#include "coordinator/service/webhooks/signature.h"

#include <array>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/base64.h"
#include "base/check.h"

namespace shoal::coordinator {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::size_t kKeyMin = 24, kKeyMax = 64, kKeyMade = 32;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Result<std::string> read_webhook_secret(std::string_view text) {
  const bool named = text.starts_with(kPrefix);
  const auto key = named ? from_base64(text.substr(kPrefix.size())) : std::nullopt;
  if (key && key->size() >= kKeyMin && key->size() <= kKeyMax) return *key;
  return Error{Code::kValidation, "is not a webhook secret", "",
               "write whsec_ and the base64 of 24 to 64 random bytes, or delete the file: a new "
               "one is made"};
}

std::string make_webhook_secret() {
  std::array<unsigned char, kKeyMade> key;
  SHOAL_CHECK(RAND_bytes(key.data(), static_cast<int>(key.size())) == 1);
  return std::string(kPrefix) + base64({reinterpret_cast<const char*>(key.data()), key.size()});
}

std::string sign_webhook(std::string_view key, std::string_view id, std::int64_t unix_s,
                         std::string_view body) {
  std::string content(id);
  content.append(".").append(std::to_string(unix_s)).append(".").append(body);
  std::array<unsigned char, EVP_MAX_MD_SIZE> code;
  unsigned size = 0;
  SHOAL_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(content),
                   content.size(), code.data(), &size) != nullptr);
  return "v1," + base64({reinterpret_cast<const char*>(code.data()), size});
}

}  // namespace shoal::coordinator
