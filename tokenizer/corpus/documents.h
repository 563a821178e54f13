// Texts out of files, in pieces that fit in memory: a text file is one document; in JSON lines
// (--field) every line is one. What a file of tens of gigabytes needs is one piece at a time.
//
// The files must stay as they are: one that has another length or time of change at its end than at
// its beginning is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shoal::corpus {

inline constexpr std::size_t kPieceBytes = 512 << 10;    // aimed at
inline constexpr std::size_t kWholeBytesMax = 64 << 20;  // what cannot be cut: a line, a document

// Where a text may be cut: TextTokenizer::safe_cut().
using SafeCut = std::function<std::size_t(std::string_view text, std::size_t most)>;

struct Piece {
  std::string text;  // of a line: the JSON, see text_of_line()
  std::size_t file = 0;
  std::int64_t offset = 0;  // of its first byte
  std::int64_t line = 0;    // JSON lines: its number, from 1; else 0
  bool ends_document = false;
};

struct DocumentOptions {
  std::vector<std::string> files;
  std::string field;           // of JSON lines; empty: the files are text
  std::int64_t bytes_max = 0;  // of each file, cut at a piece; 0: all
};

class DocumentReader {
 public:
  // kValidation, kNotFound: a file that is missing, empty or not regular, or JSON lines without a
  // field. Looks at all files before the first is read.
  static Result<DocumentReader> open(DocumentOptions options, SafeCut cut);
  ~DocumentReader();
  DocumentReader(DocumentReader&&) noexcept;
  DocumentReader& operator=(DocumentReader&&) noexcept;

  // None: all were read. kValidation: a file was changed, or holds what is too long.
  Result<std::optional<Piece>> next();
  std::int64_t bytes_total() const;  // of all files

 private:
  struct State;
  explicit DocumentReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The text of a line. kValidation: not JSON, or without a string of this name.
Result<std::string> text_of_line(std::string_view line, const std::string& field);

// "corpus.jsonl:17: " or "corpus.txt, byte 1234: " before a message about a piece; `at` is an
// offset in a piece of text.
std::string place_of(const Piece& piece, const std::vector<std::string>& files, std::size_t at);

}  // namespace shoal::corpus
