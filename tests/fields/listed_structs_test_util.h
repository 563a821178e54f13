// For tests: the structs that have a list of fields in a header.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace shoal {

// The names in `fields_of(Of<NAME>)`, in the headers below these folders of the sources.
inline std::set<std::string> listed_structs(const std::vector<std::string>& folders) {
  static const std::regex kList(R"(fields_of\((?:shoal::)?Of<(?:\w+::)*(\w+)>)");
  std::set<std::string> names;
  for (const std::string& folder : folders) {
    const std::filesystem::path root = std::filesystem::path(SHOAL_SOURCE_FOLDER) / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".h") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (std::sregex_iterator at(text.begin(), text.end(), kList), end; at != end; ++at) {
        names.insert((*at)[1]);
      }
    }
  }
  return names;
}

}  // namespace shoal
