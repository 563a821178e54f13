// Tells the service manager that started this process how it is: that it serves, that it stops, and
// that it is alive. The protocol is systemd's: lines of text in one datagram to the Unix socket
// that NOTIFY_SOCKET names (sd_notify(3)), small enough to need no library. Without that variable
// everything here does nothing.
//
// With WatchdogSec= in its unit a process that is silent for so long is killed and restarted.
// Call alive() from the thread without which the process is useless.
//
// Threads: every method may be called by any thread, from_environment() before the second one
// starts.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace shoal {

class ServiceManager {
 public:
  // Takes the variables out of the environment: processes that this one starts are none of its.
  static ServiceManager from_environment();

  ServiceManager() = default;  // no manager
  ServiceManager(ServiceManager&& other) noexcept;
  ServiceManager& operator=(ServiceManager&&) = delete;
  ~ServiceManager();

  void ready(const std::string& status);  // one line, for `systemctl status`
  void stopping();
  // To be called at least every alive_every(); more often costs nothing.
  void alive();
  std::optional<Duration> alive_every() const { return alive_every_; }  // none: nobody watches

 private:
  void tell(const std::string& lines) const;

  int socket_ = -1;  // connected; -1: no manager
  std::optional<Duration> alive_every_;
  std::atomic<std::int64_t> said_at_ns_{INT64_MIN};  // of the steady clock
};

}  // namespace shoal
