// The text of one record, which is a JSON object or array as Python's json module writes it
// (tokenizer/python_json.h). A field is a key, or a path: `messages[0].content` is the value of
// `content` in the first element of `messages`. A key that is written like the whole path goes
// before the path. Only this one value is kept, so a record of any depth takes no memory but its
// own. Of a key that is there twice the last one counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace shoal::corpus {

// A key of an object, or an index of an array.
using FieldStep = std::variant<std::string, std::int64_t>;

class FieldPath {
 public:
  explicit FieldPath(std::string field);

  // kValidation: the record is not JSON or not UTF-8, or there is no string at this place.
  Result<std::string> text_of(std::string_view record) const;

  const std::string& field() const { return field_; }
  const std::vector<FieldStep>& steps() const { return steps_; }
  // Whether records are arrays: a file of records that begins with '[' is one array of them
  // otherwise.
  bool is_of_arrays() const { return std::holds_alternative<std::int64_t>(steps_.front()); }

 private:
  std::string field_;
  std::vector<FieldStep> steps_;  // at least one
};

}  // namespace shoal::corpus
