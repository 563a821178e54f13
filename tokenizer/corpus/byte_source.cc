// See byte_source.h.
#include "tokenizer/corpus/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

namespace shoal::corpus {

// Takes a stream piece by piece.
class Decompressor {
 public:
  struct Step {
    std::size_t consumed = 0, produced = 0;
    std::string failure;  // empty: none
  };

  virtual ~Decompressor() = default;
  virtual const char* name() const = 0;
  // Neither consumes nor produces only if it needs more input.
  virtual Step step(std::string_view in, char* out, std::size_t room) = 0;
  // Whether the input may end here.
  virtual bool is_complete() const = 0;
};

namespace {

constexpr std::size_t kReadBytes = 256 << 10;
constexpr const char* kNotThere = "name files that are there";

class Gzip final : public Decompressor {
 public:
  // 16: with the header of gzip.
  Gzip() { SHOAL_CHECK(inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK, "memory for zlib"); }
  ~Gzip() override { inflateEnd(&stream_); }

  const char* name() const override { return "gzip"; }
  bool is_complete() const override { return ended_; }
  Step step(std::string_view in, char* out, std::size_t room) override {
    if (ended_) {
      if (in.empty()) return {};
      // Tapes pad with zeros, which gzip ignores, too.
      const std::size_t zeros = std::min(in.find_first_not_of('\0'), in.size());
      if (zeros > 0) return {zeros, 0, ""};
      if (in.front() != '\x1f') return {0, 0, "other bytes follow the compressed text"};
      inflateReset(&stream_);
      ended_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    ended_ = result == Z_STREAM_END;
    Step step{in.size() - stream_.avail_in, room - stream_.avail_out, ""};
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      step.failure = stream_.msg != nullptr ? stream_.msg : "zlib cannot read it";
    }
    return step;
  }

 private:
  z_stream stream_{};
  bool ended_ = false;
};

class Zstd final : public Decompressor {
 public:
  Zstd() : stream_(ZSTD_createDStream()) { SHOAL_CHECK(stream_ != nullptr, "memory for zstd"); }
  ~Zstd() override { ZSTD_freeDStream(stream_); }

  const char* name() const override { return "zstd"; }
  bool is_complete() const override { return complete_; }
  Step step(std::string_view in, char* out, std::size_t room) override {
    if (complete_ && in.empty()) return {};
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out, room, 0};
    const std::size_t result = ZSTD_decompressStream(stream_, &output, &input);
    if (ZSTD_isError(result) != 0) return {0, 0, ZSTD_getErrorName(result)};
    complete_ = result == 0;
    return {input.pos, output.pos, ""};
  }

 private:
  ZSTD_DStream* stream_;
  bool complete_ = false;
};

std::unique_ptr<Decompressor> decompressor_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return std::make_unique<Gzip>();
  const bool skippable = head.size() >= 4 && head.substr(1, 3) == "\x2a\x4d\x18" &&
                         (static_cast<unsigned char>(head[0]) & 0xF0) == 0x50;
  if (head.starts_with("\x28\xb5\x2f\xfd") || skippable) return std::make_unique<Zstd>();
  return nullptr;
}

struct Format {
  std::string_view magic;
  std::size_t at;
  const char* what;
  const char* remedy;
};

using namespace std::string_view_literals;
constexpr const char* kConvert =
    "make JSON lines of it: python3 -m shoal.convert FILE -o FILE.jsonl";
constexpr Format kFormats[] = {
    {"ARROW1\0\0"sv, 0, "is an Arrow file", kConvert},
    {"\xFD"
     "7zXZ\0"sv,
     0, "is compressed with xz", "unpack it: xz -d"},
    {"1AY&SY"sv, 4, "is compressed with bzip2", "unpack it: bzip2 -d"},
    {"\x04\x22\x4D\x18"sv, 0, "is compressed with lz4", "unpack it: lz4 -d"},
    {"PK\x03\x04"sv, 0, "is a zip archive", "unpack it, and name the files in it"},
    {"ustar"sv, 257, "is a tar archive", "unpack it, and name the files in it"},
    {"SQLite format 3\0"sv, 0, "is an SQLite database", "export its texts as JSON lines"},
    {"%PDF-"sv, 0, "is a PDF", "make text of it: pdftotext"},
    {"\xFF\xFE\0\0"sv, 0, "is UTF-32, not UTF-8", "convert it: iconv -f UTF-32 -t UTF-8"},
    {"\xFF\xFE"sv, 0, "is UTF-16, not UTF-8", "convert it: iconv -f UTF-16 -t UTF-8"},
    {"\xFE\xFF"sv, 0, "is UTF-16, not UTF-8", "convert it: iconv -f UTF-16 -t UTF-8"},
};

