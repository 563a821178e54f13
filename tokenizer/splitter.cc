// See splitter.h.
#include "tokenizer/splitter.h"

#include <algorithm>

#include <unicode/uchar.h>

#include "tokenizer/utf8.h"

namespace shoal::tokenizer {

// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners": encoder.py.
const std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

bool is_letter_at(std::string_view text, std::size_t at) {
  if (at >= text.size() || !sequence_at(text, at).valid) return false;
  const auto c = static_cast<UChar32>(code_point_at(text, at));
  return u_isalpha(c) && u_getCombiningClass(c) == 0;
}

// Where the character that ends at `end` begins; npos: there is none.
std::size_t character_before(std::string_view text, std::size_t end) {
  for (std::size_t at = end; at > 0 && end - at < 4;) {
    if (!begins_character(text[--at])) continue;
    const Utf8Sequence one = sequence_at(text, at);
    return one.valid && at + one.length == end ? at : std::string_view::npos;
  }
  return std::string_view::npos;
}

bool splits_before(std::string_view text, std::size_t at) {
  const bool behind_line = text[at - 1] == '\n';
  if (!behind_line && text[at] != ' ') return false;
  const std::size_t before = character_before(text, behind_line ? at - 1 : at);
  if (before == std::string_view::npos) return false;
  if (!behind_line) {
    return is_letter_at(text, before) && is_letter_at(text, at + 1);
  }
  return !u_isUWhiteSpace(static_cast<UChar32>(code_point_at(text, before))) &&
         is_letter_at(text, at);
}

}  // namespace

std::size_t cut_between_words(std::string_view text, std::size_t most) {
  for (std::size_t at = std::min(most, text.size()); at > 0; --at) {
    if (at < text.size() && splits_before(text, at)) return at;
  }
  return 0;
}

Splitter::Splitter(const std::vector<SplitStep>& steps) : steps_(steps), work_(steps.size()) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (const auto* split = std::get_if<Split>(&steps[i])) {
      work_[i].matcher.emplace_back(split->pattern);
    }
  }
}

Status Splitter::split(std::string_view piece, bool begins_text, const Sink& sink) {
  sink_ = &sink;
  return run(0, piece, begins_text);
}

Status Splitter::run(std::size_t step, std::string_view piece, bool begins_text) {
  if (piece.empty()) return {};
  if (step == steps_.size()) return (*sink_)(piece), Status();
  if (const auto* split = std::get_if<Split>(&steps_[step])) {
    return run_split(step, *split, piece, begins_text);
  }
  if (const auto* metaspace = std::get_if<Metaspace>(&steps_[step])) {
    return run_metaspace(step, *metaspace, piece, begins_text);
  }
  if (piece.front() == ' ') return run(step + 1, piece, begins_text);
  std::string& text = work_[step].text;
  text.assign(" ").append(piece);
  return run(step + 1, text, begins_text);
}

namespace {

// The pieces in which `parts` are left, by the behavior; parts that go away are marked by begin =
// end.
template <typename Part>
void merge_parts(SplitBehavior behavior, std::vector<Part>& parts) {
  std::vector<Part> merged;
  bool previous = false;
  const auto joins = [&](bool is_match) {
    if (behavior == SplitBehavior::kContiguous) return is_match == previous;
    return is_match && !previous;
  };
  if (behavior == SplitBehavior::kMergedWithNext) std::reverse(parts.begin(), parts.end());
  for (const Part& part : parts) {
    if (joins(part.is_match) && !merged.empty()) {
      Part& last = merged.back();
      last = {std::min(last.begin, part.begin), std::max(last.end, part.end), false};
    } else {
      merged.push_back(part);
    }
    previous = part.is_match;
  }
  if (behavior == SplitBehavior::kMergedWithNext) std::reverse(merged.begin(), merged.end());
  parts.swap(merged);
}

}  // namespace

Status Splitter::run_split(std::size_t step, const Split& split, std::string_view piece,
                           bool begins_text) {
  Work& work = work_[step];
  Matcher& matcher = work.matcher.front();
  const auto pass_on = [&](const Part& part) {
    return run(step + 1, piece.substr(part.begin, part.end - part.begin),
               begins_text && part.begin == 0);
  };
  const bool isolated = split.behavior == SplitBehavior::kIsolated;
  work.parts.clear();
  // Isolated pieces are passed on as they are found: nothing of a long text is kept.
  const auto found = [&](const Part& part) {
    if (isolated) return pass_on(part);
    work.parts.push_back(part);
    return Status();
  };
  std::size_t told = 0;
  matcher.start(piece);
  for (Match match; matcher.next(match); told = match.end) {
    if (match.begin > told) {
      if (Status s = found({told, match.begin, split.invert}); !s) return s;
    }
    if (Status s = found({match.begin, match.end, !split.invert}); !s) return s;
  }
  if (Status s = matcher.verdict(); !s) return s;
  if (told < piece.size()) {
    if (Status s = found({told, piece.size(), split.invert}); !s) return s;
  }
  if (isolated) return {};
  if (split.behavior == SplitBehavior::kRemoved) {
    std::erase_if(work.parts, [](const Part& part) { return part.is_match; });
  } else {
    merge_parts(split.behavior, work.parts);
  }
  for (const Part& part : work.parts) {
    if (Status s = pass_on(part); !s) return s;
  }
  return {};
}

Status Splitter::run_metaspace(std::size_t step, const Metaspace& metaspace, std::string_view piece,
                               bool begins_text) {
  std::string& text = work_[step].text;
  const std::string& mark = metaspace.replacement;
  const bool prepends = metaspace.scheme == PrependScheme::kAlways ||
                        (metaspace.scheme == PrependScheme::kFirst && begins_text);
  text.clear();
  if (prepends && piece.front() != ' ' && !piece.starts_with(mark)) text = mark;
  for (const char byte : piece) byte == ' ' ? text += mark : text += byte;
  return run(step + 1, text, begins_text);
}

}  // namespace shoal::tokenizer
