// TLS over a socket that takes little at a time: what is held back behind it arrives whole and in
// order.
#include "wire/stream/carrier.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "wire/stream/stream_test_util.h"

namespace shoal::wire::stream {
namespace {

class CarrierPair {
 public:
  CarrierPair() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds_.data()), 0);
    const int small = 20'000;
    setsockopt(fds_[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    const TestCluster cluster;
    const TlsContexts one = cluster.contexts(1), two = cluster.contexts(2);
    writer = make_tls_carrier(fds_[0], one.client, true, std::nullopt);
    reader = make_tls_carrier(fds_[1], two.server, false, std::nullopt);
    bool written = false, read = false;
    for (int turn = 0; turn < 100 && !(written && read); ++turn) {
      if (!written) written = writer->handshake().wait == Wait::kNothing;
      if (!read) read = reader->handshake().wait == Wait::kNothing;
    }
    EXPECT_TRUE(written && read) << writer->why().message << "; " << reader->why().message;
  }
  ~CarrierPair() {
    for (const int fd : fds_) close(fd);
  }

  std::unique_ptr<Carrier> writer, reader;

 private:
  std::array<int, 2> fds_ = {-1, -1};
};

// Small parts among large ones, as headers are among pieces.
std::vector<std::string> random_parts(Prng& prng) {
  std::vector<std::string> parts;
  for (int i = 0; i < 12; ++i) {
    const bool large = prng.chance(0.4);
    std::string part(1 + prng.below(large ? 300'000 : 100), '\0');
    for (char& c : part) c = static_cast<char>(prng.below(256));
    parts.push_back(std::move(part));
  }
  return parts;
}

void read_some(Carrier& reader, std::string& into) {
  std::array<std::byte, 10'000> room;
  for (Step step; (step = reader.read(room, {})).wait == Wait::kNothing;) {
    into.append(reinterpret_cast<const char*>(room.data()), step.bytes);
  }
}

TEST(TlsCarrier, WhatIsHeldBackArrivesInOrder) {
  CarrierPair pair;
  Prng prng(1);
  std::size_t waits = 0;
  for (int round = 0; round < 20; ++round) {
    std::string sent, received;
    const auto parts = random_parts(prng);
    std::vector<std::span<const std::byte>> left;
    for (const std::string& part : parts) {
      sent += part;
      left.push_back(std::as_bytes(std::span(part)));
    }
    while (!left.empty()) {
      const Step step = pair.writer->write(left);
      if (step.wait == Wait::kWrite) {
        ++waits;
        read_some(*pair.reader, received);
        continue;
      }
      ASSERT_EQ(step.wait, Wait::kNothing) << pair.writer->why().message;
      for (std::size_t bytes = step.bytes; bytes > 0;) {
        const std::size_t taken = std::min(bytes, left.front().size());
        left.front() = left.front().subspan(taken);
        bytes -= taken;
        if (left.front().empty()) left.erase(left.begin());
      }
    }
    read_some(*pair.reader, received);  // nothing of it is held back any more
    ASSERT_TRUE(received == sent) << round << ": " << received.size() << " of " << sent.size();
  }
  EXPECT_GT(waits, 20u) << "the socket took all of it at once";
}

}  // namespace
}  // namespace shoal::wire::stream