// A text may begin with these letters, but does not go on or end so.
bool is_parquet(std::string_view head, std::string_view tail) {
  if (!head.starts_with("PAR1")) return false;
  const bool binary = head.size() > 4 && static_cast<unsigned char>(head[4]) < ' ' &&
                      head[4] != '\n' && head[4] != '\r' && head[4] != '\t';
  return binary || tail.ends_with("PAR1");
}

}  // namespace

std::optional<Error> other_format(std::string_view head, std::string_view tail) {
  if (is_parquet(head, tail)) {
    return Error{Code::kValidation, "is a Parquet file", "FILES", kConvert};
  }
  for (const auto& [magic, at, what, remedy] : kFormats) {
    if (head.size() < at || !head.substr(at).starts_with(magic)) continue;
    return Error{Code::kValidation, what, "FILES", remedy};
  }
  return std::nullopt;
}

Result<ByteSource> ByteSource::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Error{Code::kNotFound, path + " cannot be read: " + std::strerror(errno), "FILES",
                 kNotThere};
  }
  ByteSource source(path, fd);
  if (Status s = source.refill(); !s) return s.error();
  source.decompressor_ = decompressor_of(source.input_);
  return source;
}

ByteSource::ByteSource(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

ByteSource::ByteSource(ByteSource&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      position_(other.position_),
      file_ended_(other.file_ended_),
      input_(std::move(other.input_)),
      used_(other.used_),
      decompressor_(std::move(other.decompressor_)) {}

ByteSource::~ByteSource() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::size_t> ByteSource::read_file(char* out, std::size_t room) {
  for (;;) {
    const ssize_t got = ::read(fd_, out, room);
    if (got >= 0) {
      position_ += got;
      file_ended_ = got == 0;
      return static_cast<std::size_t>(got);
    }
    if (errno == EINTR) continue;
    return Error{Code::kUnavailable, path_ + " cannot be read: " + std::strerror(errno), "FILES",
                 ""};
  }
}

Status ByteSource::refill() {
  if (used_ < input_.size() || file_ended_) return {};
  input_.resize(kReadBytes);
  const auto got = read_file(input_.data(), input_.size());
  input_.resize(got ? *got : 0);
  used_ = 0;
  return got ? Status() : Status(got.error());
}

Error ByteSource::damaged(const std::string& what) const {
  return {Code::kDataLoss, path_ + " " + what, "FILES", "take another copy of the file"};
}

Result<std::size_t> ByteSource::read(char* out, std::size_t room) {
  for (;;) {
    const std::string_view rest = std::string_view(input_).substr(used_);
    if (!decompressor_) {
      if (rest.empty()) return file_ended_ ? Result<std::size_t>(0) : read_file(out, room);
      const std::size_t some = std::min(room, rest.size());
      std::memcpy(out, rest.data(), some);
      used_ += some;
      return some;
    }
    if (Status s = refill(); !s) return s.error();
    const std::string_view in = std::string_view(input_).substr(used_);
    const auto step = decompressor_->step(in, out, room);
    if (!step.failure.empty()) {
      return damaged("is damaged (" + std::string(decompressor_->name()) + ": " + step.failure +
                     ")");
    }
    used_ += step.consumed;
    if (step.produced > 0) return step.produced;
    if (step.consumed > 0) continue;
    if (in.empty() && decompressor_->is_complete()) return std::size_t{0};
    return damaged("is truncated: its " + std::string(decompressor_->name()) +
                   " data ends in the middle");
  }
}

}  // namespace shoal::corpus
