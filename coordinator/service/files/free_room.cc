#include "coordinator/service/files/free_room.h"

#include <cerrno>

#include <sys/statvfs.h>

#include "base/number_text.h"
#include "transfer/files.h"

namespace shoal::coordinator {

Result<Bytes> free_room(const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0)
    return disk_error("look at the disk of the folder", folder, errno);
  return Bytes(static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize));
}

Status check_room(const FreeRoom& room, const std::string& folder, Bytes wanted,
                  const std::string& what, const std::string& remedy) {
  const Result<Bytes> free = room(folder);
  if (!free) return free.error();
  if (wanted <= *free - kRoomForTables) return {};
  const auto text = [](Bytes bytes) { return size_text(static_cast<double>(bytes.count())); };
  return Error{.code = Code::kResourceExhausted,
               .message = what + " needs " + text(wanted) + ", the disk has " + text(*free) +
                          ", of which " + text(kRoomForTables) +
                          " is kept for the coordinator's tables",
               .field = folder,
               .remedy = remedy};
}

}  // namespace shoal::coordinator
