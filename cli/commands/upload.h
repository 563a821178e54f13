// Files on their way into the coordinator's store: in pieces, from where it has them. A line that
// breaks is tried again for a while; the same command continues what was cut off.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "cli/api.h"

namespace shoal::cli {

struct UploadedFile {
  std::string name;    // for people
  std::string sha256;  // of all its bytes
  std::int64_t size = 0;
};

// Bytes [from, from + count) of the file.
using ReadPiece = std::function<Result<std::string>(std::int64_t from, std::int64_t count)>;

// Shows how far it is where stderr is a terminal. kValidation: the bytes have another hash.
// kCancelled: interrupted.
Status upload(const Api& api, const UploadedFile& file, const ReadPiece& read);
Status upload_text(const Api& api, const std::string& name, const std::string& text);

// "sending name  3 MB of 10 MB" on a terminal, over the line before; it goes with the last byte.
void show_progress(const std::string& what, const std::string& name, std::int64_t done,
                   std::int64_t size);

}  // namespace shoal::cli
