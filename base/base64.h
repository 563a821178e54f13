// Base64 (RFC 4648): section 4, with padding, and section 5, for URLs, without.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shoal {

std::string base64(std::string_view bytes);
std::string base64url(std::string_view bytes);

// None: the text has another form.
std::optional<std::string> from_base64(std::string_view text);
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace shoal
