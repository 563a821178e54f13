// Draws the next token from logits. Pure except for the generator it is given.
#pragma once

#include <cstdint>
#include <span>

#include "base/prng.h"

namespace shoal::replica {

// softmax(logits / temperature) over the top_k likeliest tokens (0: all); temperature 0 takes the
// likeliest.
std::int64_t sample_token(std::span<const float> logits, double temperature, std::int64_t top_k,
                          Prng& prng);

}  // namespace shoal::replica
