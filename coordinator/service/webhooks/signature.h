// How a receiver knows that a webhook is ours: Standard Webhooks (standardwebhooks.com), for which
// many languages have a library. What is signed is "ID.TIME.BODY", with HMAC-SHA-256.
//
// Threads: all functions may be called by any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shoal::coordinator {

// The key behind "whsec_" and its base64. kValidation: not of that form, or not 24 to 64 bytes.
Result<std::string> read_webhook_secret(std::string_view text);
// A new one, of 32 random bytes, as text.
std::string make_webhook_secret();

// The value of `webhook-signature`: "v1," and base64.
std::string sign_webhook(std::string_view key, std::string_view id, std::int64_t unix_s,
                         std::string_view body);

}  // namespace shoal::coordinator
