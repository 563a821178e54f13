// One process of the measurement: all contenders, and what it is told to do with them. Commands and
// answers are lines (bench/worker_processes.h); an answer is "failed …" or numbers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/streams/bare_tls.h"
#include "bench/streams/contender.h"

namespace shoal::bench {

// bare: TLS sockets without framing; streams: the product's; the others are those without TLS.
inline constexpr const char* kContenders[] = {"bare", "streams", "streams-tcp", "streams-unix"};

struct WorkerOptions {
  Place place;
  std::string name_space;  // of the network; empty: that of the parent
  std::vector<std::string> contenders;
  std::size_t message = 1 << 20;  // of a flow
};

class Worker {
 public:
  Worker(WorkerOptions options, const Identity& identity);
  // listen KIND · connect KIND ADDRESS… · flow KIND BYTES · ping KIND SIZE COUNT ·
  // handshake KIND · cancel KIND · gone · cpu
  std::string obey(const std::string& command);

 private:
  std::string listen(const std::string& kind);
  std::string run_flow(const std::string& kind, std::int64_t bytes);
  std::string run_ping(const std::string& kind, std::size_t size, int count);
  std::string run_handshake(const std::string& kind);
  std::string run_cancel(const std::string& kind);

  const WorkerOptions options_;
  const Identity& identity_;
  std::size_t processes_ = 0;
  std::unique_ptr<BareTls> bare_;
  std::map<std::string, std::unique_ptr<Contender>> contenders_;
};

}  // namespace shoal::bench
