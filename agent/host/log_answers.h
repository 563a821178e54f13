// Answers what the coordinator asks of this host's journal: a stream of its own beside the session,
// on the session's channel, with a thread that reads files while the daemon continues. Ends with
// the channel or with this object; the next session brings another.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "agent/host/journal.h"

namespace shoal::agent {

class LogAnswers {
 public:
  // `journal` must outlive it.
  LogAnswers(std::shared_ptr<grpc::Channel> channel, AgentId agent, const Journal& journal);
  ~LogAnswers();  // breaks the stream off and waits for its thread

 private:
  void run(AgentId agent, const Journal& journal);

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::thread thread_;
};

}  // namespace shoal::agent
