// One attempt at a session with the coordinator: a channel of its own, Hello, then
// messages in both directions until one side ends it. A new attempt is a new object; nothing is
// carried over, not even gRPC's own back-off, because the core decides when to try again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "agent/core/io.h"

namespace shoal::agent {

struct CoordinatorEndpoint {
  std::string address;  // host:port
  // Called for each new channel, because certificates are renewed (membership.h).
  std::function<std::shared_ptr<grpc::ChannelCredentials>()> credentials;
};

// Keep-alive as the coordinator permits it (a ping every 5 s): a dead peer is noticed after 6 s + 5
// s without traffic, and 5 s after something was said that it did not acknowledge
// (TCP_USER_TIMEOUT, which gRPC sets with it). So the link is given up when the line is cut, where
// TCP alone would retransmit for minutes.
std::shared_ptr<grpc::Channel> open_channel(const CoordinatorEndpoint& endpoint);

// A sentence for a person out of a gRPC status. What the coordinator said keeps its field and
// remedy, which a coordinator sends as the status' details; kUnavailable without them is a line
// that does not reach it, and the remedy names --coordinator.
Error error_of(const grpc::Status& status, const std::string& address);

class CoordinatorLink {
 public:
  using Post = std::function<void(Input)>;  // any thread
  // The agents that trainers must no longer trust. Called before the message that names them is
  // posted, on any thread.
  using Revoked = std::function<void(const std::vector<AgentId>&)>;

  // Begins at once; LinkUp, CoordinatorSaid and at last LinkDown are posted.
  CoordinatorLink(const CoordinatorEndpoint& endpoint, LinkId id, const Hello& hello, Post post,
                  Revoked revoked);
  // Flushes what was sent before and waits for the end, one second at most; then cancels the
  // stream. Does not wait when nothing was ever heard. Posts nothing more.
  ~CoordinatorLink();

  void send(const FromAgent& message);
  LinkId id() const { return id_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  class Session;
  LinkId id_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<Session> session_;
};

}  // namespace shoal::agent
