// See prepare.h.
#include "tokenizer/corpus/prepare.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <nlohmann/json.hpp>

#include "tokenizer/corpus/ordered_workers.h"
#include "tokenizer/corpus/record_text.h"
#include "tokenizer/utf8.h"

namespace shoal::corpus {
namespace {

using tokenizer::TokenId;

constexpr std::int64_t kUint16Vocabulary = 65'536;
constexpr std::size_t kInFlightPerThread = 3;  // batches

// Pieces of about kPieceBytes together: lines are short.
using Batch = std::vector<Piece>;

struct Encoded {
  std::vector<std::byte> tokens;
  std::int64_t documents = 0, text_bytes = 0;
  Skipped skipped;
  std::optional<Error> failure;
};

static_assert(std::endian::native == std::endian::little, "tokens are written as they are");

class BatchEncoder {
 public:
  BatchEncoder(const PrepareOptions& options, const tokenizer::TextTokenizer& tokenizer,
               TokenId end_of_text, std::size_t token_bytes)
      : options_(options),
        field_(options.documents.field),
        encoder_(tokenizer.encoder()),
        end_of_text_(end_of_text),
        token_bytes_(token_bytes) {}

  Encoded encode(const Batch& batch) {
    Encoded out;
    ids_.clear();
    for (const Piece& piece : batch) {
      const std::int64_t skipped = out.skipped.records;
      if (Status s = encode_piece(piece, out); !s) return out.failure = s.error(), out;
      if (!piece.ends_document || out.skipped.records > skipped) continue;
      ids_.push_back(end_of_text_);
      ++out.documents;
    }
    pack(out.tokens);
    return out;
  }

 private:
  Status encode_piece(const Piece& piece, Encoded& out) {
    const auto placed = [&](Error error, std::size_t at) {
      error.message = place_of(piece, options_.documents.files, at) + error.message;
      if (error.field.empty()) error.field = "FILES";
      return error;
    };
    if (piece.line > 0) {
      const auto text = field_.text_of(piece.text);
      if (!text && options_.documents.skip_bad) {
        return out.skipped.add({1, placed(text.error(), 0).message}), Status();
      }
      if (!text) return placed(text.error(), 0);
      out.text_bytes += static_cast<std::int64_t>(text->size());
      const Status done = encoder_->encode(*text, ids_);
      return done ? done : Status(placed(done.error(), 0));
    }
    out.text_bytes += static_cast<std::int64_t>(piece.text.size());
    const auto invalid = tokenizer::find_invalid_utf8(piece.text);
    if (invalid != std::string_view::npos) {
      return placed({Code::kValidation, "the text is not UTF-8", "",
                     "convert it to UTF-8, for example with iconv"},
                    invalid);
    }
    const Status done = encoder_->encode(piece.text, ids_);
    return done ? done : Status(placed(done.error(), 0));
  }

  void pack(std::vector<std::byte>& out) const {
    out.resize(ids_.size() * token_bytes_);
    if (token_bytes_ == sizeof(TokenId)) {
      std::memcpy(out.data(), ids_.data(), out.size());
      return;
    }
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const auto narrow = static_cast<std::uint16_t>(ids_[i]);
      std::memcpy(out.data() + 2 * i, &narrow, sizeof narrow);
    }
  }

