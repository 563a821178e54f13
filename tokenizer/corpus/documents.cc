// See documents.h.
#include "tokenizer/corpus/documents.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer/corpus/byte_source.h"
#include "tokenizer/corpus/json_value.h"
#include "tokenizer/corpus/record_text.h"
#include "tokenizer/utf8.h"

namespace shoal::corpus {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Error bad_file(Code code, const std::string& what, const std::string& remedy) {
  return {code, what, "FILES", remedy};
}

struct Look {  // at a file
  std::int64_t size = 0, changed_ns = 0;
  bool regular = false;
  bool operator==(const Look&) const = default;
};
Look look_of(const struct stat& info) {
  return {info.st_size, std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
          S_ISREG(info.st_mode)};
}

Result<Look> look_at(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || ::access(path.c_str(), R_OK) != 0) {
    return bad_file(Code::kNotFound, path + " cannot be read: " + std::strerror(errno),
                    "name files that are there");
  }
  const Look look = look_of(info);
  if (!look.regular) {
    return bad_file(Code::kValidation, path + " is not a regular file",
                    "name files, such as corpus/*.txt");
  }
  if (look.size == 0) return bad_file(Code::kValidation, path + " is empty", "leave it out");
  return look;
}

// Its last bytes; none where it cannot be read.
std::string tail_of(int descriptor, std::int64_t size) {
  std::string tail(static_cast<std::size_t>(std::min<std::int64_t>(size, 4)), '\0');
  const auto at = size - static_cast<std::int64_t>(tail.size());
  const ssize_t got = ::pread(descriptor, tail.data(), tail.size(), at);
  tail.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return tail;
}

// Whether the file holds text, by its first bytes.
Status check_content(const std::string& path, std::int64_t size) {
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  std::string head(kHeadBytes, '\0');
  std::size_t read = 0;
  while (read < head.size()) {
    const auto got = source->read(head.data() + read, head.size() - read);
    if (!got) return got.error();
    if (*got == 0) break;
    read += *got;
  }
  head.resize(read);
  if (head.empty() || head == kByteOrderMark) {
    return bad_file(Code::kValidation, path + " is empty", "leave it out");
  }
  auto other = other_format(head, tail_of(source->descriptor(), size));
  if (!other) return {};
  other->message = path + " " + other->message;
  return *other;
}

Status check_name(const std::string& path, bool has_field) {
  std::string_view name = path;
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  if (!has_field && (name.ends_with(".jsonl") || name.ends_with(".ndjson"))) {
    return Error{Code::kValidation, path + " holds JSON lines", "--field",
                 "say which field of a line is the text, for example --field text"};
  }
  if (has_field && (name.ends_with(".csv") || name.ends_with(".tsv"))) {
    return bad_file(Code::kValidation, path + " holds a table, not JSON lines",
                    "make JSON lines of it: python3 -m shoal.convert FILE -o FILE.jsonl");
  }
  return {};
}

}  // namespace

struct DocumentReader::State {
  State(DocumentOptions given, SafeCut safe_cut)
      : options(std::move(given)), path_in_record(options.field), cut(std::move(safe_cut)) {}

  DocumentOptions options;
  FieldPath path_in_record;
  SafeCut cut;
  std::vector<Look> looks;
  std::int64_t bytes_done = 0;  // of the files before
  std::size_t file = 0;         // the one that is read
  std::optional<ByteSource> source;
  std::string buffer;
  std::size_t given = 0;     // bytes of it
  std::int64_t offset = 0;   // of rest() in the text
  std::int64_t line = 1;     // where rest() begins
  std::int64_t element = 0;  // of the array, that was given last
  bool in_array = false;
  bool at_end = false, limited = false;  // of the file; by bytes_max

  bool has_records() const { return !options.field.empty(); }
  const std::string& path() const { return options.files[file]; }
  // What was read and not yet given.
  std::string_view rest() const { return std::string_view(buffer).substr(given); }

  Status open_file();
  Status begin_records();
  Status check_unchanged() const;
  Status fill(std::size_t wanted);
  void drop_half();
  Result<std::size_t> piece_length();
  Result<std::size_t> line_length();
  Result<std::size_t> element_length();
  Result<std::size_t> end_of_array();
  Status skip_blanks();
  void drop(std::size_t length);
  Piece take(std::size_t length);
  std::optional<Piece> give(std::size_t length);
  Error too_long(const char* what) const;
  Error bad_array(const std::string& what, const std::string& remedy) const;
};

