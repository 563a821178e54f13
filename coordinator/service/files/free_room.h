// What a disk has left, for uploads that must leave room to the tables on the same disk.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace shoal::coordinator {

// What the disk of a folder has left for this user.
using FreeRoom = std::function<Result<Bytes>(const std::string& folder)>;
Result<Bytes> free_room(const std::string& folder);

// The tables lie on the same disk, as a rule, and without room for them the coordinator ends. So
// uploads leave this much free: they fail before the tables do.
inline constexpr Bytes kRoomForTables = mebibytes(16);

// kResourceExhausted: `what` ("the checkpoint") needs more than the disk of `folder` has beyond
// kRoomForTables.
Status check_room(const FreeRoom& room, const std::string& folder, Bytes wanted,
                  const std::string& what, const std::string& remedy);

}  // namespace shoal::coordinator
