// See json_node.h.
#include "tokenizer/json_node.h"

#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

const nlohmann::json kNull;

constexpr std::size_t kToldMost = 300;  // of what the file says itself

std::string shortened(const std::string& what) {
  if (what.size() <= kToldMost) return what;
  std::size_t end = kToldMost;
  while (end > 0 && !begins_character(what[end])) --end;
  return what.substr(0, end) + "...";
}

}  // namespace

JsonNode JsonNode::at(const char* key) const {
  if (!value_.is_object()) malformed("must be an object");
  const auto it = value_.find(key);
  return {it == value_.end() ? kNull : *it, path_.empty() ? key : path_ + "." + key};
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_.is_array()) malformed("must be an array");
  std::vector<JsonNode> nodes;
  for (const auto& item : value_) {
    nodes.emplace_back(item, path_ + "[" + std::to_string(nodes.size()) + "]");
  }
  return nodes;
}

std::string JsonNode::text() const {
  if (!value_.is_string()) malformed("must be a string");
  return value_.get<std::string>();
}

std::int64_t JsonNode::integer(std::int64_t least, std::int64_t most) const {
  const bool fits = value_.is_number_integer() && value_ >= least && value_ <= most;
  if (!fits) {
    malformed("must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value_.get<std::int64_t>();
}

bool JsonNode::flag(const char* key, bool usual) const {
  const JsonNode node = at(key);
  if (node.is_null()) return usual;
  if (!node.value().is_boolean()) node.malformed("must be true or false");
  return node.value().get<bool>();
}

void JsonNode::malformed(const std::string& what) const {
  throw JsonRefusal{{Code::kInvalidArgument, path_ + ": " + shortened(what), "",
                     "take another copy of the file"}};
}

void JsonNode::unsupported(const std::string& what, const std::string& known) const {
  throw JsonRefusal{{Code::kIncompatible, path_ + ": " + shortened(what) + " is not supported", "",
                     "Shoal knows " + known +
                         "; tokenize with the Hugging Face library, and give "
                         "Shoal the tokens"}};
}

void JsonNode::must_be_unset(const char* key) const {
  const JsonNode node = at(key);
  const auto& value = node.value();
  const bool unset = value.is_null() || value == false || value == "" ||
                     (value.is_number() && value == 0) || (value.is_array() && value.empty());
  if (!unset) node.unsupported("a value", "files without one");
}

}  // namespace shoal::tokenizer
