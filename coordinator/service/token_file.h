// The join token: 256 random bits that an agent must show. Made once, at the first start, in the
// data folder, readable by its owner only; `shoal-agent --token-file` names a copy of it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace shoal::coordinator {

// Reads the token, or makes it where there is none. A file that others can read is refused: a token
// that may have leaked is no token.
Result<std::string> load_or_make_token(const std::string& path);

// Takes the same time wherever the two differ.
bool same_token(std::string_view given, std::string_view expected);

}  // namespace shoal::coordinator
