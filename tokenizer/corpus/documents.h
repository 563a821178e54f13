// Texts out of files, in pieces that fit in memory: a text file is one document; with --field every
// record of a file is one. Records are the lines of JSON lines, or the elements of one JSON array.
// Compressed files are read as what they hold (byte_source.h). What a file of tens of gigabytes
// needs is one piece at a time.
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
inline constexpr std::size_t kWholeBytesMax = 64 << 20;  // what cannot be cut: a record, a document

// Where a text may be cut: TextTokenizer::safe_cut().
using SafeCut = std::function<std::size_t(std::string_view text, std::size_t most)>;

struct Piece {
  std::string text;  // of a record: the JSON, see record_text.h
  std::size_t file = 0;
  std::int64_t offset = 0;   // of its first byte, in the text that the file holds
  std::int64_t line = 0;     // of a record: where it begins, from 1; else 0
  std::int64_t element = 0;  // of a record in an array: its number, from 1; else 0
  bool ends_document = false;
};

struct DocumentOptions {
  std::vector<std::string> files;
  std::string field;           // of records (record_text.h); empty: the files are text
  std::int64_t bytes_max = 0;  // of the text of each file, cut at a piece; 0: all
  bool skip_bad = false;       // records without a text are left out, and counted
};

// Records that were left out.
struct Skipped {
  std::int64_t records = 0;
  std::string first;  // where and why, of the first one

  void add(const Skipped& later) {
    if (records == 0) first = later.first;
    records += later.records;
  }
};

class DocumentReader {
 public:
  // kValidation, kNotFound: a file that is missing, empty, not regular or no text, or JSON lines
  // without a field. Looks at all files before the first is read.
  static Result<DocumentReader> open(DocumentOptions options, SafeCut cut);
  ~DocumentReader();
  DocumentReader(DocumentReader&&) noexcept;
  DocumentReader& operator=(DocumentReader&&) noexcept;

  // None: all were read. kValidation: a file was changed, or holds what is too long, or an array
  // that does not end; kDataLoss: a compressed file is truncated.
  Result<std::optional<Piece>> next();
  std::int64_t bytes_read() const;  // of all files, as they are compressed

 private:
  struct State;
  explicit DocumentReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "corpus.jsonl:17: ", "corpus.json, element 3 (line 17): " or "corpus.txt, byte 1234: " before a
// message about a piece; `at` is an offset in a piece of text.
std::string place_of(const Piece& piece, const std::vector<std::string>& files, std::size_t at);

}  // namespace shoal::corpus
