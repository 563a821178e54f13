// Certificates of one cluster for the processes of a measurement, made before they are forked.
#pragma once

#include <string>
#include <vector>

#include "identity/names.h"
#include "identity/tls_context.h"
#include "wire/stream/node.h"

namespace shoal::bench {

struct Identity {
  identity::ClusterName cluster;
  identity::ReplicaName name;  // replica n of job 1, from 1 on
  identity::Credentials credentials;
  wire::stream::TlsContexts contexts;
  // The same for gRPC, which compares host names: the server's certificate is for `localhost`.
  std::string roots_pem, client_pem, client_key_pem, server_pem, server_key_pem;
};

std::vector<Identity> make_identities(int count);

}  // namespace shoal::bench
