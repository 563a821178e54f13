// See words.h.
#include "wire/relay/words.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <openssl/rand.h>

#include "base/check.h"
#include "base/enumerators.h"
#include "base/overloaded.h"
#include "proto/relay.pb.h"

namespace shoal::wire::relay {
namespace {

constexpr std::size_t kCallBytes = 16;

Error bad(const char* field, const std::string& what) {
  return {Code::kInvalidArgument, "a word at a relay " + what, std::string("relay.") + field,
          "run the same version on all hosts"};
}

std::string bytes_of(const CallId& call) {
  std::string bytes(kCallBytes, '\0');
  std::memcpy(bytes.data(), &call.high, sizeof call.high);
  std::memcpy(bytes.data() + sizeof call.high, &call.low, sizeof call.low);
  return bytes;
}

Result<CallId> parse_call(const std::string& bytes) {
  if (bytes.size() != kCallBytes) {
    return bad("call", "numbers its call by " + std::to_string(bytes.size()) + " bytes, not 16");
  }
  CallId call;
  std::memcpy(&call.high, bytes.data(), sizeof call.high);
  std::memcpy(&call.low, bytes.data() + sizeof call.high, sizeof call.low);
  return call;
}

void fill_random(void* at, std::size_t size) {
  SHOAL_CHECK(RAND_bytes(static_cast<unsigned char*>(at), static_cast<int>(size)) == 1,
              "no entropy");
}

// What is signed. The text in front keeps the signature from counting anywhere else.
std::string signed_text(const Nonce& nonce, AskKind kind, ReplicaId whom, const CallId& call) {
  std::string text = "shoal relay 1\n";
  text.append(nonce.data(), nonce.size());
  text += "\n" + std::to_string(static_cast<int>(kind)) + "\n" + std::to_string(whom.n) + "\n";
  return text + bytes_of(call);
}

v1::RelayAskKind to_wire(AskKind kind) {
  if (kind == AskKind::kWait) return v1::RELAY_ASK_KIND_WAIT;
  return kind == AskKind::kCall ? v1::RELAY_ASK_KIND_CALL : v1::RELAY_ASK_KIND_ANSWER;
}

Result<AskKind> kind_of(v1::RelayAskKind kind) {
  switch (kind) {
    case v1::RELAY_ASK_KIND_WAIT:
      return AskKind::kWait;
    case v1::RELAY_ASK_KIND_CALL:
      return AskKind::kCall;
    case v1::RELAY_ASK_KIND_ANSWER:
      return AskKind::kAnswer;
    default:
      return bad("kind", "asks for something unknown");
  }
}

Result<Word> parse_challenge(const v1::RelayChallenge& said) {
  if (said.version() != kVersion) {
    return Error{Code::kIncompatible,
                 "the relay speaks version " + std::to_string(said.version()) + ", this host " +
                     std::to_string(kVersion),
                 "relay.version", "run the same version on all hosts"};
  }
  Challenge challenge;
  if (said.nonce().size() != kNonceBytes) return bad("nonce", "has a nonce of another length");
  std::ranges::copy(said.nonce(), challenge.nonce.begin());
  return Word(challenge);
}

Result<Word> parse_ask(const v1::RelayAsk& said) {
  Ask ask;
  auto kind = kind_of(said.kind());
  if (!kind) return kind.error();
  ask.kind = *kind;
  ask.whom = ReplicaId(said.whom());
  if ((ask.kind == AskKind::kCall) != static_cast<bool>(ask.whom)) {
    return bad("whom", "must name a replica in a call, and only there");
  }
  if (ask.kind != AskKind::kWait) {
    const auto call = parse_call(said.call());
    if (!call) return call.error();
    ask.call = *call;
  } else if (!said.call().empty()) {
    return bad("call", "waits, and numbers a call");
  }
  if (said.chain().empty() || said.chain_size() > static_cast<int>(identity::kChainMost)) {
    return bad("chain", "has " + std::to_string(said.chain_size()) + " certificates, of 1 to " +
                            std::to_string(identity::kChainMost));
  }
  for (const std::string& der : said.chain()) {
    auto certificate = identity::Certificate::from_der(der);
    if (!certificate) return certificate.error();
    ask.chain.push_back(*certificate);
  }
  if (said.signature().size() > identity::kSignatureMax) return bad("signature", "is too long");
  ask.signature = said.signature();
  return Word(std::move(ask));
}

Word parse_refused(const v1::RelayRefused& said) {
  const auto code = parse_enumerator<Code>(said.code());
  return Refused{{code.value_or(Code::kInternal), said.message(), said.field(), said.remedy()}};
}

}  // namespace

Nonce make_nonce() {
  Nonce nonce;
  fill_random(nonce.data(), nonce.size());
  return nonce;
}

CallId make_call_id() {
  CallId call;
  fill_random(&call, sizeof call);
  return call;
}

std::string encode(const Word& word) {
  v1::RelayWord said;
  std::visit(
      Overloaded{
          [&](const Challenge& challenge) {
            said.mutable_challenge()->set_version(challenge.version);
            said.mutable_challenge()->set_nonce(challenge.nonce.data(), challenge.nonce.size());
          },
          [&](const Ask& ask) {
            v1::RelayAsk& out = *said.mutable_ask();
            out.set_kind(to_wire(ask.kind));
            out.set_whom(ask.whom.n);
            if (ask.kind != AskKind::kWait) out.set_call(bytes_of(ask.call));
            for (const auto& each : ask.chain) out.add_chain(each.der());
            out.set_signature(ask.signature);
          },
          [&](const Granted&) { said.mutable_granted(); },
          [&](const Called& called) { said.mutable_called()->set_call(bytes_of(called.call)); },
          [&](const Refused& refused) {
            v1::RelayRefused& out = *said.mutable_refused();
            out.set_code(to_string(refused.why.code));
            out.set_message(refused.why.message);
            out.set_field(refused.why.field);
            out.set_remedy(refused.why.remedy);
          },
          [&](const Beat&) { said.mutable_beat(); },
      },
      word);
  return said.SerializeAsString();
}

Result<Word> decode(std::span<const char> bytes) {
  v1::RelayWord said;
  if (bytes.size() > kWordMax ||
      !said.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return bad("word", "is malformed");
  }
  switch (said.word_case()) {
    case v1::RelayWord::kChallenge:
      return parse_challenge(said.challenge());
    case v1::RelayWord::kAsk:
      return parse_ask(said.ask());
    case v1::RelayWord::kGranted:
      return Word(Granted{});
    case v1::RelayWord::kCalled: {
      const auto call = parse_call(said.called().call());
      if (!call) return call.error();
      return Word(Called{*call});
    }
    case v1::RelayWord::kRefused:
      return parse_refused(said.refused());
    case v1::RelayWord::kBeat:
      return Word(Beat{});
    case v1::RelayWord::WORD_NOT_SET:
      break;
  }
  return bad("word", "is of an unknown kind");
}

Ask sign_ask(const Nonce& nonce, AskKind kind, ReplicaId whom, CallId call,
             const identity::Credentials& own) {
  Ask ask{kind, whom, call, {own.certificate}, {}};
  ask.chain.insert(ask.chain.end(), own.chain.begin(), own.chain.end());
  ask.signature = own.key.sign(signed_text(nonce, kind, whom, call));
  return ask;
}

Result<Member> prove(const Ask& ask, const Nonce& nonce, const identity::ClusterName& cluster,
                     const identity::Beliefs& beliefs, Instant now) {
  const identity::ExpectedPeer any{.cluster = cluster};
  const auto verdict = identity::verify_peer(ask.chain, beliefs.roots, beliefs.revoked, now, any);
  if (!verdict.ok()) return identity::to_error(verdict, any);
  EVP_PKEY* key = ask.chain.front().public_key();
  const std::string text = signed_text(nonce, ask.kind, ask.whom, ask.call);
  if (key == nullptr || !identity::has_signed(key, text, ask.signature)) {
    return Error{Code::kUnauthenticated,
                 "it shows the certificate of " + identity::to_string(*verdict.name) +
                     ", and has not signed by its key",
                 "relay.signature", ""};
  }
  const auto& who = std::get<identity::ReplicaName>(verdict.name->who);
  return Member{who.agent, who.job, who.replica};
}

}  // namespace shoal::wire::relay
