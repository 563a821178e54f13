// Datasets as a trainer reads them: asked of its agent, which has them in its cache or fetches them
// (TrainerHost.ReadData). While the source cannot be reached, or the agent is away, it asks again,
// for kPatience at most: a replica whose data is late is not a failed one.
//
// Threads: any; each call waits.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "agent_channel/control.h"
#include "base/result.h"
#include "data/stored_tokens.h"

namespace shoal::agent_channel {

class DataClient {
 public:
  static constexpr Duration kPatience = seconds(600);

  explicit DataClient(const ControlOptions& line, Duration patience = kPatience);

  // As data::ReadStored. kUnavailable: for longer than the patience.
  Result<std::string> read(const std::string& manifest, std::int64_t shard,
                           std::int64_t chunk) const;

 private:
  grpc::Status ask(const std::string& manifest, std::int64_t shard, std::int64_t chunk,
                   std::string& data) const;

  const std::string nonce_;
  const Duration patience_;
  const std::shared_ptr<grpc::Channel> channel_;
};

// A client that lives as long as the function.
data::ReadStored read_over(const ControlOptions& line);

}  // namespace shoal::agent_channel
