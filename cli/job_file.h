// A job file on its way to the coordinator, as it was written: the coordinator keeps its text with
// the comments. --name and --set change their fields in the text and nothing else. The server
// judges the content; this file only knows TOML and JSON as such. It remembers the line of every
// key, so that a refused field can be shown where the user wrote it.
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
  // The same from text; relative data paths are those of `folder`.
  static Result<JobFile> parse(const std::string& text, const std::string& shown_name,
                               const std::string& folder, const JobFileChanges& changes);

  const std::string& text() const { return text_; }  // what is sent
  const char* media_type() const { return is_json_ ? "application/json" : "application/toml"; }
  const std::string& folder() const { return folder_; }  // absolute; of relative data paths
  const Json& spec() const { return spec_; }             // what the text says
  // As --set; `origin` is where a refused field is said to come from.
  Status apply_set(const std::string& assignment, const char* origin = "--set");
  // "kjv.toml:14: " of a JSON pointer or of its nearest parent; "kjv.toml: " when the file has
  // neither. Empty for a refusal of something else: a query parameter, or a text that is no
  // pointer.
  std::string locate(const std::string& pointer) const;
  // kValidation when data.train names no readable file on this host.
  Status check_data_is_here() const;
  // kValidation when the coordinator, which is on this host, has looked into the file and found it
  // of no use. `dry_run` is what it answered.
  Status check_data(const Json& dry_run) const;

 private:
  Status apply(const JobFileChanges& changes);
  Status write_down(const std::string& dotted_key, const std::string& toml_value);
  std::string data_path() const;  // absolute; empty: none, or ROOT:PATH
  Error refused_data(const std::string& what, const std::string& remedy) const;

  Json spec_ = Json::object();
  std::string text_, shown_name_, folder_;
  bool is_json_ = false;
  std::map<std::string, std::string> places_;  // JSON pointer -> "kjv.toml:14" or "--set train.lr"
};

}  // namespace shoal::cli
