// What is measured over a channel: a flow each way, as a butterfly of contributions and averages
// has it; a message to and fro; and a flow that is cancelled under way.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/streams/contender.h"

namespace shoal::bench {

std::int64_t monotonic_ns();  // the same clock in all processes of a host

// Where messages are sent from and put, one after another: a vector each for the whole process,
// made at its first use. What arrives on several channels overwrites each other.
class Memory {
 public:
  static void touch();                                  // makes both vectors
  explicit Memory(std::size_t bytes) : size_(bytes) {}  // of them, at most kMemoryMax
  std::span<const std::byte> next_out(std::size_t size);
  std::span<std::byte> next_in(std::size_t size);

 private:
  const std::size_t size_;
  std::size_t out_ = 0, in_ = 0;
};
inline constexpr std::size_t kMemoryMax = 64 << 20;

// The accepting side: answers each message by one of the same size, or only counts (`sink`).
std::shared_ptr<ChannelUser> make_answerer(const std::string& purpose);
std::int64_t last_gone_ns();  // when a sink was last told that its channel is gone; 0: never

constexpr auto kTalkLimit = std::chrono::seconds(300);

// To all of `peers` at once, `bytes` to each, which they answer. Error: it takes too long.
Status flow(Contender& contender, const std::vector<int>& peers, std::int64_t bytes,
            std::size_t message);

// Nanoseconds of each way to the peer and back.
Result<std::vector<std::int64_t>> ping(Contender& contender, int peer, std::size_t message,
                                       int count);

// Nanoseconds from before the connection is made until the first answer.
Result<std::int64_t> handshake(Contender& contender, int peer);

struct Cancelled {
  std::int64_t at_ns = 0;     // when it was cancelled, of monotonic_ns()
  std::int64_t freed_ns = 0;  // from then until no memory of ours is read
};
Result<Cancelled> cancel_under_way(Contender& contender, int peer, std::size_t message,
                                   int messages_before);

}  // namespace shoal::bench
