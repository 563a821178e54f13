// What gRPC writes into its log goes to ours; but handshakes that fail on the port for agents are
// counted instead, because gRPC tells of them nowhere else, and a stranger decides how often they
// fail: bytes that are no TLS, another version of it, a recorded handshake.
#pragma once

#include "coordinator/service/people/refusals.h"

namespace shoal::coordinator {

// From now on, for the whole process, while this lives. At most one at a time.
class GrpcLog {
 public:
  explicit GrpcLog(Refusals& refusals);
  ~GrpcLog();
  GrpcLog(const GrpcLog&) = delete;
  GrpcLog& operator=(const GrpcLog&) = delete;
};

}  // namespace shoal::coordinator
