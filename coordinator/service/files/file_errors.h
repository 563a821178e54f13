// What the parts of the file store have in common.
#pragma once

#include <string>

#include "base/result.h"
#include "coordinator/service/files/file_store.h"
#include "messages/messages.h"

namespace shoal::coordinator {

// Also where the caller has no right to the file.
inline Error unknown_file(const std::string& sha256) {
  return {Code::kNotFound, "there is no file " + sha256, "",
          "announce it with POST /api/v1/files, and upload it"};
}

inline FileEntry entry_of(const FileRecord& record) {
  return {FileStore::kContent, record.size, record.sha256};
}

}  // namespace shoal::coordinator
