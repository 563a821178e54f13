#include "agent_channel/environment.h"

#include <charconv>
#include <cstdlib>

#include "wire/emulated_line.h"

namespace shoal::agent_channel {
namespace {

constexpr int kOrphanLimitMax = 86'400;  // seconds

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

Result<ControlOptions> control_options(const std::string& program) {
  ControlOptions options{.socket_path = environment("SHOAL_TRAINER_SOCKET", ""),
                         .nonce = environment("SHOAL_TRAINER_NONCE", ""),
                         .program = program,
                         .orphan_limit = {}};
  if (options.socket_path.empty()) {
    return Error{Code::kValidation, "SHOAL_TRAINER_SOCKET is not set", "",
                 "the process is started by shoal-agent; `shoal-trainer --help` says what people "
                 "may start"};
  }
  const auto limit = environment_number("SHOAL_TRAINER_ORPHAN_LIMIT", 0, 0, kOrphanLimitMax);
  if (!limit) return limit.error();
  options.orphan_limit = seconds(*limit);
  return options;
}

Result<outer_opt::PeerNodeOptions> peer_options() {
  outer_opt::PeerNodeOptions options;
  options.bind = environment("SHOAL_TRAINER_BIND", options.bind);
  options.advertise_host = environment("SHOAL_TRAINER_HOST", "");
  auto line = line_from_environment();
  if (!line) return line.error();
  options.line = *line;
  const auto certificates = environment_number("SHOAL_TRAINER_CERTIFICATES", 0, 0, 1);
  if (!certificates) return certificates.error();
  options.certificates = *certificates == 1;
  return options;
}

}  // namespace shoal::agent_channel
