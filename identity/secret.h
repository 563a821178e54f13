// The secret in join tokens and API tokens: 256 random bits that are shown once; only their SHA-256
// is kept. A secret with so many random bits needs neither a salt nor a slow hash.
//
// The text of a token is PREFIX "." words separated by "." "." SECRET, the secret as 64 lower-case
// hex digits; each token has one text only. Errors never repeat any of it.
//
// Threads: all functions may be called by any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "identity/hash256.h"

namespace shoal::identity {

inline constexpr std::size_t kTokenTextMax = 256;

std::string make_secret();
bool is_secret(std::string_view text);
// What is kept: the SHA-256 of the 64 digits, as hex.
std::string hash_of_secret(std::string_view secret);
// Takes the same time wherever they differ. False when `secret` or `hash` is malformed.
bool is_secret_of(std::string_view secret, std::string_view hash);

// The words of a token with this prefix, the secret last, when there are exactly `count` of them.
// They are views of `text`.
std::optional<std::vector<std::string_view>> words_of_token(std::string_view text,
                                                            std::string_view prefix,
                                                            std::size_t count);

}  // namespace shoal::identity
