// The coordinator's own certificate, and the files through which gRPC takes it: it looks at them
// every second, so that a renewed certificate and new roots need no restart.
//
//   tls/server.key    0600, made once
//   tls/server.pem    the certificate and what is sent with it
//   tls/roots.pem     whom agents' certificates must come from
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "identity/authority.h"
#include "identity/tls_context.h"

namespace shoal::coordinator {

struct ServerFiles {
  std::string key, certificate, roots;  // paths
};
ServerFiles server_files(const std::string& folder);

// The name that every certificate of a coordinator has, beside those of its host: agents that dial
// an address expect this one.
inline constexpr const char* kServerName = "shoal-coordinator";

// Issues a certificate for the key in the folder, which is made where there is none, and writes the
// three files.
Result<identity::Credentials> issue_server_files(const identity::Authority& authority,
                                                 const std::string& folder,
                                                 const std::vector<std::string>& hosts,
                                                 Instant now);

}  // namespace shoal::coordinator
