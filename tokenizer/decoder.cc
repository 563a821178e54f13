// See decoder.h.
#include "tokenizer/decoder.h"

#include <charconv>
#include <optional>

#include "base/text.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

using Tokens = std::vector<std::string>;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) return;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

std::optional<char> byte_named(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned byte = 0;
  const char* end = token.data() + 5;
  const auto [stop, failure] = std::from_chars(token.data() + 3, end, byte, 16);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(byte);
}

void decode(const DecodeByteLevel&, Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += bytes_of_characters(token).value_or(token);
  tokens = {with_replacements(bytes)};
}

// A run of bytes is a text, or as many U+FFFD.
void decode(const DecodeByteFallback&, Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto end_run = [&] {
    if (find_invalid_utf8(bytes) == std::string_view::npos) {
      if (!bytes.empty()) out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_named(token)) {
      bytes += *byte;
      continue;
    }
    end_run();
    out.push_back(std::move(token));
  }
  end_run();
  tokens = std::move(out);
}

void decode(const DecodeFuse&, Tokens& tokens) { tokens = {joined(tokens, "")}; }

// The blank that the first token got goes again.
void decode(const DecodeMetaspace& step, Tokens& tokens) {
  const bool drops_first = step.metaspace.scheme != PrependScheme::kNever;
  for (std::string& token : tokens) {
    const bool first = &token == &tokens.front();
    replace_all(token, step.metaspace.replacement, first && drops_first ? "" : " ");
  }
}

void decode(const DecodeReplace& step, Tokens& tokens) {
  for (std::string& token : tokens) replace_all(token, step.from, step.to);
}

void decode(const DecodeStrip& step, Tokens& tokens) {
  const std::size_t width = step.content.size();
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (std::size_t i = 0; i < step.start && rest.starts_with(step.content); ++i) {
      rest.remove_prefix(width);
    }
    for (std::size_t i = 0; i < step.stop && rest.ends_with(step.content); ++i) {
      rest.remove_suffix(width);
    }
    token = std::string(rest);
  }
}

}  // namespace

std::string decode_tokens(const std::vector<DecodeStep>& steps, Tokens tokens) {
  if (steps.empty()) return with_replacements(joined(tokens, " "));
  for (const DecodeStep& step : steps) {
    std::visit([&](const auto& one) { decode(one, tokens); }, step);
  }
  return with_replacements(joined(tokens, ""));
}

}  // namespace shoal::tokenizer
