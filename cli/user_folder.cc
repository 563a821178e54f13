#include "cli/user_folder.h"

#include <cstdlib>

namespace shoal::cli {

Result<std::string> user_folder(const char* variable, const char* below_home,
                                const std::string& field) {
  const char* xdg = std::getenv(variable);
  if (xdg != nullptr && *xdg == '/') return std::string(xdg) + "/shoal";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/" + below_home + "/shoal";
  return Error{
      Code::kNotFound,
      std::string("neither ") + variable + " nor HOME names a folder for this user's files", field,
      "name a folder, or set HOME"};
}

}  // namespace shoal::cli