Status DocumentReader::State::open_file() {
  auto opened = ByteSource::open(path());
  if (!opened) return opened.error();
  source.emplace(std::move(*opened));
  buffer.clear();
  given = 0;
  offset = element = 0;
  line = 1;
  in_array = at_end = limited = false;
  if (Status s = check_unchanged(); !s) return s;
  if (Status s = fill(kByteOrderMark.size()); !s) return s;
  if (rest().starts_with(kByteOrderMark)) drop(kByteOrderMark.size());
  return has_records() ? begin_records() : Status();
}

Status DocumentReader::State::begin_records() {
  if (path_in_record.is_of_arrays()) return {};
  if (Status s = skip_blanks(); !s) return s;
  in_array = rest().starts_with('[');
  if (in_array) drop(1);
  return {};
}

Status DocumentReader::State::check_unchanged() const {
  struct stat info {};
  if (::fstat(source->descriptor(), &info) == 0 && look_of(info) == looks[file]) return {};
  return bad_file(Code::kValidation, path() + " was changed while it was read",
                  "try again when no program writes to it");
}

Status DocumentReader::State::fill(std::size_t wanted) {
  while (!at_end && rest().size() < wanted) {
    buffer.erase(0, std::exchange(given, 0));
    const std::size_t before = buffer.size();
    const std::int64_t most = options.bytes_max;
    std::size_t room = kReadBytes;
    if (most > 0) {
      const std::int64_t left = most - offset - static_cast<std::int64_t>(before);
      room = std::min(room, static_cast<std::size_t>(std::max<std::int64_t>(left, 0)));
    }
    buffer.resize(before + room);
    const auto got =
        room == 0 ? Result<std::size_t>(0) : source->read(buffer.data() + before, room);
    buffer.resize(before + (got ? *got : 0));
    if (!got) return got.error();
    at_end = *got == 0;
    limited = at_end && room == 0;
    if (limited && !in_array) drop_half();
  }
  return {};
}

// What the limit of bytes left of a line or a character.
void DocumentReader::State::drop_half() {
  const auto last = buffer.rfind('\n');
  if (last != std::string::npos) return buffer.resize(last + 1);
  while (!buffer.empty() && !tokenizer::begins_character(buffer.back())) buffer.pop_back();
  if (!buffer.empty()) buffer.pop_back();
}

Error DocumentReader::State::too_long(const char* what) const {
  if (const auto at = tokenizer::find_invalid_utf8(rest()); at != std::string_view::npos) {
    const auto place = offset + static_cast<std::int64_t>(at);
    return bad_file(Code::kValidation,
                    path() + ", byte " + std::to_string(place) + ": the text is not UTF-8",
                    "convert it to UTF-8, for example with iconv");
  }
  return bad_file(Code::kValidation,
                  path() + ", byte " + std::to_string(offset) + ": " + what + " of over " +
                      std::to_string(kWholeBytesMax >> 20) + " MiB",
                  "give the text as several files, or as JSON lines (--field)");
}

// The next piece of a text reaches to a safe place, or to the end.
Result<std::size_t> DocumentReader::State::piece_length() {
  for (std::size_t wanted = kPieceBytes; wanted <= kWholeBytesMax; wanted *= 2) {
    if (Status s = fill(wanted + 16); !s) return s.error();
    if (at_end && rest().size() <= wanted) return rest().size();
    if (const std::size_t safe = cut(rest(), wanted); safe > 0) return safe;
  }
  return too_long("a text that this tokenizer can only take whole,");
}

// With the line feed.
Result<std::size_t> DocumentReader::State::line_length() {
  std::size_t searched = 0;
  for (std::size_t wanted = kReadBytes; wanted <= kWholeBytesMax; wanted *= 2) {
    if (Status s = fill(wanted); !s) return s.error();
    const auto end = rest().find('\n', searched);
    if (end != std::string_view::npos) return end + 1;
    if (at_end) return rest().size();
    searched = rest().size();
  }
  return too_long("a line");
}

Error DocumentReader::State::bad_array(const std::string& what, const std::string& remedy) const {
  return bad_file(Code::kValidation, path() + ":" + std::to_string(line) + ": " + what, remedy);
}

