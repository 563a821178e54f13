// See state_wire.h.
#include "outer_opt/transport/state_wire.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/sha256.h"
#include "outer_opt/core/codec/codec_traits.h"
#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/codec/frame.h"

namespace shoal::outer_opt {
namespace {

// No source gives more in one answer: eight runs of four vectors.
constexpr std::int64_t kValuesMax = 1 << 21;

std::string sha256_of_answer(const StateAnswer& answer) {
  Sha256 sha;
  sha.add(std::as_bytes(std::span(answer.values)));
  for (const AverageSlice& slice : answer.rounds) {
    for (const AverageSegment& segment : slice.segments) sha.add(segment.values.bytes);
  }
  for (const Digest& digest : answer.digests) sha.add(std::as_bytes(std::span(&digest, 1)));
  return sha.finish();
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

v1::StateAskKind wire_kind(AskKind kind) {
  switch (kind) {
    case AskKind::kState:
      return v1::STATE_ASK_KIND_STATE;
    case AskKind::kAverages:
      return v1::STATE_ASK_KIND_AVERAGES;
    case AskKind::kMoments:
      return v1::STATE_ASK_KIND_MOMENTS;
    case AskKind::kDigests:
      return v1::STATE_ASK_KIND_DIGESTS;
  }
  return v1::STATE_ASK_KIND_UNSPECIFIED;
}

std::optional<AskKind> kind_of(v1::StateAskKind kind) {
  switch (kind) {
    case v1::STATE_ASK_KIND_STATE:
      return AskKind::kState;
    case v1::STATE_ASK_KIND_AVERAGES:
      return AskKind::kAverages;
    case v1::STATE_ASK_KIND_MOMENTS:
      return AskKind::kMoments;
    case v1::STATE_ASK_KIND_DIGESTS:
      return AskKind::kDigests;
    default:
      return std::nullopt;
  }
}

v1::StateRefusal wire_refusal(StateRefusal refusal) {
  switch (refusal) {
    case StateRefusal::kNone:
      return v1::STATE_REFUSAL_NONE;
    case StateRefusal::kNotHere:
      return v1::STATE_REFUSAL_NOT_HERE;
    case StateRefusal::kGone:
      return v1::STATE_REFUSAL_GONE;
    case StateRefusal::kNotYet:
      return v1::STATE_REFUSAL_NOT_YET;
    case StateRefusal::kNever:
      return v1::STATE_REFUSAL_NEVER;
  }
  return v1::STATE_REFUSAL_UNSPECIFIED;
}

StateRefusal refusal_of(v1::StateRefusal refusal) {
  switch (refusal) {
    case v1::STATE_REFUSAL_NONE:
      return StateRefusal::kNone;
    case v1::STATE_REFUSAL_GONE:
      return StateRefusal::kGone;
    case v1::STATE_REFUSAL_NOT_YET:
      return StateRefusal::kNotYet;
    case v1::STATE_REFUSAL_NEVER:
      return StateRefusal::kNever;
    default:
      return StateRefusal::kNotHere;
  }
}

void put_terms(const StepTerms& terms, v1::StepTerms& out) {
  out.set_round(terms.round);
  out.set_fragment(terms.fragment);
  out.set_outer_lr(terms.outer_lr);
  out.set_share(terms.share);
  out.set_decay(terms.decay);
  out.set_push(terms.push);
  out.set_norm(terms.norm);
}

StepTerms terms_of(const v1::StepTerms& terms) {
  return {terms.round(), terms.fragment(), terms.outer_lr(), terms.share(),
          terms.decay(), terms.push(),     terms.norm()};
}

void put_slice(const AverageSlice& slice, v1::AverageSlice& out) {
  put_terms(slice.terms, *out.mutable_terms());
  out.set_is_empty(slice.is_empty);
  out.set_codec(traits_of(slice.codec).wire);
  for (const AverageSegment& segment : slice.segments) {
    v1::AverageSegment& to = *out.add_segments();
    to.set_first(segment.first);
    to.set_count(segment.count);
    to.set_form(static_cast<std::uint32_t>(segment.values.form));
    to.set_values(text_of(segment.values.bytes));
  }
}

Error malformed(const std::string& what) {
  return {Code::kDataLoss, "a part of the state is damaged: " + what, "", ""};
}

Result<AverageSlice> slice_of(const v1::AverageSlice& slice) {
  AverageSlice out;
  out.terms = terms_of(slice.terms());
  out.is_empty = slice.is_empty();
  const auto codec = codec_of_wire(slice.codec());
  if (!codec) return malformed("its codec");
  out.codec = *codec;
  for (const v1::AverageSegment& segment : slice.segments()) {
    if (segment.form() > static_cast<std::uint32_t>(ExactForm::kBitmap))
      return malformed("its form");
    if (segment.count() > kValuesMax) return malformed("its size");
    const auto bytes = std::as_bytes(std::span(segment.values()));
    out.segments.push_back(
        {segment.first(),
         segment.count(),
         {static_cast<ExactForm>(segment.form()), {bytes.begin(), bytes.end()}}});
  }
  return out;
}

void put_values(std::span<const float> values, bool compact, v1::StateAnswer& out) {
  const auto bytes = std::as_bytes(values);
  if (compact && !bytes.empty()) {
    std::string& to = *out.mutable_values();
    to.resize(bytes.size());
    EntropyCoder coder;
    to.resize(coder.encode(CodecKind::kFp32, bytes, std::as_writable_bytes(std::span(to))));
    if (!to.empty()) return out.set_coded_count(std::ssize(values));
  }
  out.set_values(text_of(bytes));
}

Result<std::vector<float>> values_of(const v1::StateAnswer& answer) {
  const auto bytes = std::as_bytes(std::span(answer.values()));
  const bool coded = answer.coded_count() != 0;
  const std::int64_t count =
      coded ? answer.coded_count() : std::ssize(bytes) / std::int64_t{sizeof(float)};
  const bool whole = coded || bytes.size() % sizeof(float) == 0;
  if (count < 0 || count > kValuesMax || !whole) return malformed("its size");
  std::vector<float> values(static_cast<std::size_t>(count));
  const auto target = std::as_writable_bytes(std::span(values));
  if (!coded) {
    std::ranges::copy(bytes, target.begin());
    return values;
  }
  const std::array pieces = {bytes};
  EntropyCoder coder;
  if (!coder.decode(CodecKind::kFp32, pieces, target).ok()) return malformed("its values");
  return values;
}

}  // namespace

void to_wire(const StateAsk& ask, bool compact, v1::StateAsk& out) {
  out.set_replica(ask.replica.n);
  out.mutable_key()->set_job(ask.key.job.n);
  out.mutable_key()->set_epoch(ask.key.epoch);
  out.mutable_key()->set_round(ask.key.round);
  out.set_kind(wire_kind(ask.kind));
  out.set_first(ask.run.first);
  out.set_count(ask.run.count);
  out.set_pinned(ask.pinned);
  out.set_adam_step(ask.adam_step);
  out.set_compact(compact);
  out.set_piece(ask.piece);
  out.set_stays(ask.stays);
}

Result<StateAsk> from_wire(const v1::StateAsk& ask) {
  const auto kind = kind_of(ask.kind());
  if (!kind) return Error{Code::kInvalidArgument, "no such kind of ask", "kind", ""};
  if (ask.count() > kValuesMax)
    return Error{Code::kInvalidArgument, "too many values", "count", ""};
  StateAsk out;
  out.replica = ReplicaId(ask.replica());
  out.key = {JobId(ask.key().job()), ask.key().epoch(), ask.key().round()};
  out.kind = *kind;
  out.run = {ask.first(), ask.count()};
  out.pinned = ask.pinned();
  out.adam_step = ask.adam_step();
  out.piece = ask.piece();
  out.stays = ask.stays();
  return out;
}

void to_wire(const StateAnswer& answer, bool compact, v1::StateAnswer& out) {
  out.set_refusal(wire_refusal(answer.refusal));
  out.set_held(answer.held);
  put_values(answer.values, compact, out);
  for (const AverageSlice& slice : answer.rounds) put_slice(slice, *out.add_rounds());
  out.set_adam_step(answer.adam_step);
  for (const Digest& digest : answer.digests) {
    out.add_digests(digest.high);
    out.add_digests(digest.low);
  }
  out.set_sha256(sha256_of_answer(answer));
}

Result<StateAnswer> from_wire(const v1::StateAnswer& answer) {
  StateAnswer out;
  out.refusal = refusal_of(answer.refusal());
  out.held = answer.held();
  out.adam_step = answer.adam_step();
  auto values = values_of(answer);
  if (!values) return values.error();
  out.values = std::move(*values);
  for (const v1::AverageSlice& slice : answer.rounds()) {
    auto one = slice_of(slice);
    if (!one) return one.error();
    out.rounds.push_back(std::move(*one));
  }
  const auto& words = answer.digests();
  const bool pairs = words.size() % 2 == 0 && words.size() <= 2 * kPiecesMax;
  if (!pairs) return malformed("its digests");
  for (int i = 0; i < words.size(); i += 2) out.digests.push_back({words[i], words[i + 1]});
  if (sha256_of_answer(out) != answer.sha256()) return malformed("its SHA-256 does not match");
  return out;
}

}  // namespace shoal::outer_opt
