// A table for people: a header in capitals, columns as wide as their widest cell, two spaces
// between them. A color may be given to a cell; it does not count for the width.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace shoal::cli {

struct Cell {
  std::string text;
  Color color = Color::kNone;
  Cell(std::string value,
       Color paint = Color::kNone)  // NOLINT: implicit, rows are lists of cells
      : text(std::move(value)), color(paint) {}
  Cell(const char* value) : text(value) {}  // NOLINT: implicit
};

class Table {
 public:
  // A header that starts with '>' makes its column flush right; the sign is not shown.
  explicit Table(std::vector<std::string> header);

  void add(std::vector<Cell> row);  // as many cells as the header has
  bool empty() const { return rows_.empty(); }
  std::string render(bool color) const;  // one line per row, each ended by '\n'

 private:
  std::vector<std::string> header_;
  std::vector<bool> right_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace shoal::cli
