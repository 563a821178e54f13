// Spans of time as people type them: 90s, 30m, 1h, 2d.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal {

// Whole seconds above 0; nothing when it is not such a span, or longer than ten years.
std::optional<std::int64_t> parse_span(std::string_view text);

}  // namespace shoal
