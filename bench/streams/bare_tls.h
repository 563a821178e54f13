// The limit: bare TLS sockets, a connection for each direction of each pair and a blocking thread
// for each end of it. No frames, no cancelling, no deadlines.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <openssl/types.h>

#include "base/result.h"
#include "bench/streams/contender.h"
#include "wire/tcp_socket.h"

namespace shoal::bench {

class BareTls {
 public:
  BareTls(Place place, const Identity& identity) : place_(std::move(place)), identity_(identity) {}
  ~BareTls();
  BareTls(const BareTls&) = delete;
  BareTls& operator=(const BareTls&) = delete;

  Result<std::string> listen();
  Status connect(const std::vector<std::string>& addresses);
  // To and from each of the others.
  Status flow(std::int64_t bytes_each);
  // Between 0 and 1, who both call it; the times are 0's.
  Result<std::vector<std::int64_t>> ping(std::size_t message, int count);

 private:
  struct Line {
    int fd = -1;
    SSL* ssl = nullptr;
  };
  Result<Line> shake(int fd, bool dials) const;
  void accept_all();

  const Place place_;
  const Identity& identity_;
  int listener_ = -1;
  std::vector<Line> out_, in_;  // by rank
  std::vector<std::byte> sent_, received_;
};

}  // namespace shoal::bench
