// Checks for what cannot happen. They stay on in every build: a broken invariant stops the process,
// and the process comes back from its durable state. Failures that can happen are a Result
// (result.h).
#pragma once

#include <string_view>

namespace shoal::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view detail);
}  // namespace shoal::detail

// The optional second argument is anything that converts to std::string_view.
#define SHOAL_CHECK(condition, ...)                                                             \
  (static_cast<bool>(condition) ? static_cast<void>(0)                                          \
                                : ::shoal::detail::check_failed(__FILE__, __LINE__, #condition, \
                                                                ::std::string_view{__VA_ARGS__}))
