// What relay and members say to each other (proto/relay.proto), and the proof in it: who asks signs
// the relay's challenge together with what it asks for, by the key of its certificate. So a word
// that somebody has recorded is worth nothing on another connection.
//
// Pure except for OpenSSL. Any thread may call everything.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "identity/peer.h"
#include "identity/tls_context.h"
#include "identity/trust.h"
#include "wire/relay/core/switchboard.h"

namespace shoal::wire::relay {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kWordMax = std::size_t{32} << 10;  // bytes of a word
inline constexpr std::size_t kNonceBytes = 32;

using Nonce = std::array<char, kNonceBytes>;
Nonce make_nonce();
CallId make_call_id();

enum class AskKind { kWait, kCall, kAnswer };

struct Challenge {
  std::uint32_t version = kVersion;
  Nonce nonce{};
};
struct Ask {
  AskKind kind = AskKind::kWait;
  ReplicaId whom;  // kCall
  CallId call;     // kCall, kAnswer
  std::vector<identity::Certificate> chain;
  std::string signature;
};
struct Granted {};
struct Called {
  CallId call;
};
struct Refused {
  Error why;
};
struct Beat {};
using Word = std::variant<Challenge, Ask, Granted, Called, Refused, Beat>;

std::string encode(const Word& word);  // without its length
// Errors: invalid_argument, with the field's name; incompatible, another version.
Result<Word> decode(std::span<const char> bytes);

// An ask for this challenge, signed by the key of `own`.
Ask sign_ask(const Nonce& nonce, AskKind kind, ReplicaId whom, CallId call,
             const identity::Credentials& own);
// The sender, if its certificate is valid and its key has signed. Errors: unauthenticated or
// permission_denied, with the remedy (identity/peer.h).
Result<Member> prove(const Ask& ask, const Nonce& nonce, const identity::ClusterName& cluster,
                     const identity::Beliefs& beliefs, Instant now);

}  // namespace shoal::wire::relay
