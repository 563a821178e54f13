// See record_text.h.
#include "tokenizer/corpus/record_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "tokenizer/python_json.h"
#include "tokenizer/utf8.h"

namespace shoal::corpus {
namespace {

using Json = nlohmann::json;

// None: not written like a path.
std::optional<std::vector<FieldStep>> steps_of(std::string_view field) {
  std::vector<FieldStep> steps;
  for (std::size_t at = 0; at < field.size();) {
    if (field[at] == '[') {
      std::int64_t index = -1;
      const char* const end = field.data() + field.size();
      const auto [stop, failure] = std::from_chars(field.data() + at + 1, end, index);
      if (failure != std::errc() || index < 0 || stop == end || *stop != ']') return std::nullopt;
      steps.emplace_back(index);
      at = static_cast<std::size_t>(stop - field.data()) + 1;
      continue;
    }
    if (at > 0 && field[at] != '.') return std::nullopt;
    at += at > 0;
    const std::size_t end = std::min(field.find_first_of(".[", at), field.size());
    if (end == at) return std::nullopt;
    steps.emplace_back(std::string(field.substr(at, end - at)));
    at = end;
  }
  if (steps.empty()) return std::nullopt;
  return steps;
}

// What is at the place: a string, or something else.
struct Found {
  std::optional<std::string> text;
  const char* other = nullptr;  // for people; null: nothing
};

// Follows the path through the events of the parser. `Place` says of each value whether it is on
// the path.
class FieldReader final : public nlohmann::json_sax<Json> {
 public:
  explicit FieldReader(const FieldPath& path) : path_(path) {}

  const Found& found() const {
    return literal_.text || literal_.other != nullptr ? literal_ : at_path_;
  }

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("bytes"); }
  bool string(string_t& text) override {
    for (Found* place : begin_value()) {
      if (place != nullptr) *place = {std::move(text), nullptr};
    }
    return true;
  }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    literal_next_ = depth_ == 1 && path_.steps().size() > 1 && name == path_.field();
    if (levels_.size() == depth_) {
      const auto* wanted = std::get_if<std::string>(&path_.steps()[depth_ - 1]);
      levels_.back().key_matches = wanted != nullptr && *wanted == name;
    }
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  // A container on the path; the step below it is that of its depth.
  struct Level {
    bool is_array = false, key_matches = false;
    std::int64_t next = 0;  // of an array: the index of the value that comes
  };

  bool is_on_path() {
    if (depth_ == 0) return true;
    if (levels_.size() != depth_) return false;
    Level& level = levels_.back();
    if (!level.is_array) return level.key_matches;
    const auto* wanted = std::get_if<std::int64_t>(&path_.steps()[depth_ - 1]);
    return wanted != nullptr && *wanted == level.next++;
  }
  // The places that the value which begins now is at; both are there at most once.
  std::array<Found*, 2> begin_value() {
    std::array<Found*, 2> places{};
    if (std::exchange(literal_next_, false)) places[0] = &literal_;
    on_path_ = is_on_path();
    if (on_path_) at_path_ = {};  // of the same key before
    if (on_path_ && depth_ == path_.steps().size()) places[1] = &at_path_;
    return places;
  }
  bool other(const char* what) {
    for (Found* place : begin_value()) {
      if (place != nullptr) *place = {std::nullopt, what};
    }
    return true;
  }
  bool open(bool is_array) {
    other(is_array ? "an array" : "an object");
    if (on_path_ && depth_ < path_.steps().size()) levels_.push_back({is_array});
    ++depth_;
    return true;
  }
  bool close() {
    if (levels_.size() == depth_) levels_.pop_back();
    --depth_;
    return true;
  }

  const FieldPath& path_;
  std::vector<Level> levels_;  // of the open containers, from the outermost, those on the path
  std::size_t depth_ = 0;      // open containers
  bool on_path_ = false, literal_next_ = false;
  Found at_path_, literal_;
};

Error bad_record(const std::string& what, const std::string& remedy) {
  return {Code::kValidation, "the record " + what, "FILES",
          remedy + "; --skip-bad-lines leaves such records out"};
}

}  // namespace

FieldPath::FieldPath(std::string field) : field_(std::move(field)) {
  auto steps = steps_of(field_);
  steps_ = steps ? std::move(*steps) : std::vector<FieldStep>{field_};
}

Result<std::string> FieldPath::text_of(std::string_view record) const {
  Found found;
  const auto read = [&](std::string_view text) {
    FieldReader reader(*this);
    const bool whole = Json::sax_parse(text, &reader);
    if (whole) found = reader.found();
    return whole;
  };
  if (!read(record)) {
    if (const auto at = tokenizer::find_invalid_utf8(record); at != std::string_view::npos) {
      return bad_record("is not UTF-8 at its byte " + std::to_string(at),
                        "convert it to UTF-8, for example with iconv");
    }
    if (!read(tokenizer::strict_json(record, "null"))) {
      return bad_record("is not JSON", "each must be one JSON object, in UTF-8");
    }
  }
  if (found.text) return std::move(*found.text);
  Error error =
      bad_record("has no string '" + field_ + "'" +
                     (found.other != nullptr ? std::string(": it is ") + found.other : ""),
                 "name the field that holds the text, such as messages[0].content");
  error.field = "--field";
  return error;
}

}  // namespace shoal::corpus
