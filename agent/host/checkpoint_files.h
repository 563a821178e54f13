// Files of checkpoints that a trainer wrote on this host: what there is, with its hashes. How files
// travel is in transfer/.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/result.h"
#include "messages/messages.h"

namespace shoal::agent {

// Every regular file below `folder` with its size and hash, sorted by path. kCancelled when told
// so. kDataLoss: there are none, or a link is among them.
Result<std::vector<FileEntry>> hash_folder(const std::string& folder,
                                           const std::atomic<bool>& cancelled);

}  // namespace shoal::agent
