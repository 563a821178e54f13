// For tests: variables of this process's environment, as they were before once the object ends.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shoal {

class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(const std::vector<std::pair<std::string, std::string>>& values) {
    for (const auto& [name, value] : values) {
      const char* before = std::getenv(name.c_str());
      kept_.emplace_back(name,
                         before == nullptr ? std::nullopt : std::optional<std::string>(before));
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~ScopedEnvironment() {
    for (const auto& [name, before] : kept_) {
      before ? ::setenv(name.c_str(), before->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> kept_;
};

// That of a host of a company network whose proxy does not answer.
inline std::vector<std::pair<std::string, std::string>> dead_proxies() {
  std::vector<std::pair<std::string, std::string>> values{{"no_proxy", ""}, {"NO_PROXY", ""}};
  for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY",
                           "ALL_PROXY", "grpc_proxy"}) {
    values.emplace_back(name, "http://127.0.0.1:1");
  }
  return values;
}

}  // namespace shoal
