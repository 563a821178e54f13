// The code of a job as one file: a POSIX archive (ustar, as tar reads it) of regular files in the
// order of their paths, without times and owners. Equal folders give equal bytes, so the SHA-256 of
// a bundle names what it holds.
//
// Nothing in a bundle is trusted: only what pack_bundle() writes is unpacked, byte for byte in its
// form. Links, devices, absolute paths and ".." do not exist in that form.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace shoal {

inline constexpr Bytes kBundleBytesMax = mebibytes(64);  // of the whole bundle
inline constexpr std::size_t kBundleFilesMax = 4096;

// `paths`: of regular files beneath `folder`, relative, in any order, each once. A file that its
// owner may execute stays so. kInvalidArgument: too many or too large, or a path that ustar cannot
// hold; the field is the path. kUnavailable: a file cannot be read.
Result<std::string> pack_bundle(const std::string& folder, std::vector<std::string> paths);

// Makes `folder`, which must not exist, with the files of the bundle: readable for everybody,
// writable for nobody. What was made is removed when it fails. kDataLoss: not a bundle.
Status unpack_bundle(std::string_view bundle, const std::string& folder);

}  // namespace shoal
