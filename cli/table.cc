// Column widths are counted in UTF-8 code points: no cell holds anything wider than one column.
#include "cli/table.h"

#include <algorithm>

#include "base/check.h"

namespace shoal::cli {
namespace {

std::string aligned(const std::string& text, std::size_t width, bool right, bool last) {
  const std::size_t size = display_width(text);
  const std::string pad(width > size ? width - size : 0, ' ');
  if (right) return pad + text;
  return last ? text : text + pad;
}

}  // namespace

Table::Table(std::vector<std::string> header) : header_(std::move(header)) {
  for (std::string& name : header_) {
    right_.push_back(!name.empty() && name[0] == '>');
    if (right_.back()) name.erase(0, 1);
  }
}

void Table::add(std::vector<Cell> row) {
  SHOAL_CHECK(row.size() == header_.size(), "a row has as many cells as the header");
  rows_.push_back(std::move(row));
}

std::string Table::render(bool color) const {
  std::vector<std::size_t> width;
  for (const std::string& name : header_) width.push_back(display_width(name));
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      width[c] = std::max(width[c], display_width(row[c].text));
    }
  }
  std::string out;
  const auto add_line = [&](auto&& text_of, auto&& color_of) {
    for (std::size_t c = 0; c < header_.size(); ++c) {
      if (c > 0) out += "  ";
      const bool last = c + 1 == header_.size();
      out += paint(aligned(text_of(c), width[c], right_[c], last), color_of(c), color);
    }
    out += '\n';
  };
  add_line([&](std::size_t c) { return header_[c]; }, [](std::size_t) { return Color::kBold; });
  for (const auto& row : rows_) {
    add_line([&](std::size_t c) { return row[c].text; },
             [&](std::size_t c) { return row[c].color; });
  }
  return out;
}

}  // namespace shoal::cli
