// See pattern.h.
#include "tokenizer/pattern.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

constexpr std::size_t kExpressionMax = 64 << 10;
constexpr std::uint32_t kMatchLimit = 50'000'000;  // PCRE2's count of steps in one match
constexpr std::size_t kJitStackMin = 32 << 10, kJitStackMax = 16 << 20;

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

Error refused(const std::string& what) {
  return {Code::kIncompatible, what, "",
          "use a tokenizer whose patterns both libraries read alike"};
}

// Rewrites Oniguruma's syntax (Ruby's) into PCRE2's.
class Translator {
 public:
  explicit Translator(std::string_view from) : from_(from) {}

  Result<std::string> translate() {
    while (at_ < from_.size() && !problem_) step();
    if (problem_) return *problem_;
    return std::move(to_);
  }

 private:
  char here() const { return from_[at_]; }
  bool follows(std::string_view text) const { return from_.substr(at_).starts_with(text); }
  void copy(std::size_t count) { to_ += from_.substr(at_, count), at_ += count; }
  void refuse(const std::string& what) { problem_ = refused(what); }
  void refuse_text(std::string_view text) {
    std::string what(text);
    what += " is not supported";
    refuse(what);
  }

  void step() {
    if (here() == '\\') return escape();
    if (in_class_) return class_member();
    if (here() == '^' || here() == '$') {
      return refuse_text(from_.substr(at_, 1));
    }
    if (here() == '(' && !is_known_group()) {
      return refuse_text(from_.substr(at_, 4));
    }
    if (follows("}+")) return refuse_text("a possessive {n,m}+");
    if (here() == '[') {
      in_class_ = true;
      return copy(follows("[^") ? 2 : 1);
    }
    copy(1);
  }

  bool is_known_group() const {
    if (follows("(*")) return false;
    if (!follows("(?")) return true;
    constexpr std::string_view kKnown[] = {"(?:",  "(?=",  "(?!",  "(?>",
                                           "(?<=", "(?<!", "(?i:", "(?-i:"};
    return std::any_of(std::begin(kKnown), std::end(kKnown),
                       [this](std::string_view group) { return follows(group); });
  }

  void class_member() {
    if (here() == '[') return refuse("a class inside a class is not supported");
    if (follows("&&")) return refuse("an intersection of classes (&&) is not supported");
    if (here() == ']') in_class_ = false;
    copy(1);
  }

  void escape() {
    if (at_ + 1 >= from_.size()) return refuse("it ends in a backslash");
    const char letter = from_[at_ + 1];
    const auto put = [&](const char* text) { to_ += text, at_ += 2; };
    switch (letter) {
      case 's':
        return put("\\p{White_Space}");
      case 'S':
        return put("\\P{White_Space}");
      case 'd':
        return put("\\p{Nd}");
      case 'D':
        return put("\\P{Nd}");
      case 'w':
        return put(in_class_ ? "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
                             : "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]");
      case 'p':
      case 'P':
        return property();
      case 'x':
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'v':
        if (letter == 'v') return put("\\x0b");
        return copy(2);
      default:
        break;
    }
    const bool letter_or_digit = (letter >= '0' && letter <= '9') ||
                                 (letter >= 'a' && letter <= 'z') ||
                                 (letter >= 'A' && letter <= 'Z');
    if (letter_or_digit) return refuse_text(from_.substr(at_, 2));
    copy(2);
  }

  // \p{L}, \p{Lu}, \p{^L} as they are; a longer name is that of a script.
  void property() {
    const std::size_t end = from_.find('}', at_);
    if (at_ + 2 >= from_.size() || from_[at_ + 2] != '{' || end == std::string_view::npos) {
      return copy(2);  // \pL
    }
    const std::string_view name = from_.substr(at_ + 3, end - at_ - 3);
    const std::size_t sign = name.starts_with('^') ? 1 : 0;
    if (name.size() - sign <= 2) return copy(end + 1 - at_);
    to_ += from_.substr(at_, 3 + sign);
    to_ += "sc:";
    to_ += name.substr(sign);
    to_ += "}";
    at_ = end + 1;
  }

  std::string_view from_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string to_;
  std::optional<Error> problem_;
};

Result<std::shared_ptr<const void>> compile_code(std::string_view expression,
                                                 std::uint32_t options) {
  if (expression.empty()) return refused("an empty pattern is not supported");
  if (expression.size() > kExpressionMax) {
    return refused("a pattern of " + std::to_string(expression.size()) + " bytes is too long");
  }
  if (find_invalid_utf8(expression) != std::string_view::npos) return refused("it is not UTF-8");
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int number = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(units(expression), expression.size(), PCRE2_UTF | options,
                                   &number, &offset, context.get());
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(number, text.data(), text.size());
    return refused(reinterpret_cast<const char*>(text.data()));
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching is slower, no more
  return std::shared_ptr<const void>(
      code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
}

}  // namespace

Result<Pattern> Pattern::compile(std::string_view expression) {
  const auto translated = Translator(expression).translate();
  if (!translated) return translated.error();
  auto code = compile_code(*translated, PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
  if (!code) return code.error();
  return Pattern(std::move(*code));
}

Result<Pattern> Pattern::literal(std::string_view text) {
  auto code = compile_code(text, PCRE2_LITERAL);
  if (!code) return code.error();
  return Pattern(std::move(*code));
}

struct Matcher::State {
  explicit State(std::shared_ptr<const void> compiled)
      : owner(std::move(compiled)),
        code(static_cast<const pcre2_code*>(owner.get())),
        data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kJitStackMin, kJitStackMax, nullptr)) {
    SHOAL_CHECK(data != nullptr && context != nullptr, "out of memory");
    pcre2_set_match_limit(context, kMatchLimit);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  State(const State&) = delete;

  std::shared_ptr<const void> owner;
  const pcre2_code* code;
  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
  std::string_view text;
  std::size_t at = 0;
  std::optional<std::size_t> last_end;
  int failure = 0;
};

Matcher::Matcher(const Pattern& pattern) : state_(std::make_unique<State>(pattern.code_)) {}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;

void Matcher::start(std::string_view text) {
  state_->text = text;
  state_->at = 0;
  state_->last_end.reset();
  state_->failure = 0;
}

bool Matcher::find_from(std::size_t at, Match& match) {
  State& s = *state_;
  const int found =
      pcre2_match(s.code, units(s.text), s.text.size(), at, PCRE2_NO_UTF_CHECK, s.data, s.context);
  if (found < 0) {
    if (found != PCRE2_ERROR_NOMATCH) s.failure = found;
    return false;
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(s.data);
  match = {bounds[0], bounds[1]};
  return true;
}

bool Matcher::next(Match& match) {
  State& s = *state_;
  while (s.at <= s.text.size()) {
    if (!find_from(s.at, match)) return false;
    const bool empty_after_last = match.begin == match.end && s.last_end == match.end;
    if (!empty_after_last) {
      s.at = match.end;
      s.last_end = match.end;
      return true;
    }
    s.at += s.at < s.text.size() ? sequence_at(s.text, s.at).length : 1;
  }
  return false;
}

Status Matcher::verdict() const {
  if (state_->failure == 0) return {};
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(state_->failure, text.data(), text.size());
  return Error{Code::kResourceExhausted,
               std::string("a pattern of the tokenizer gave up on the text: ") +
                   reinterpret_cast<const char*>(text.data()),
               "", "give the text in shorter pieces, or use another tokenizer"};
}

}  // namespace shoal::tokenizer
