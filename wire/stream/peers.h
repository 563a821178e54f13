// The replicas of a job, for code that talks to them: which one to expect, and which way leads
// there, is decided behind this.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "wire/stream/node.h"

namespace shoal::wire::stream {

// The replica that is expected at the other end.
struct PeerReplica {
  JobId job;
  std::int64_t epoch = 0;
  ReplicaId replica;
  bool operator==(const PeerReplica&) const = default;
};

// Thread-safe.
class Peers {
 public:
  virtual ~Peers() = default;

  // Streams whose purpose begins with this word go to `accept`, from the node's I/O thread; null:
  // they are refused. A call that is under way then may still come to its end, so what `accept`
  // refers to is shared with it. Replicas of other jobs have been refused before.
  virtual void set_accept(const std::string& word, AcceptStream accept) = 0;
  // A pair of one's own, to be closed when it has served its purpose. `dialed` comes once, from
  // the I/O thread. Resolves a name in the caller's thread; everything else has a deadline.
  virtual void dial_replica(const std::string& address, const PeerReplica& peer,
                            Node::Dialed dialed) = 0;
  // Whether the other end has shown to be that replica. Processes of one user on one host need not,
  // nor does anybody where the node asks for no certificates.
  virtual bool is_replica(const Pair& pair, const PeerReplica& peer) = 0;
};

}  // namespace shoal::wire::stream
