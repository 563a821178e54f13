// See documents.h.
#include "tokenizer/corpus/documents.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer/utf8.h"

namespace shoal::corpus {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;

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
  if (look.size == 0) {
    return bad_file(Code::kValidation, path + " is empty", "leave it out");
  }
  return look;
}

}  // namespace

struct DocumentReader::State {
  DocumentOptions options;
  SafeCut cut;
  std::vector<Look> looks;
  std::size_t file = 0;  // the one that is read
  int fd = -1;
  std::string buffer;       // read, and not yet given
  std::int64_t offset = 0;  // of the buffer in the file
  std::int64_t line = 0;
  bool at_end = false;

  ~State() { close(); }
  void close() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
  const std::string& path() const { return options.files[file]; }

  Status open_file();
  Status check_unchanged() const;
  Status fill(std::size_t wanted);
  void drop_half();
  Result<std::size_t> piece_length();
  Result<std::size_t> line_length();
  Piece take(std::size_t length);
  Error too_long(const char* what) const;
};

Status DocumentReader::State::open_file() {
  fd = ::open(path().c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return bad_file(Code::kNotFound, path() + " cannot be read: " + std::strerror(errno),
                    "name files that are there");
  }
  buffer.clear();
  offset = line = 0;
  at_end = false;
  return check_unchanged();
}

Status DocumentReader::State::check_unchanged() const {
  struct stat info {};
  if (::fstat(fd, &info) == 0 && look_of(info) == looks[file]) return {};
  return bad_file(Code::kValidation, path() + " was changed while it was read",
                  "try again when no program writes to it");
}

Status DocumentReader::State::fill(std::size_t wanted) {
  while (!at_end && buffer.size() < wanted) {
    const std::size_t before = buffer.size();
    const std::int64_t most = options.bytes_max;
    std::size_t room = kReadBytes;
    if (most > 0) {
      const std::int64_t left = most - offset - static_cast<std::int64_t>(before);
      room = std::min(room, static_cast<std::size_t>(std::max<std::int64_t>(left, 0)));
    }
    buffer.resize(before + room);
    const ssize_t got = room == 0 ? 0 : ::read(fd, buffer.data() + before, room);
    buffer.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR) {
      return bad_file(Code::kUnavailable, path() + " cannot be read: " + std::strerror(errno), "");
    }
    at_end = got == 0;
    if (at_end && room == 0) drop_half();
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
  if (const auto at = tokenizer::find_invalid_utf8(buffer); at != std::string_view::npos) {
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
    if (at_end && buffer.size() <= wanted) return buffer.size();
    if (const std::size_t safe = cut(buffer, wanted); safe > 0) return safe;
  }
  return too_long("a text that this tokenizer can only take whole,");
}

// With the line feed.
Result<std::size_t> DocumentReader::State::line_length() {
  std::size_t searched = 0;
  for (std::size_t wanted = kReadBytes; wanted <= kWholeBytesMax; wanted *= 2) {
    if (Status s = fill(wanted); !s) return s.error();
    const auto end = buffer.find('\n', searched);
    if (end != std::string::npos) return end + 1;
    if (at_end) return buffer.size();
    searched = buffer.size();
  }
  return too_long("a line");
}

Piece DocumentReader::State::take(std::size_t length) {
  Piece piece;
  piece.text = buffer.substr(0, length);
  piece.file = file;
  piece.offset = offset;
  buffer.erase(0, length);
  offset += static_cast<std::int64_t>(length);
  return piece;
}

DocumentReader::DocumentReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DocumentReader::~DocumentReader() = default;
DocumentReader::DocumentReader(DocumentReader&&) noexcept = default;
DocumentReader& DocumentReader::operator=(DocumentReader&&) noexcept = default;

Result<DocumentReader> DocumentReader::open(DocumentOptions options, SafeCut cut) {
  if (options.files.empty()) {
    return bad_file(Code::kValidation, "no files", "name files of text");
  }
  auto state = std::make_unique<State>();
  for (const std::string& path : options.files) {
    const auto look = look_at(path);
    if (!look) return look.error();
    if (options.field.empty() && (path.ends_with(".jsonl") || path.ends_with(".ndjson"))) {
      return Error{Code::kValidation, path + " holds JSON lines", "--field",
                   "say which field of a line is the text, for example --field text"};
    }
    state->looks.push_back(*look);
  }
  state->options = std::move(options);
  state->cut = std::move(cut);
  return DocumentReader(std::move(state));
}

std::int64_t DocumentReader::bytes_total() const {
  std::int64_t total = 0;
  for (const Look& look : state_->looks) total += look.size;
  return total;
}

Result<std::optional<Piece>> DocumentReader::next() {
  State& s = *state_;
  const bool lines = !s.options.field.empty();
  while (s.file < s.options.files.size()) {
    if (s.fd < 0) {
      if (Status opened = s.open_file(); !opened) return opened.error();
    }
    const auto length = lines ? s.line_length() : s.piece_length();
    if (!length) return length.error();
    if (*length > 0) {
      Piece piece = s.take(*length);
      if (lines) piece.line = ++s.line;
      piece.ends_document = lines || (s.at_end && s.buffer.empty());
      const bool blank = lines && piece.text.find_first_not_of(" \t\r\n") == std::string::npos;
      if (!blank) return std::optional(std::move(piece));
      continue;
    }
    if (Status same = s.check_unchanged(); !same) return same.error();
    s.close();
    ++s.file;
  }
  return std::optional<Piece>();
}

Result<std::string> text_of_line(std::string_view line, const std::string& field) {
  try {
    const auto json = nlohmann::json::parse(line);
    if (json.is_object() && json.contains(field) && json.at(field).is_string()) {
      return json.at(field).get<std::string>();
    }
  } catch (const nlohmann::json::exception&) {
    return Error{Code::kValidation, "the line is not JSON", "FILES",
                 "every line must be one JSON object, in UTF-8"};
  }
  return Error{Code::kValidation, "the line has no string '" + field + "'", "--field",
               "name the field of a line that holds the text"};
}

std::string place_of(const Piece& piece, const std::vector<std::string>& files, std::size_t at) {
  const std::string& path = files.at(piece.file);
  if (piece.line > 0) return path + ":" + std::to_string(piece.line) + ": ";
  return path + ", byte " + std::to_string(piece.offset + static_cast<std::int64_t>(at)) + ": ";
}

}  // namespace shoal::corpus
