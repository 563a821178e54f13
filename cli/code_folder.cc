#include "cli/code_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fnmatch.h>

#include "transfer/bundle.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIgnoreFile = ".shoalignore";
constexpr const char* kAlwaysLeftOut[] = {".git", ".venv", "__pycache__", "*.pyc", kIgnoreFile};

Error refused(std::string message, std::string remedy) {
  return {Code::kValidation, std::move(message), "--code", std::move(remedy)};
}

std::vector<std::string> patterns_of(const fs::path& folder) {
  std::vector<std::string> patterns(std::begin(kAlwaysLeftOut), std::end(kAlwaysLeftOut));
  std::ifstream in(folder / kIgnoreFile);
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty() || line.front() == '#') continue;
    if (line.back() == '/') line.pop_back();
    if (!line.empty()) patterns.push_back(line);
  }
  return patterns;
}

bool fits(const std::string& pattern, const fs::path& path) {
  const bool of_path = pattern.find('/') != std::string::npos;
  const std::string from = pattern.front() == '/' ? pattern.substr(1) : pattern;
  const std::string text = of_path ? path.generic_string() : path.filename().string();
  return ::fnmatch(from.c_str(), text.c_str(), of_path ? FNM_PATHNAME : 0) == 0;
}

bool is_left_out(const std::vector<std::string>& patterns, const fs::path& path) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return fits(pattern, path); });
}

}  // namespace

Result<std::vector<std::string>> code_files(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return refused(folder + " is not a folder", "");
  const auto patterns = patterns_of(folder);
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path path = it->path().lexically_relative(folder);
    if (is_left_out(patterns, path)) {
      it.disable_recursion_pending();
    } else if (it->is_symlink() || !(it->is_regular_file() || it->is_directory())) {
      return refused(path.generic_string() + " is a link or not a regular file",
                     "put a copy in its place, or name it in " + folder + "/" + kIgnoreFile);
    } else if (it->is_regular_file()) {
      files.push_back(path.generic_string());
    }
    if (files.size() > kBundleFilesMax) {
      return refused(folder + " has more than " + std::to_string(kBundleFilesMax) + " files",
                     "name what is no code in " + folder + "/" + kIgnoreFile);
    }
  }
  if (error) return refused("cannot read " + folder + ": " + error.message(), "");
  if (files.empty()) return refused(folder + " holds no files", "name the folder of the program");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace shoal::cli