  const PrepareOptions& options_;
  FieldPath field_;
  std::unique_ptr<tokenizer::Encoder> encoder_;
  TokenId end_of_text_;
  std::size_t token_bytes_;
  std::vector<TokenId> ids_;
};

Result<TokenId> end_of_text(const PrepareOptions& options,
                            const tokenizer::TextTokenizer& tokenizer) {
  const auto id =
      options.end_of_text.empty() ? tokenizer.end_of_text() : tokenizer.id_of(options.end_of_text);
  if (id) return *id;
  if (!options.end_of_text.empty()) {
    return Error{Code::kValidation, "the tokenizer has no token '" + options.end_of_text + "'",
                 "--end-of-text", "name one of its tokens (`shoal tokenizer info`)"};
  }
  return Error{Code::kValidation, "the tokenizer names no token for the end of a text",
               "--end-of-text", "name one of its tokens, for example --end-of-text '</s>'"};
}

// None at the end.
Result<Batch> next_batch(DocumentReader& reader) {
  Batch batch;
  for (std::size_t bytes = 0; bytes < kPieceBytes;) {
    auto piece = reader.next();
    if (!piece) return piece.error();
    if (!*piece) break;
    bytes += (*piece)->text.size();
    batch.push_back(std::move(**piece));
  }
  return batch;
}

std::string description(const Prepared& done, const TokenizerFile& file, TokenId end_of_text) {
  nlohmann::ordered_json shards = nlohmann::ordered_json::array();
  for (const Shard& shard : done.shards) {
    shards.push_back({{"file", shard.file}, {"tokens", shard.tokens}, {"sha256", shard.sha256}});
  }
  nlohmann::ordered_json json = {
      {"format", 1},
      {"tokens", done.token_bytes == 2 ? "uint16" : "uint32"},
      {"vocabulary", file.tokenizer.vocabulary()},
      {"end_of_text", end_of_text},
      {"documents", done.documents},
      {"token_count", done.tokens},
      {"tokenizer", {{"file", file.name}, {"sha256", sha256_of(file.content)}}},
      {"shards", shards}};
  if (done.skipped.records > 0) json["skipped"] = done.skipped.records;
  return json.dump(2) + "\n";
}

Status encode_all(const PrepareOptions& options, const TokenizerFile& file, TokenId end,
                  DocumentReader& reader, ShardWriter& writer, Prepared& done,
                  const std::function<void(std::int64_t)>& progress) {
  std::vector<BatchEncoder> encoders;
  for (int i = 0; i < options.threads; ++i) {
    encoders.emplace_back(options, file.tokenizer, end, static_cast<std::size_t>(done.token_bytes));
  }
  OrderedWorkers<Batch, Encoded> workers(options.threads, [&](int worker, const Batch& batch) {
    return encoders[static_cast<std::size_t>(worker)].encode(batch);
  });
  const auto write_oldest = [&]() -> Status {
    const Encoded encoded = workers.pop();
    if (encoded.failure) return *encoded.failure;
    done.documents += encoded.documents;
    done.text_bytes += encoded.text_bytes;
    done.tokens += static_cast<std::int64_t>(encoded.tokens.size()) / done.token_bytes;
    done.skipped.add(encoded.skipped);
    if (progress) progress(reader.bytes_read());
    return writer.write(encoded.tokens);
  };
  const std::size_t most = kInFlightPerThread * static_cast<std::size_t>(options.threads);
  for (;;) {
    auto batch = next_batch(reader);
    if (!batch) return batch.error();
    if (batch->empty()) break;
    workers.push(std::move(*batch));
    if (workers.in_flight() < most) continue;
    if (Status s = write_oldest(); !s) return s;
  }
  while (workers.in_flight() > 0) {
    if (Status s = write_oldest(); !s) return s;
  }
  return {};
}

Error no_document(const Skipped& skipped) {
  const std::string skipped_text = skipped.records > 0
                                       ? ": all " + std::to_string(skipped.records) +
                                             " records were left out; the first: " + skipped.first
                                       : "";
  return {Code::kValidation, "the files hold no document" + skipped_text, "FILES",
          "name files with text, and the field that holds it"};
}

}  // namespace

Result<Prepared> prepare(const PrepareOptions& options, const TokenizerFile& file,
                         const std::function<void(std::int64_t)>& progress) {
  const auto end = end_of_text(options, file.tokenizer);
  if (!end) return end.error();
  Prepared done;
  done.token_bytes = file.tokenizer.vocabulary() <= kUint16Vocabulary ? 2 : 4;
  auto reader = DocumentReader::open(
      options.documents,
      [&](std::string_view text, std::size_t most) { return file.tokenizer.safe_cut(text, most); });
  if (!reader) return reader.error();
  const std::int64_t shard_bytes = std::max<std::int64_t>(options.shard_bytes / 4 * 4, 4);
  auto writer =
      ShardWriter::create(options.output, static_cast<std::size_t>(done.token_bytes), shard_bytes);
  if (!writer) return writer.error();
  if (Status s = encode_all(options, file, *end, *reader, *writer, done, progress); !s) {
    return s.error();
  }
  if (done.documents == 0) return no_document(done.skipped);
  auto shards = writer->finish_shards();
  if (!shards) return shards.error();
  done.shards = std::move(*shards);
  if (Status s = writer->write_file(file.name, file.content); !s) return s.error();
  if (Status s = writer->finish(description(done, file, *end)); !s) return s.error();
  return done;
}

}  // namespace shoal::corpus
