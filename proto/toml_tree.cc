// The only file that sees toml++, which is slow to compile.
#include "proto/toml_tree.h"

#include <algorithm>
#include <sstream>

#include <toml++/toml.h>

namespace shoal::proto {
namespace {

constexpr int kKeyPartsMost = 32;  // of one key: a.b.c has three

std::string line_of(std::string_view text, std::size_t at) {
  return std::to_string(1 + std::ranges::count(text.substr(0, at), '\n'));
}

// What toml++ 3.3 is not to see; empty: nothing. A key of many parts: each is a table in the one
// before, and it takes a stack frame for each when it frees them; it bounds the nesting of
// values, not that of keys. A letter beyond ASCII outside of quotes: its tables of such letters
// have gaps, and reach what they call unreachable. Where the text is no TOML this may miss some.
std::string unfit(std::string_view text) {
  int dots = 0;
  const std::size_t begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      return "not valid TOML at line " + line_of(text, i) +
             ": letters beyond ASCII must stand in quotes";
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      dots = 0;
    } else if (c == '"' || c == '\'') {
      const std::string_view three = text.substr(i, 3);
      const bool many_lines = three.size() == 3 && three[1] == c && three[2] == c;
      const std::string_view end = many_lines ? three : three.substr(0, 1);
      for (i += end.size(); i < text.size() && !text.substr(i).starts_with(end); ++i) {
        if (!many_lines && text[i] == '\n') break;
        if (c == '"' && text[i] == '\\') ++i;
      }
      i += end.size() - 1;
      // A text of many lines may end with quotes of its own.
      for (int more = 0; many_lines && more < 2 && i + 1 < text.size() && text[i + 1] == c; ++more)
        ++i;
    } else if (c == '.') {
      if (++dots < kKeyPartsMost) continue;
      return "a key has more than " + std::to_string(kKeyPartsMost) + " parts";
    } else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) {
      dots = 0;
    }
  }
  return {};
}

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
  if (std::string complaint = unfit(text); !complaint.empty()) return complaint;
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
