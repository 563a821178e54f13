// What carries messages between processes, as this benchmark sees it: two-way channels of messages,
// one message in flight per channel, events from whatever threads the carrier has.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/streams/identities.h"

namespace shoal::bench {

// The memory of what is sent lasts as long as the process.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void send(std::span<const std::byte> message) = 0;  // sent() follows
  virtual void cancel() = 0;                                  // gone() follows
};

class ChannelUser {
 public:
  virtual ~ChannelUser() = default;
  // Where the next message goes, for carriers that can put it there.
  virtual std::span<std::byte> place(std::size_t size) = 0;
  virtual void received(Channel& channel, std::size_t size) = 0;
  virtual void sent(Channel& channel) = 0;
  virtual void gone() = 0;  // the last call
};

// A peer opens a channel.
using Accept = std::function<std::shared_ptr<ChannelUser>(const std::string& purpose)>;

struct Place {
  int rank = 0;
  std::string host = "127.0.0.1";
  int lanes = 1;  // connections of a pair, for carriers that can have several
};

class Contender {
 public:
  virtual ~Contender() = default;
  virtual Result<std::string> listen() = 0;  // the address
  // `addresses` are those of all processes, by rank. Blocks until every peer is connected.
  virtual Status connect(const std::vector<std::string>& addresses) = 0;
  // The channel lives until gone(). Fresh: over a connection of its own, which begins now.
  virtual std::shared_ptr<Channel> open(int peer, const std::string& purpose,
                                        std::shared_ptr<ChannelUser> user, bool fresh) = 0;
};

std::unique_ptr<Contender> make_streams(Place place, const Identity* identity, bool local,
                                        Accept accept);

}  // namespace shoal::bench
