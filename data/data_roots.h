// The folders of a host beneath which jobs may read, and the only way to open a file of theirs. A
// job names a file as ROOT:PATH or by an absolute path; both must end beneath a root, whatever
// links and ".." lie on the way, and the kernel holds it (openat2, RESOLVE_BENEATH). Messages name
// paths and roots, never content.
//
// An operator gives roots as [NAME=]FOLDER (--data-root). A root without a name is reached by
// absolute paths alone.
//
// Values are immutable; any thread may use them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace shoal::data {

struct DataRoot {
  std::string name;    // is_data_root_name(); empty: none
  std::string folder;  // absolute and normal, without a slash at the end, except "/"
  bool operator==(const DataRoot&) const = default;
};

class DataRoots {
 public:
  DataRoots() = default;  // none: every file is refused
  // The whole host: for programs that a person starts on a file of their own (benchmarks, tests).
  static DataRoots whole_host();
  // kValidation, with `field`: a malformed name, a name or a folder given twice, or a folder that
  // is not there.
  static Result<DataRoots> parse(std::span<const std::string> texts, const std::string& field);

  // What an agent hands its trainers in their environment, and back: a text of NAME=FOLDER, a line
  // each.
  std::string to_text() const;
  static Result<DataRoots> from_text(const std::string& text, const std::string& field);

  // A descriptor to read from (close-on-exec), which the caller closes. kNotFound, field
  // data.train: no such root, beneath no root, led out of its root by a link, or cannot be opened.
  Result<int> open(const std::string& data_path) const;

  const std::vector<DataRoot>& all() const { return roots_; }
  bool operator==(const DataRoots&) const = default;

 private:
  explicit DataRoots(std::vector<DataRoot> roots) : roots_(std::move(roots)) {}
  struct Place {
    const DataRoot* root;
    std::string path;  // relative to it
  };
  Result<Place> place_of(const std::string& data_path) const;
  std::string known() const;  // for people

  std::vector<DataRoot> roots_;
};

}  // namespace shoal::data
