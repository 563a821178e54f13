#include "coordinator/core/decisions/sent_norms.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/step/vector_statistics.h"

namespace shoal::coordinator {
namespace {

using outer_opt::Accusation;

ReplicaId id(std::size_t i) { return ReplicaId(10 + i); }

// Members of norm 1 that each sent the same to every owner; all own a part as large as the others'.
SentNormsInput honest(std::size_t members) {
  SentNormsInput input{CodecKind::kFp32, 1000, false, {}, {}};
  for (std::size_t i = 0; i < members; ++i) {
    Sender sender{id(i), 1, true, std::vector<double>(members, 1.0 / static_cast<double>(members))};
    input.members.push_back(sender);
  }
  return input;
}

// All owners tell that member `i` sent `times` its norm.
void exaggerate(SentNormsInput& input, std::size_t i, double times) {
  for (Sender& owner : input.members) owner.squares[i] *= times * times;
}

TEST(SentNorms, HonestMembersAreSound) {
  for (const std::size_t n : {2u, 3u, 8u, 64u}) {
    const SentNorms found = judge_sent_norms(honest(n));
    EXPECT_TRUE(found.lied.empty() && found.alone.empty());
  }
}

TEST(SentNorms, TenTimesIsSeenByAllAndNamed) {
  SentNormsInput input = honest(8);
  exaggerate(input, 3, -10);
  const SentNorms found = judge_sent_norms(input);
  ASSERT_EQ(found.lied.size(), 1u);
  EXPECT_EQ(found.lied[0].member, id(3));
  EXPECT_EQ(found.lied[0].reported, 1);
  EXPECT_NEAR(found.lied[0].sent, std::sqrt(100 * 7.0 / 8), 1e-9);
  EXPECT_TRUE(found.alone.empty());
}

TEST(SentNorms, WhatAMemberSaysOfItselfDoesNotCount) {
  SentNormsInput input = honest(8);
  exaggerate(input, 3, -10);
  input.members[3].squares.assign(8, 0.0);
  EXPECT_EQ(judge_sent_norms(input).lied.size(), 1u);
  input = honest(8);
  input.members[3].squares[3] = 1e9;
  EXPECT_TRUE(judge_sent_norms(input).lied.empty());
}

TEST(SentNorms, NobodyIsChargedOnTheWordOfOneOwner) {
  SentNormsInput input = honest(8);
  for (double& squares : input.members[5].squares) squares = 1e6;  // it accuses everybody
  const SentNorms found = judge_sent_norms(input);
  EXPECT_TRUE(found.lied.empty());
  EXPECT_EQ(found.alone.size(), 7u);
  for (const Accusation& one : found.alone) EXPECT_EQ(one.owner, id(5));
}

TEST(SentNorms, ASecondOwnerThatSaysTheSameInAnotherAttemptIsEnough) {
  SentNormsInput input = honest(4);
  input.members[0].squares[2] = 9;
  input.accusations = {{id(0), id(2)}, {id(1), id(3)}};
  EXPECT_TRUE(judge_sent_norms(input).lied.empty()) << "the same owner again";
  input.accusations = {{id(1), id(2)}};
  EXPECT_EQ(judge_sent_norms(input).lied.size(), 1u);
}

TEST(SentNorms, InAPairNobodyCanTell) {
  SentNormsInput input = honest(2);
  exaggerate(input, 1, 10);
  const SentNorms found = judge_sent_norms(input);
  EXPECT_TRUE(found.lied.empty());
  EXPECT_EQ(found.alone, (std::vector{Accusation{id(0), id(1)}}));
}

TEST(SentNorms, InAnAllGatherMostMustSayIt) {
  SentNormsInput input = honest(5);
  input.all_see_all = true;
  for (Sender& one : input.members) one.squares.assign(5, 1.0);
  EXPECT_TRUE(judge_sent_norms(input).lied.empty());
  input.members[0].squares[4] = 100;
  SentNorms found = judge_sent_norms(input);
  EXPECT_TRUE(found.lied.empty() && found.alone.empty()) << "one against three";
  input.members[1].squares[4] = input.members[2].squares[4] = 100;
  found = judge_sent_norms(input);
  ASSERT_EQ(found.lied.size(), 1u);
  EXPECT_EQ(found.lied[0], (FalseNorm{id(4), 1, 10}));
}

TEST(SentNorms, WithoutAWordOrAWeightNothingIsHeldAgainstAnybody) {
  SentNormsInput input = honest(4);
  exaggerate(input, 1, 10);
  input.members[1].contributes = false;
  EXPECT_TRUE(judge_sent_norms(input).lied.empty());
  input.members[1].contributes = true;
  for (Sender& one : input.members) one.squares.clear();  // a ring
  EXPECT_TRUE(judge_sent_norms(input).lied.empty());
}

// What codecs make of real vectors, cut into parts of any size, never makes a liar of an honest
// member.
TEST(SentNorms, RoundingNeverMakesALiar) {
  Prng prng(11);
  for (const CodecKind kind : outer_opt::kDenseCodecs) {
    for (int round = 0; round < 40; ++round) {
      const std::size_t n = 2 + prng.below(6);
      const std::size_t part = 1 + prng.below(700);
      SentNormsInput input{kind, static_cast<std::int64_t>(part * n), false, {}, {}};
      for (std::size_t i = 0; i < n; ++i) {
        input.members.push_back({id(i), 0, true, std::vector<double>(n)});
      }
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<float> values;
        const double spread = prng.unit() * 5, scale = std::pow(10.0, prng.unit() * 12 - 9);
        for (std::size_t v = 0; v < part * n; ++v) {
          values.push_back(
              static_cast<float>(prng.normal() * scale * std::exp(spread * prng.normal())));
        }
        input.members[i].norm = outer_opt::statistics_of(values).norm;
        for (std::size_t owner = 0; owner < n; ++owner) {
          const auto own = std::span(values).subspan(owner * part, part);
          std::vector<std::byte> bytes(outer_opt::codec(kind).encoded_size(part));
          std::vector<float> sum(part);
          outer_opt::SquareSum squares;
          outer_opt::codec(kind).encode(own, bytes);
          ASSERT_TRUE(outer_opt::codec(kind).accumulate(bytes, 1, sum, squares).ok());
          input.members[owner].squares[i] = squares.total();
        }
      }
      const SentNorms found = judge_sent_norms(input);
      EXPECT_TRUE(found.lied.empty() && found.alone.empty()) << to_string(kind);
    }
  }
}

}  // namespace
}  // namespace shoal::coordinator
