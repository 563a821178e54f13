#include "base/arguments.h"

#include <string>
#include <string_view>

#include "base/wire_text.h"

namespace shoal {
namespace {

constexpr std::size_t kShownMax = 200;

Error not_utf8(std::string_view value, std::string field) {
  return {Code::kInvalidArgument,
          "'" + shown_text(value.substr(0, kShownMax), false) + "' is not UTF-8", std::move(field),
          "write it in UTF-8, or rename the file or folder that it names"};
}

// Of "--name=value" the option; else the option before a value, or the place of an argument.
std::string field_of(int at, const char* const* argv) {
  const std::string_view text = argv[at], before = at > 1 ? argv[at - 1] : "";
  if (text.starts_with("--")) {
    const std::string_view option = text.substr(0, text.find('='));
    return is_utf8(option) ? std::string(option) : "argument " + std::to_string(at);
  }
  const bool follows = before.starts_with('-') && before.find('=') == std::string_view::npos;
  return follows ? std::string(before) : "argument " + std::to_string(at);
}

std::string_view value_of(std::string_view text) {
  const auto equals = text.find('=');
  const bool joined = text.starts_with("--") && equals != std::string_view::npos;
  return joined ? text.substr(equals + 1) : text;
}

}  // namespace

Status check_arguments(int argc, const char* const* argv, const char* const* environment) {
  for (int at = 1; at < argc; ++at) {
    if (!is_utf8(argv[at])) return not_utf8(value_of(argv[at]), field_of(at, argv));
  }
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    if (!name.starts_with("SHOAL_") || is_utf8(text) || !is_utf8(name)) continue;
    return not_utf8(text.substr(name.size() + 1), std::string(name));
  }
  return {};
}

}  // namespace shoal
