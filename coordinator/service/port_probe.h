// Shakes hands with the agents' port every few seconds, as an agent would, and keeps what it found:
// a port that accepts nobody must show in /readyz, although the process lives.
//
// The probe checks the whole of the server's part of TLS 1.3, certificate and name included, and
// closes the connection instead of sending its own part, so no certificate is asked of it and no
// refusal is counted.
//
// Threads: the probe is a thread of its own; status() may be called by any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/time.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

struct PortProbeOptions {
  std::string address;     // of the port; 0.0.0.0 and [::] are reached over loopback
  std::string roots_file;  // PEM, read by each probe
  std::string name;        // that the certificate must have
  // Called with the port that a probe connects from, before it does.
  std::function<void(std::uint16_t)> announce = [](std::uint16_t) {};
  Duration every = seconds(10), again = seconds(2);  // `again`: after a failure
  Duration limit = seconds(5);                       // of one handshake
};

// One handshake. The error says which step failed.
Status probe_port(const PortProbeOptions& options);

class PortProbe {
 public:
  explicit PortProbe(PortProbeOptions options);

  Status status() const;  // of the last probe; good before the first has ended

 private:
  const PortProbeOptions options_;
  mutable Mutex mutex_;
  Status last_ SHOAL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the others
};

}  // namespace shoal::coordinator
