// The file of the record keys (coordinator/core/state/record_keys.h), with ca.pem in the data
// folder and in each backup. The keys never leave the coordinator: whoever has them can make
// members' claims about the past look true.
//
// Threads: one at a time.
#pragma once

#include <string>

#include "base/result.h"
#include "coordinator/core/records/records.h"
#include "coordinator/core/state/record_keys.h"

namespace shoal::coordinator {

inline constexpr const char* kRecordKeyFile = "/record_keys.json";

class RecordKeyFile {
 public:
  // Loads the file, or makes it with a first key. Keys that no live replica of `snapshot` can need
  // are dropped. Errors: as read_private_file(), and invalid_argument for another content.
  static Result<RecordKeyFile> open(const std::string& folder, const std::string& cluster,
                                    const Snapshot& snapshot, Instant now);

  // A new key, which signs from now on.
  Status rotate(Instant now);

  const RecordKeys& keys() const { return keys_; }

 private:
  RecordKeyFile(std::string path, std::string cluster)
      : path_(std::move(path)), cluster_(std::move(cluster)) {}
  Status read();
  Status write(const RecordKeys& keys);

  std::string path_, cluster_;
  RecordKeys keys_;
};

// The keys that members may still hold records of: the newest, and older ones until every live
// replica has taken the outer step of a round that was committed since the newest was made.
RecordKeys needed_keys(RecordKeys keys, const Snapshot& snapshot);

}  // namespace shoal::coordinator
