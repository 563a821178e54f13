// Files that hold a secret: keys and tokens. They are written for their owner only, whole or not at
// all, and are refused once others can read them: a secret that may have leaked is none.
//
// Threads: all functions may be called by any thread; two writers of one path at once get an error
// or the last one's content, never a mixture.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shoal::identity {

inline constexpr std::size_t kPrivateFileMax = std::size_t{64} << 10;

// The content. Errors, all with the path as their field: not_found; permission_denied when others
// may read it (remedy: chmod 600) or we may not; invalid_argument when it is no regular file or
// longer than kPrivateFileMax.
Result<std::string> read_private_file(const std::string& path);

// The same, for a file that anybody may read: a certificate.
Result<std::string> read_public_file(const std::string& path);

// The secret of a file with one line, without blanks and line ends around it.
Result<std::string> read_token_file(const std::string& path);

// Writes beside `path` with mode 0600, syncs, renames and syncs the folder.
Status write_private_file(const std::string& path, std::string_view content);

}  // namespace shoal::identity
