#include "coordinator/service/webhooks/signature.h"

#include <array>
#include <vector>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace shoal::coordinator {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::size_t kKeyMin = 24, kKeyMax = 64, kKeyMade = 32;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string to_base64(std::string_view bytes) {
  std::vector<unsigned char> text(4 * ((bytes.size() + 2) / 3) + 1);
  const int size = EVP_EncodeBlock(text.data(), bytes_of(bytes), static_cast<int>(bytes.size()));
  return {text.begin(), text.begin() + size};
}

// Empty: it is not base64.
std::string from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return {};
  std::vector<unsigned char> bytes(text.size() / 4 * 3);
  const int size = EVP_DecodeBlock(bytes.data(), bytes_of(text), static_cast<int>(text.size()));
  if (size < 0) return {};
  const auto padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  return {bytes.begin(), bytes.begin() + size - padding};
}

}  // namespace

Result<std::string> read_webhook_secret(std::string_view text) {
  const bool named = text.starts_with(kPrefix);
  std::string key = named ? from_base64(text.substr(kPrefix.size())) : std::string();
  if (key.size() >= kKeyMin && key.size() <= kKeyMax) return key;
  return Error{Code::kValidation, "is not a webhook secret", "",
               "write whsec_ and the base64 of 24 to 64 random bytes, or delete the file: a new "
               "one is made"};
}

std::string make_webhook_secret() {
  std::array<unsigned char, kKeyMade> key;
  SHOAL_CHECK(RAND_bytes(key.data(), static_cast<int>(key.size())) == 1);
  return std::string(kPrefix) + to_base64({reinterpret_cast<const char*>(key.data()), key.size()});
}

std::string sign_webhook(std::string_view key, std::string_view id, std::int64_t unix_s,
                         std::string_view body) {
  std::string content(id);
  content.append(".").append(std::to_string(unix_s)).append(".").append(body);
  std::array<unsigned char, EVP_MAX_MD_SIZE> code;
  unsigned size = 0;
  SHOAL_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(content),
                   content.size(), code.data(), &size) != nullptr);
  return "v1," + to_base64({reinterpret_cast<const char*>(code.data()), size});
}

}  // namespace shoal::coordinator
