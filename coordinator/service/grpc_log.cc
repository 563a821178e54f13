#include "coordinator/service/grpc_log.h"

#include <atomic>
#include <string_view>

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include "base/check.h"

namespace shoal::coordinator {
namespace {

std::atomic<Refusals*> counted{nullptr};

bool is_of_a_handshake(const gpr_log_func_args& line) {
  return std::string_view(line.file).ends_with("ssl_transport_security.cc") &&
         std::string_view(line.message).starts_with("Handshake failed");
}

void take(gpr_log_func_args* line) {
  if (Refusals* refusals = counted; refusals != nullptr && is_of_a_handshake(*line)) {
    return refusals->count(Port::kAgents, RefusalReason::kMalformed);
  }
  const auto level = line->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::warn
                     : line->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                               : spdlog::level::debug;
  spdlog::log(level, "grpc: {}", line->message);
}

}  // namespace

GrpcLog::GrpcLog(Refusals& refusals) {
  SHOAL_CHECK(counted.exchange(&refusals) == nullptr, "gRPC has one log");
  gpr_set_log_function(take);
}

GrpcLog::~GrpcLog() { counted = nullptr; }

}  // namespace shoal::coordinator
