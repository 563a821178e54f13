#include "coordinator/service/logging.h"

#include <grpc/support/log.h>
#include <nlohmann/json.hpp>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/wire_text.h"

namespace shoal::coordinator {
namespace {

// %J: the message as a JSON string.
class JsonText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const nlohmann::json text = std::string(message.payload.data(), message.payload.size());
    const std::string quoted = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonText>();
  }
};

// What gRPC has to say reaches people as the status of a call; its own lines are for debugging.
void log_grpc(gpr_log_func_args* line) { spdlog::debug("grpc: {}", line->message); }

spdlog::level::level_enum level_of(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return spdlog::level::info;
    case Severity::kWarning:
      return spdlog::level::warn;
    case Severity::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_up_logging(const std::string& level, const std::string& format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<JsonText>('J');
  formatter->set_pattern(format == "json"
                             ? R"({"at":"%Y-%m-%dT%H:%M:%S.%eZ","severity":"%l","message":%J})"
                             : "%Y-%m-%dT%H:%M:%S.%eZ %l %v");
  auto logger = std::make_shared<spdlog::logger>("coordinator",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(log_grpc);
}

void log_event(const EventRecord& event) {
  std::string scope;
  if (event.job) scope += " job=" + to_string(event.job);
  if (event.agent) scope += " agent=" + to_string(event.agent);
  if (event.replica) scope += " replica=" + to_string(event.replica);
  if (event.round != 0) scope += " round=" + std::to_string(event.round);
  spdlog::log(level_of(event.severity), "{}{}: {}", event.kind, scope,
              shown_text(event.message, false));
}

}  // namespace shoal::coordinator
