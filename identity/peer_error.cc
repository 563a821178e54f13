// What people read about a PeerVerdict.
#include <string>

#include "identity/peer.h"

namespace shoal::identity {
namespace {

constexpr char kClock[] = "set the clocks of both hosts, for example by NTP";
constexpr char kRejoin[] = "let the agent join again with a new token";

std::string list_of(const std::vector<Hash256>& hashes) {
  std::string text;
  for (const Hash256& hash : hashes) text += (text.empty() ? "" : ", ") + to_hex(hash);
  return text.empty() ? "none" : text;
}

std::string subject_of(const PeerVerdict& verdict) {
  if (verdict.is_about_ca) return "the CA's certificate of the peer";
  return verdict.name ? "the certificate of " + to_string(*verdict.name)
                      : std::string("the peer's certificate");
}

template <typename T>
std::string or_any(const std::optional<T>& value) {
  return value ? to_string(*value) : std::string("any");
}
std::string or_any(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : std::string("any");
}

std::string text_of(const ExpectedPeer& expected) {
  std::string text = std::string(to_string(expected.kind)) + " of " + expected.cluster.text;
  if (expected.kind == PeerKind::kCoordinator) return text;
  text += ", agent " + or_any(expected.agent);
  if (expected.kind == PeerKind::kAgent) return text;
  const auto stage = expected.stage ? std::optional<std::int64_t>(*expected.stage) : std::nullopt;
  return text + ", job " + or_any(expected.job) + ", stage " + or_any(stage) + ", epoch " +
         or_any(expected.epoch) + ", replica " + or_any(expected.replica);
}

Error unauthenticated(std::string message, const char* remedy) {
  return {Code::kUnauthenticated, std::move(message), "certificate", remedy};
}

Error foreign(const PeerVerdict& verdict) {
  const std::string theirs =
      verdict.their_ca ? to_hex(*verdict.their_ca) : std::string("a CA that it did not show");
  return unauthenticated(
      subject_of(verdict) + " is from a foreign CA: " + theirs +
          ", trusted: " + list_of(verdict.our_cas),
      "is this the right address? If this cluster's CA was replaced, join again with a new token");
}

Error another(const PeerVerdict& verdict, const ExpectedPeer& expected) {
  return {Code::kPermissionDenied,
          "the peer is " + (verdict.name ? to_string(*verdict.name) : std::string("nobody")) +
              ", expected: " + text_of(expected) + " (" + to_string(verdict.fault) + ")",
          "certificate", "ignore this if the view has just changed; else check the address"};
}

Error out_of_time(const PeerVerdict& verdict) {
  if (verdict.fault == PeerFault::kExpired) {
    return unauthenticated(
        subject_of(verdict) + " expired " + to_words(verdict.off_by) + " ago by this host's clock",
        "check this host's clock; if it is right, the other host must renew its certificate");
  }
  return unauthenticated(subject_of(verdict) + " is not valid yet: this host's clock is at least " +
                             to_words(verdict.off_by) + " behind the coordinator's",
                         kClock);
}

}  // namespace

RefusalReason reason_of(PeerFault fault) {
  switch (fault) {
    case PeerFault::kNoCertificate:
      return RefusalReason::kNoCertificate;
    case PeerFault::kNone:
    case PeerFault::kMalformed:
      return RefusalReason::kMalformed;
    case PeerFault::kForeignCa:
    case PeerFault::kBadSignature:
    case PeerFault::kOtherCluster:
      return RefusalReason::kForeign;
    case PeerFault::kExpired:
    case PeerFault::kNotYetValid:
      return RefusalReason::kExpired;
    case PeerFault::kRevoked:
      return RefusalReason::kRevoked;
    default:
      return RefusalReason::kOtherMember;
  }
}

Error to_error(const PeerVerdict& verdict, const ExpectedPeer& expected) {
  switch (verdict.fault) {
    case PeerFault::kNone:
      break;
    case PeerFault::kNoCertificate:
      return unauthenticated("the peer showed no certificate", kRejoin);
    case PeerFault::kMalformed:
      return unauthenticated(subject_of(verdict) + " is not one that this cluster issues", kRejoin);
    case PeerFault::kForeignCa:
      return foreign(verdict);
    case PeerFault::kBadSignature:
      return unauthenticated(subject_of(verdict) + " was altered: its signature is not the CA's",
                             kRejoin);
    case PeerFault::kExpired:
    case PeerFault::kNotYetValid:
      return out_of_time(verdict);
    case PeerFault::kWrongUse:
      return unauthenticated(subject_of(verdict) + " may not be used by a peer", kRejoin);
    case PeerFault::kOtherCluster:
      return unauthenticated(
          subject_of(verdict) + " is of another cluster than " + expected.cluster.text,
          "is this the right address?");
    case PeerFault::kRevoked:
      return unauthenticated(subject_of(verdict) + " was revoked", kRejoin);
    case PeerFault::kOtherHost:
      return unauthenticated(
          subject_of(verdict) + " is not valid for the host " + quoted(expected.host.value_or("")),
          "use one of its names, or add this one with --host-name of shoal-coordinator");
    default:
      return another(verdict, expected);
  }
  return {Code::kInternal, "there is no fault", "certificate", ""};
}

std::string to_words(Duration duration) {
  std::int64_t s = duration.ns / 1'000'000'000;
  if (s < 0) s = -s;
  const auto two = [](std::int64_t a, const char* unit, std::int64_t b, const char* smaller) {
    const std::string text = std::to_string(a) + unit;
    return b == 0 ? text : text + " " + std::to_string(b) + smaller;
  };
  if (s < 60) return std::to_string(s) + " s";
  if (s < 3600) return two(s / 60, " min", s % 60, " s");
  if (s < 86'400) return two(s / 3600, " h", s % 3600 / 60, " min");
  return two(s / 86'400, " d", s % 86'400 / 3600, " h");
}

}  // namespace shoal::identity
