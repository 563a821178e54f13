// The identity of this process among its peers: the certificate of the replica that it trains, as
// contexts for its connections. agent_channel makes it, from the certificates of the agent.
#pragma once

#include "identity/names.h"
#include "identity/tls_context.h"
#include "wire/stream/node.h"

namespace shoal::outer_opt {

struct PeerIdentity {
  identity::ClusterName cluster;
  identity::ReplicaName own;
  wire::stream::TlsContexts contexts;
  identity::Credentials credentials;  // what relays ask for (wire/relay)
};

}  // namespace shoal::outer_opt
