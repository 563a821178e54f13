#include "coordinator/core/decisions/sent_norms.h"

#include <algorithm>
#include <cmath>

#include "outer_opt/core/codec/norm_bound.h"

namespace shoal::coordinator {
namespace {

struct Word {
  ReplicaId of;
  double squares = 0;
};

// What the others say that member `i` sent them.
std::vector<Word> words_about(const SentNormsInput& input, std::size_t i) {
  std::vector<Word> words;
  for (std::size_t k = 0; k < input.members.size(); ++k) {
    const Sender& witness = input.members[k];
    if (k == i || witness.squares.size() != input.members.size()) continue;
    words.push_back({witness.replica, witness.squares[i]});
  }
  return words;
}

const Word& loudest(const std::vector<Word>& words) {
  return *std::ranges::max_element(words, {}, &Word::squares);
}

enum class Belief { kSound, kLied, kOneWord };

Belief of_parts(const SentNormsInput& input, ReplicaId member, const std::vector<Word>& words,
                double limit, double& sum) {
  for (const Word& word : words) sum += word.squares;
  if (sum <= limit) return Belief::kSound;
  // Summed again, because subtracting the largest term from the sum would lose precision.
  double without = 0;
  for (const Word& word : words) {
    if (&word != &loudest(words)) without += word.squares;
  }
  const bool again = std::ranges::any_of(input.accusations, [&](const auto& before) {
    return before.member == member && before.owner != loudest(words).of;
  });
  return without > limit || again ? Belief::kLied : Belief::kOneWord;
}

Belief of_wholes(const std::vector<Word>& words, double limit, double& sum) {
  const auto above =
      std::ranges::count_if(words, [&](const Word& word) { return word.squares > limit; });
  sum = loudest(words).squares;
  if (above >= 2 && 2 * above > std::ssize(words)) return Belief::kLied;
  return above == 1 && words.size() == 1 ? Belief::kOneWord : Belief::kSound;
}

}  // namespace

SentNorms judge_sent_norms(const SentNormsInput& input) {
  SentNorms found;
  for (std::size_t i = 0; i < input.members.size(); ++i) {
    const Sender& member = input.members[i];
    const std::vector<Word> words = words_about(input, i);
    if (!member.contributes || words.empty()) continue;
    const double limit = outer_opt::squares_at_most(input.codec, member.norm, input.value_count);
    double sum = 0;
    const Belief belief = input.all_see_all ? of_wholes(words, limit, sum)
                                            : of_parts(input, member.replica, words, limit, sum);
    if (belief == Belief::kLied) {
      found.lied.push_back({member.replica, member.norm, std::sqrt(sum)});
    } else if (belief == Belief::kOneWord) {
      found.alone.push_back({loudest(words).of, member.replica});
    }
  }
  return found;
}

}  // namespace shoal::coordinator
