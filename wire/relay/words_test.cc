// Words over a relay: their text, what is refused of them, and the proof of who asks.
#include "wire/relay/words.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "wire/relay/relay_test_util.h"

namespace shoal::wire::relay {
namespace {

Result<Word> again(const Word& word) { return decode(encode(word)); }

TEST(Words, EachComesBackAsItWas) {
  const Nonce nonce = make_nonce();
  EXPECT_EQ(std::get<Challenge>(*again(Challenge{kVersion, nonce})).nonce, nonce);
  EXPECT_EQ(std::get<Called>(*again(Called{{3, 4}})).call, (CallId{3, 4}));
  EXPECT_TRUE(std::holds_alternative<Granted>(*again(Granted{})));
  EXPECT_TRUE(std::holds_alternative<Beat>(*again(Beat{})));
  const Error why{Code::kNotFound, "nobody", "whom", "look"};
  EXPECT_EQ(std::get<Refused>(*again(Refused{why})).why, why);
  const TestCluster cluster;
  const auto own = cluster.credentials(7);
  const Ask ask = sign_ask(nonce, AskKind::kCall, ReplicaId(9), {1, 2}, own);
  const auto read = again(ask);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  const auto& same = std::get<Ask>(*read);
  EXPECT_EQ(same.kind, AskKind::kCall);
  EXPECT_EQ(same.whom, ReplicaId(9));
  EXPECT_EQ(same.call, (CallId{1, 2}));
  EXPECT_EQ(same.signature, ask.signature);
  EXPECT_EQ(same.chain.front().fingerprint(), own.certificate.fingerprint());
}

TEST(Words, WhatDoesNotFitTogetherIsRefused) {
  const auto own = TestCluster().credentials(7);
  const Nonce nonce = make_nonce();
  const auto field_of = [](const Word& word) {
    const auto read = again(word);
    return read.ok() ? std::string("none") : read.error().field;
  };
  EXPECT_EQ(field_of(sign_ask(nonce, AskKind::kCall, {}, {1, 2}, own)), "relay.whom");
  EXPECT_EQ(field_of(sign_ask(nonce, AskKind::kWait, ReplicaId(3), {}, own)), "relay.whom");
  Ask bare = sign_ask(nonce, AskKind::kWait, {}, {}, own);
  bare.chain.clear();
  EXPECT_EQ(field_of(bare), "relay.chain");
  Ask long_one = sign_ask(nonce, AskKind::kWait, {}, {}, own);
  long_one.signature.assign(identity::kSignatureMax + 1, 'x');
  EXPECT_EQ(field_of(long_one), "relay.signature");
  EXPECT_EQ(again(Challenge{kVersion + 1, nonce}).error().code, Code::kIncompatible);
  EXPECT_EQ(decode(std::string()).error().field, "relay.word");
}

// Damaged words are refused or read; they never end the process.
TEST(Words, DamagedOnesDoNoHarm) {
  const auto own = TestCluster().credentials(7);
  const std::string good =
      encode(sign_ask(make_nonce(), AskKind::kCall, ReplicaId(9), {1, 2}, own));
  Prng prng(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (int n = 0; n < 3; ++n) {
      bad[static_cast<std::size_t>(prng.range(0, std::ssize(bad) - 1))] =
          static_cast<char>(prng.range(0, 255));
    }
    if (i % 3 == 0) bad.resize(static_cast<std::size_t>(prng.range(0, std::ssize(bad))));
    refused += !decode(bad).ok();
  }
  EXPECT_GT(refused, 1000);
}

TEST(Proof, TheKeyOfTheCertificateMustHaveSigned) {
  const TestCluster cluster;
  const auto own = cluster.credentials(7);
  const Nonce nonce = make_nonce();
  const Ask good = sign_ask(nonce, AskKind::kCall, ReplicaId(9), {1, 2}, own);
  const auto who = prove(good, nonce, cluster.name(), cluster.beliefs(), kNow);
  ASSERT_TRUE(who.ok()) << to_string(who.error());
  EXPECT_EQ(*who, (Member{AgentId(7), JobId(1), ReplicaId(7)}));

  const auto code_of = [&](const Ask& ask, const Nonce& challenge) {
    const auto proven = prove(ask, challenge, cluster.name(), cluster.beliefs(), kNow);
    return proven.ok() ? Code::kInternal : proven.error().code;
  };
  EXPECT_EQ(code_of(good, make_nonce()), Code::kUnauthenticated);  // recorded elsewhere
  Ask other_whom = good;
  other_whom.whom = ReplicaId(10);
  EXPECT_EQ(code_of(other_whom, nonce), Code::kUnauthenticated);
  Ask other_call = good;
  other_call.call = {1, 3};
  EXPECT_EQ(code_of(other_call, nonce), Code::kUnauthenticated);
  Ask stolen = good;  // somebody else's certificate, and the own key
  stolen.chain = {cluster.credentials(8).certificate};
  EXPECT_EQ(code_of(stolen, nonce), Code::kUnauthenticated);
}

TEST(Proof, OnlyReplicasOfTheClusterCount) {
  const TestCluster cluster, foreign("atoll");
  const Nonce nonce = make_nonce();
  const auto proven = [&](const identity::Credentials& own, identity::Beliefs beliefs,
                          Instant now = kNow) {
    return prove(sign_ask(nonce, AskKind::kWait, {}, {}, own), nonce, cluster.name(), beliefs, now)
        .ok();
  };
  EXPECT_TRUE(proven(cluster.credentials(7), cluster.beliefs()));
  EXPECT_FALSE(proven(foreign.credentials(7), cluster.beliefs()));
  EXPECT_FALSE(proven(cluster.agent(7), cluster.beliefs()));
  EXPECT_FALSE(proven(cluster.credentials(7), cluster.beliefs(),
                      kNow + identity::kReplicaLife + seconds(1)));
  identity::Beliefs revoked = cluster.beliefs();
  revoked.revoked.agents = {AgentId(7)};
  EXPECT_FALSE(proven(cluster.credentials(7), revoked));
  EXPECT_TRUE(proven(cluster.credentials(8), revoked));
}

}  // namespace
}  // namespace shoal::wire::relay