// The length of the next element, without the comma before it; 0: there is none.
Result<std::size_t> DocumentReader::State::element_length() {
  if (Status s = skip_blanks(); !s) return s.error();
  if (rest().starts_with(']')) return end_of_array();
  if (element > 0 && !rest().empty()) {
    if (rest()[0] != ',') {
      return bad_array("no comma after element " + std::to_string(element) + " of the array",
                       "a file is one array of records, or has one record a line");
    }
    drop(1);
    if (Status s = skip_blanks(); !s) return s.error();
  }
  ValueEnd value;
  for (std::size_t wanted = kReadBytes; wanted <= kWholeBytesMax; wanted *= 2) {
    if (Status s = fill(wanted); !s) return s.error();
    const std::size_t end = value.find(rest());
    if (end == 0) {
      return bad_array("no value before the next comma or bracket of the array",
                       "make the file again with a JSON library");
    }
    if (end != std::string_view::npos) return end;
    if (!at_end) continue;
    if (limited || (options.skip_bad && rest().empty())) return std::size_t{0};
    if (options.skip_bad) return rest().size();  // half a record, which is counted
    return bad_array(
        "the array ends in the middle: element " + std::to_string(element + 1) + " is not whole",
        "take another copy of the file, or leave the rest out: --skip-bad-lines");
  }
  return too_long("a record");
}

Result<std::size_t> DocumentReader::State::end_of_array() {
  drop(1);
  if (Status s = skip_blanks(); !s) return s.error();
  if (rest().empty()) return std::size_t{0};
  return bad_array("more text after the end of the array",
                   "a file is one array of records, or has one record a line");
}

Status DocumentReader::State::skip_blanks() {
  for (;;) {
    if (Status s = fill(1); !s) return s;
    const std::string_view text = rest();
    drop(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!rest().empty() || at_end) return {};
  }
}

void DocumentReader::State::drop(std::size_t length) {
  const std::string_view text = rest().substr(0, length);
  line += std::count(text.begin(), text.end(), '\n');
  given += length;
  offset += static_cast<std::int64_t>(length);
}

Piece DocumentReader::State::take(std::size_t length) {
  Piece piece;
  piece.text = rest().substr(0, length);
  piece.file = file;
  piece.offset = offset;
  piece.line = line;
  drop(length);
  return piece;
}

// None: a blank line.
std::optional<Piece> DocumentReader::State::give(std::size_t length) {
  Piece piece = take(length);
  if (!has_records()) {
    piece.line = 0;
    piece.ends_document = at_end && rest().empty();
    return piece;
  }
  piece.ends_document = true;
  if (in_array) piece.element = ++element;
  const bool blank = piece.text.find_first_not_of(" \t\r\n") == std::string::npos;
  return blank ? std::nullopt : std::optional(std::move(piece));
}

DocumentReader::DocumentReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DocumentReader::~DocumentReader() = default;
DocumentReader::DocumentReader(DocumentReader&&) noexcept = default;
DocumentReader& DocumentReader::operator=(DocumentReader&&) noexcept = default;

Result<DocumentReader> DocumentReader::open(DocumentOptions options, SafeCut cut) {
  if (options.files.empty()) {
    return bad_file(Code::kValidation, "no files", "name files of text");
  }
  auto state = std::make_unique<State>(std::move(options), std::move(cut));
  for (const std::string& path : state->options.files) {
    const auto look = look_at(path);
    if (!look) return look.error();
    if (Status s = check_name(path, state->has_records()); !s) return s.error();
    if (Status s = check_content(path, look->size); !s) return s.error();
    state->looks.push_back(*look);
  }
  return DocumentReader(std::move(state));
}

std::int64_t DocumentReader::bytes_read() const {
  return state_->bytes_done + (state_->source ? state_->source->position() : 0);
}

Result<std::optional<Piece>> DocumentReader::next() {
  State& s = *state_;
  while (s.file < s.options.files.size()) {
    if (!s.source) {
      if (Status opened = s.open_file(); !opened) return opened.error();
    }
    const auto length = s.in_array        ? s.element_length()
                        : s.has_records() ? s.line_length()
                                          : s.piece_length();
    if (!length) return length.error();
    if (*length > 0) {
      if (auto piece = s.give(*length)) return piece;
      continue;
    }
    if (Status same = s.check_unchanged(); !same) return same.error();
    s.bytes_done += s.source->position();
    s.source.reset();
    ++s.file;
  }
  return std::optional<Piece>();
}

std::string place_of(const Piece& piece, const std::vector<std::string>& files, std::size_t at) {
  const std::string& path = files.at(piece.file);
  const std::string line = std::to_string(piece.line);
  if (piece.element > 0) {
    return path + ", element " + std::to_string(piece.element) + " (line " + line + "): ";
  }
  if (piece.line > 0) return path + ":" + line + ": ";
  return path + ", byte " + std::to_string(piece.offset + static_cast<std::int64_t>(at)) + ": ";
}

}  // namespace shoal::corpus
