// A job file on its way to the coordinator: read, changed by --name and --set, its data path made
// absolute. The server judges the content; this file only knows TOML and JSON as such. It remembers
// the line of every key, so that a refused field can be shown where the user wrote it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/api.h"

namespace shoal::cli {

struct JobFileChanges {
  std::string name;               // empty: as in the file
  std::vector<std::string> sets;  // "train.lr=0.001"; the value is TOML, else text
};

class JobFile {
 public:
  // `path` may be "-" for stdin. A name that ends in .json is read as JSON, anything else as TOML.
  static Result<JobFile> load(const std::string& path, const JobFileChanges& changes);
  // The same from text; relative data paths are taken from `folder`.
  static Result<JobFile> parse(const std::string& text, const std::string& shown_name,
                               const std::string& folder, const JobFileChanges& changes);

  const Json& spec() const { return spec_; }
  // "kjv.toml:14: " of a JSON pointer or of its nearest parent; "" when it is nowhere in the file.
  std::string locate(const std::string& pointer) const;
  // kValidation when data.train names no readable file on this host.
  Status check_data_is_here() const;

 private:
  Status apply(const JobFileChanges& changes, const std::string& folder);
  Status apply_set(const std::string& assignment);

  Json spec_ = Json::object();
  std::string shown_name_;
  std::map<std::string, std::string> places_;  // JSON pointer -> "kjv.toml:14" or "--set train.lr"
};

}  // namespace shoal::cli
