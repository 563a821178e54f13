// See word_counts.h.
#include "tokenizer/corpus/word_counts.h"

#include <algorithm>

#include "tokenizer/corpus/ordered_workers.h"
#include "tokenizer/corpus/record_text.h"
#include "tokenizer/hugging_face.h"
#include "tokenizer/utf8.h"

namespace shoal::corpus {
namespace {

using tokenizer::WordCounts;

constexpr std::size_t kInFlightPerThread = 3;

struct Counted {
  WordCounts words;
  Skipped skipped;
  std::optional<Error> failure;
};

class WordCounter {
 public:
  explicit WordCounter(const DocumentOptions& documents)
      : documents_(documents), field_(documents.field), splitter_(tokenizer::trained_split()) {}

  Counted count(const Piece& piece) {
    Counted out;
    std::string text = piece.text;
    if (piece.line > 0) {
      auto inside = field_.text_of(piece.text);
      if (!inside && documents_.skip_bad) {
        out.skipped = {1, place_of(piece, documents_.files, 0) + inside.error().message};
        return out;
      }
      if (!inside) return fail(piece, inside.error(), 0, std::move(out));
      text = std::move(*inside);
    }
    if (const auto at = tokenizer::find_invalid_utf8(text); at != std::string_view::npos) {
      return fail(piece,
                  {Code::kValidation, "the text is not UTF-8", "",
                   "convert it to UTF-8, for example with iconv"},
                  at, std::move(out));
    }
    const Status split = splitter_.split(text, true, [&](std::string_view word) {
      word = word.substr(0, kWordBytesMax);
      const auto it = out.words.find(word);
      it == out.words.end() ? void(out.words.emplace(word, 1)) : void(++it->second);
    });
    if (!split) return fail(piece, split.error(), 0, std::move(out));
    return out;
  }

 private:
  Counted fail(const Piece& piece, Error error, std::size_t at, Counted out) const {
    error.message = place_of(piece, documents_.files, at) + error.message;
    out.failure = std::move(error);
    return out;
  }

  const DocumentOptions& documents_;
  FieldPath field_;
  tokenizer::Splitter splitter_;
};

Status merge(Counted counted, WordCounts& all) {
  if (counted.failure) return *counted.failure;
  for (auto& [word, count] : counted.words) all[word] += count;
  if (all.size() <= kWordsMax) return {};
  return Error{Code::kResourceExhausted,
               "the files have over " + std::to_string(kWordsMax) + " different words", "FILES",
               "train on fewer files, or on the beginning of each (--bytes)"};
}

}  // namespace

Result<WordCounts> count_words(const DocumentOptions& documents, int threads,
                               const std::function<void(std::int64_t)>& progress,
                               Skipped* skipped) {
  auto reader = DocumentReader::open(documents, tokenizer::cut_between_words);
  if (!reader) return reader.error();
  std::vector<WordCounter> counters;
  for (int i = 0; i < threads; ++i) counters.emplace_back(documents);
  OrderedWorkers<Piece, Counted> workers(threads, [&](int worker, const Piece& piece) {
    return counters[static_cast<std::size_t>(worker)].count(piece);
  });
  WordCounts all;
  const auto merge_oldest = [&]() -> Status {
    Counted counted = workers.pop();
    if (skipped != nullptr) skipped->add(counted.skipped);
    if (progress) progress(reader->bytes_read());
    return merge(std::move(counted), all);
  };
  const std::size_t most = kInFlightPerThread * static_cast<std::size_t>(threads);
  for (;;) {
    auto piece = reader->next();
    if (!piece) return piece.error();
    if (!*piece) break;
    workers.push(std::move(**piece));
    if (workers.in_flight() < most) continue;
    if (Status s = merge_oldest(); !s) return s.error();
  }
  while (workers.in_flight() > 0) {
    if (Status s = merge_oldest(); !s) return s.error();
  }
  return all;
}

}  // namespace shoal::corpus
