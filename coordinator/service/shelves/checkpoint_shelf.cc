#include "coordinator/service/shelves/checkpoint_shelf.h"

namespace shoal::coordinator {

Error bad_upload(Code code, const std::string& path, std::string message) {
  return {.code = code,
          .message = std::move(message),
          .field = path,
          .remedy = "the agent writes the checkpoint again"};
}

bool is_safe_path(const std::string& path) {
  if (path.empty() || path.size() > 1000) return false;
  std::string component;
  for (const char c : path + "/") {
    if (c == '/') {
      if (component.empty() || component == "." || component == ".." || component.size() > 255) {
        return false;
      }
      component.clear();
    } else {
      if (static_cast<unsigned char>(c) < 0x20 || c == '\\') return false;
      component += c;
    }
  }
  return true;
}

Status check_file_list(const std::vector<FileEntry>& files) {
  if (files.empty() || files.size() > kCheckpointFilesMax) {
    return bad_upload(Code::kInvalidArgument, "files",
                      "a checkpoint has 1 to " + std::to_string(kCheckpointFilesMax) +
                          " files, got " + std::to_string(files.size()));
  }
  std::set<std::string> seen;
  for (const FileEntry& file : files) {
    if (!is_safe_path(file.path)) {
      return bad_upload(Code::kInvalidArgument, file.path, "the path is not accepted");
    }
    if (file.size.n < 0)
      return bad_upload(Code::kInvalidArgument, file.path, "the size is negative");
    if (!seen.insert(file.path).second) {
      return bad_upload(Code::kInvalidArgument, file.path, "the file is listed twice");
    }
  }
  return {};
}

}  // namespace shoal::coordinator
