#include "cli/toml_edit.h"

#include <toml++/toml.h>

namespace shoal::cli {
namespace {

// Byte of a position; its columns count code points.
std::size_t offset_of(const std::string& text, const toml::source_position& at) {
  std::size_t byte = 0;
  for (toml::source_index line = 1; line < at.line; ++line) {
    const std::size_t end = text.find('\n', byte);
    if (end == std::string::npos) return text.size();
    byte = end + 1;
  }
  for (toml::source_index column = 1; column < at.column && byte < text.size(); ++column) {
    ++byte;
    while (byte < text.size() && (static_cast<unsigned char>(text[byte]) & 0xc0) == 0x80) ++byte;
  }
  return byte;
}

const toml::node* node_at(const toml::table& root, const std::vector<std::string>& path,
                          std::size_t depth) {
  const toml::node* node = &root;
  for (std::size_t i = 0; i < depth && node != nullptr; ++i) {
    node = node->is_table() ? node->as_table()->get(path[i]) : nullptr;
  }
  return node;
}

std::string replaced(const std::string& text, const toml::source_region& region,
                     const std::string& value) {
  const std::size_t begin = offset_of(text, region.begin), end = offset_of(text, region.end);
  return end < begin ? text : text.substr(0, begin) + value + text.substr(end);
}

// On a line of its own below the one of `at`.
std::string inserted_below(const std::string& text, const toml::source_position& at,
                           const std::string& line) {
  const std::size_t end = text.find('\n', offset_of(text, at));
  if (end == std::string::npos) return text + "\n" + line;
  return text.substr(0, end + 1) + line + text.substr(end + 1);
}

std::string table_name(const std::vector<std::string>& path) {
  std::string name;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) name += (i > 0 ? "." : "") + path[i];
  return name;
}

}  // namespace

std::vector<std::string> with_field(const std::string& text, const std::vector<std::string>& path,
                                    const std::string& value) {
  const toml::table root = toml::parse(text);
  if (const toml::node* known = node_at(root, path, path.size())) {
    return {replaced(text, known->source(), value)};
  }
  const std::string line = path.back() + " = " + value + "\n";
  if (path.size() == 1) return {line + text};
  std::vector<std::string> texts;
  if (const toml::node* table = node_at(root, path, path.size() - 1)) {
    texts.push_back(inserted_below(text, table->source().begin, line));
  }
  const bool ended = text.empty() || text.back() == '\n';
  texts.push_back(text + (ended ? "" : "\n") + "\n[" + table_name(path) + "]\n" + line);
  return texts;
}

}  // namespace shoal::cli
