#include "attached/environment.h"

#include <charconv>
#include <cstdlib>

#include "wire/emulated_line.h"

namespace shoal::attached {
namespace {

// Nothing when no line is to be pretended.
Result<std::shared_ptr<wire::EmulatedLine>> line_from_environment() {
  const std::string text = environment("SHOAL_TRAINER_LINK", "");
  if (text.empty()) return std::shared_ptr<wire::EmulatedLine>();
  const auto options = parse_link(text);
  if (options.ok()) return std::make_shared<wire::EmulatedLine>(*options);
  Error error = options.error();
  error.field = "SHOAL_TRAINER_LINK: " + error.field;
  return error;
}

}  // namespace

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

Result<int> environment_number(const char* name, int otherwise, int least, int most) {
  const std::string text = environment(name, std::to_string(otherwise));
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) {
    return value;
  }
  return Error{Code::kValidation,
               "must be a number from " + std::to_string(least) + " to " + std::to_string(most) +
                   ", got \"" + text + "\"",
               name, ""};
}

Result<outer_opt::PeerNodeOptions> peer_options() {
  outer_opt::PeerNodeOptions options;
  options.bind = environment("SHOAL_TRAINER_BIND", options.bind);
  options.advertise_host = environment("SHOAL_TRAINER_HOST", "");
  auto line = line_from_environment();
  if (!line) return line.error();
  options.line = *line;
  return options;
}

}  // namespace shoal::attached
