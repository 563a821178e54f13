#include "agent/host/driver_queries.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/socket.h>

namespace shoal::agent {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Nvml::Driver, count, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuProcess, pid, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuQuestion, name, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuIdentity, code, uuid, error, name, memory_total, memory_free,
                                   capability)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuReading, code, uuid, error, has_memory, has_load, has_climate,
                                   has_counters, memory_total, memory_used, busy, celsius, watts,
                                   watts_limit, mhz, mhz_max, throttled, ecc_corrected,
                                   ecc_uncorrected, rows_remapped, remap_pending, remap_failed,
                                   pcie_replays, nvlink_errors, recovery, listed, processes,
                                   questions)

namespace {

// Texts of drivers may be any bytes.
std::string line_of(const Json& answer) {
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string answer_to(std::string_view request, Nvml& nvml) {
  const auto space = std::min(request.find(' '), request.size());
  const std::string_view verb = request.substr(0, space);
  const std::string_view rest = request.substr(std::min(space + 1, request.size()));
  unsigned number = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (verb == "open") return line_of(nvml.driver());
  if (verb == "find") return line_of(nvml.find(number));
  if (verb == "describe") return line_of(nvml.describe(number));
  if (verb == "xids") return line_of(nvml.take_xids(number));
  return line_of(nvml.read(number, verb == "list"));
}

bool send_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(kQuerySocket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

template <typename T>
Result<T> read_as(std::string_view json) {
  try {
    return Json::parse(json).get<T>();
  } catch (const Json::exception&) {
    return Error{Code::kDataLoss, "the answer of the process that asks the driver cannot be read",
                 "", ""};
  }
}

}  // namespace

int serve_driver_queries(const std::string& library) {
  prctl(PR_SET_NAME, "shoal-driver");  // for ps; it was started as /proc/self/exe
  Nvml nvml(library);
  std::string waiting;
  for (;;) {
    for (auto end = waiting.find('\n'); end != std::string::npos; end = waiting.find('\n')) {
      if (!send_all(answer_to(std::string_view(waiting).substr(0, end), nvml))) return 0;
      waiting.erase(0, end + 1);
    }
    char part[256];
    const ssize_t size = recv(kQuerySocket, part, sizeof part, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return 0;
    waiting.append(part, static_cast<std::size_t>(size));
  }
}

Result<Nvml::Driver> read_driver(std::string_view json) { return read_as<Nvml::Driver>(json); }
Result<GpuIdentity> read_identity(std::string_view json) { return read_as<GpuIdentity>(json); }
Result<std::vector<std::int32_t>> read_xids(std::string_view json) {
  return read_as<std::vector<std::int32_t>>(json);
}
Result<GpuReading> read_reading(std::string_view json) { return read_as<GpuReading>(json); }

}  // namespace shoal::agent
