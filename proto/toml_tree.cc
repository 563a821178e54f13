// The only file that sees toml++, which is slow to compile.
#include "proto/toml_tree.h"

#include <sstream>

#include <toml++/toml.h>

namespace shoal::proto {
namespace {

class Converter {
 public:
  TomlTree take(const toml::table& root) {
    tree_.root = table(root, "");
    return std::move(tree_);
  }

 private:
  using Json = nlohmann::ordered_json;

  Json table(const toml::table& from, const std::string& pointer) {
    Json to = Json::object();
    for (const auto& [key, node] : from) {
      to[std::string(key.str())] = value(node, pointer + "/" + std::string(key.str()));
    }
    return to;
  }

  Json array(const toml::array& from, const std::string& pointer) {
    Json to = Json::array();
    for (const auto& node : from)
      to.push_back(value(node, pointer + "/" + std::to_string(to.size())));
    return to;
  }

  Json value(const toml::node& node, const std::string& pointer) {
    const auto begin = node.source().begin;
    tree_.positions[pointer] = {begin.line, begin.column};
    if (const auto* inner = node.as_table()) return table(*inner, pointer);
    if (const auto* inner = node.as_array()) return array(*inner, pointer);
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* integer = node.as_integer()) return integer->get();
    if (const auto* number = node.as_floating_point()) return number->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    return Json::binary({});
  }

  TomlTree tree_;
};

}  // namespace

std::variant<TomlTree, std::string> read_toml(std::string_view text) {
  try {
    return Converter().take(toml::parse(text));
  } catch (const toml::parse_error& error) {
    std::ostringstream sentence;
    const auto begin = error.source().begin;
    sentence << "not valid TOML at line " << begin.line << ", column " << begin.column << ": "
             << error.description();
    return sentence.str();
  }
}

}  // namespace shoal::proto
