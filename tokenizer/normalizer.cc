// See normalizer.h.
#include "tokenizer/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include "base/check.h"

namespace shoal::tokenizer {
namespace {

const icu::Normalizer2& unicode_normalizer(UnicodeForm form) {
  UErrorCode failure = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = nullptr;
  switch (form) {
    case UnicodeForm::kNfc:
      normalizer = icu::Normalizer2::getNFCInstance(failure);
      break;
    case UnicodeForm::kNfd:
      normalizer = icu::Normalizer2::getNFDInstance(failure);
      break;
    case UnicodeForm::kNfkc:
      normalizer = icu::Normalizer2::getNFKCInstance(failure);
      break;
    case UnicodeForm::kNfkd:
      normalizer = icu::Normalizer2::getNFKDInstance(failure);
      break;
  }
  SHOAL_CHECK(U_SUCCESS(failure) && normalizer != nullptr, "ICU has no normalizer");
  return *normalizer;
}

// The library's normal forms are those of Unicode 9: it leaves later characters as they are.
class Unicode9 {
 public:
  Unicode9() {
    UErrorCode failure = U_ZERO_ERROR;
    set_.applyPattern(icu::UnicodeString("[:age=9.0:]"), failure);
    SHOAL_CHECK(U_SUCCESS(failure), "ICU knows no ages");
    set_.freeze();
  }
  const icu::UnicodeSet& set() const { return set_; }

 private:
  icu::UnicodeSet set_;
};

const icu::Normalizer2& library_normalizer(UnicodeForm form) {
  static const Unicode9 kOld;
  static const icu::FilteredNormalizer2 kNfc(unicode_normalizer(UnicodeForm::kNfc), kOld.set());
  static const icu::FilteredNormalizer2 kNfd(unicode_normalizer(UnicodeForm::kNfd), kOld.set());
  static const icu::FilteredNormalizer2 kNfkc(unicode_normalizer(UnicodeForm::kNfkc), kOld.set());
  static const icu::FilteredNormalizer2 kNfkd(unicode_normalizer(UnicodeForm::kNfkd), kOld.set());
  const icu::FilteredNormalizer2* const all[] = {&kNfc, &kNfd, &kNfkc, &kNfkd};
  return *all[static_cast<std::size_t>(form)];
}

icu::StringPiece piece_of(std::string_view text) {
  return {text.data(), static_cast<std::int32_t>(text.size())};
}

constexpr std::size_t kIcuMost = std::size_t{1} << 30;  // its lengths are signed 32-bit numbers

Status normalize(UnicodeForm form, std::string_view text, std::string& out, bool& changed) {
  if (text.size() > kIcuMost) {
    return Error{Code::kResourceExhausted, "a text of over 1 GiB cannot be normalized", "",
                 "give it in shorter pieces"};
  }
  const icu::Normalizer2& normalizer = library_normalizer(form);
  UErrorCode failure = U_ZERO_ERROR;
  changed = normalizer.isNormalizedUTF8(piece_of(text), failure) == 0;
  if (changed) {
    out.clear();
    icu::StringByteSink<std::string> sink(&out);
    normalizer.normalizeUTF8(0, piece_of(text), sink, nullptr, failure);
  }
  SHOAL_CHECK(U_SUCCESS(failure), "ICU refused valid UTF-8");
  return {};
}

Status replace_all(Matcher& matcher, const std::string& content, std::string_view text,
                   std::string& out) {
  out.clear();
  std::size_t copied = 0;
  matcher.start(text);
  for (Match match; matcher.next(match); copied = match.end) {
    out += text.substr(copied, match.begin - copied);
    out += content;
  }
  out += text.substr(copied);
  return matcher.verdict();
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) : steps_(steps) {
  for (const NormalizerStep& step : steps) {
    if (const auto* replace = std::get_if<Replace>(&step)) matchers_.emplace_back(replace->pattern);
  }
}

Result<std::string_view> Normalizer::apply(std::string_view text) {
  std::size_t replaced = 0;
  for (const NormalizerStep& step : steps_) {
    bool changed = true;
    if (const auto* form = std::get_if<UnicodeForm>(&step)) {
      if (Status s = normalize(*form, text, next_, changed); !s) return s.error();
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      changed = !text.empty();
      if (changed) next_.assign(prepend->text).append(text);
    } else {
      const auto& replace = std::get<Replace>(step);
      Matcher& matcher = matchers_[replaced++];
      if (Status s = replace_all(matcher, replace.content, text, next_); !s) return s.error();
    }
    if (!changed) continue;
    current_.swap(next_);
    text = current_;
  }
  return text;
}

}  // namespace shoal::tokenizer
