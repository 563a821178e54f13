// See mux.h.
#include "wire/stream/core/mux.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shoal::wire::stream {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

Error breach(const char* field, const std::string& what) {
  return {Code::kInvalidArgument, "the peer " + what, std::string("frame.") + field,
          "run the same version on both hosts"};
}

Error over() { return {Code::kCancelled, "the stream is over", "", ""}; }

// Frames that make a stream known must come before all others of it.
bool must_take_first_lane(const OutFrame& frame, const std::set<StreamId>& unknown) {
  return unknown.contains(frame.header.stream);
}

}  // namespace

Status check_quotas(const Quotas& q) {
  const auto wrong = [](const char* field, const std::string& rule, std::uint32_t given) {
    return Error{Code::kValidation, "must be " + rule + ", got " + std::to_string(given), field,
                 "give a number in that range"};
  };
  if (q.message_max < kPieceBytes || q.message_max > kMessageMax) {
    return wrong("quotas.message_max",
                 std::to_string(kPieceBytes) + " to " + std::to_string(kMessageMax), q.message_max);
  }
  if (q.window / 2 < q.message_max || q.window > kWindowMax) {
    return wrong("quotas.window", "twice message_max to " + std::to_string(kWindowMax), q.window);
  }
  if (q.streams_max < 1) return wrong("quotas.streams_max", "at least 1", q.streams_max);
  if (q.queue_max < 1) return wrong("quotas.queue_max", "at least 1", q.queue_max);
  if (q.words_max < q.streams_max) {
    return wrong("quotas.words_max", "at least streams_max", q.words_max);
  }
  return {};
}

Mux::Mux(Side side, const Quotas& quotas, MuxHooks hooks)
    : side_(side),
      quotas_(quotas),
      hooks_(std::move(hooks)),
      next_ours_(is_ours(1) ? 1 : 2),
      outbox_(quotas.queue_max) {}

void Mux::meet(const Hello& peer) { peer_ = peer; }

bool Mux::is_ours(StreamId id) const { return (id % 2 == 1) == (side_ == Side::kDialer); }

Mux::StreamPtr Mux::find(StreamId id) const {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second;
}

Status Mux::be_known(StreamId id) const {
  const bool known = is_ours(id) ? id < next_ours_ : id <= last_theirs_;
  if (known) return {};
  return breach("stream", "names stream " + std::to_string(id) + ", which nobody opened");
}

// ---- the user's

Result<StreamId> Mux::open(std::string_view purpose, std::shared_ptr<StreamEvents> events) {
  if (is_over_) return Error{Code::kUnavailable, "the connection to the peer is gone", "", ""};
  if (purpose.size() > kTextMax) {
    return Error{Code::kValidation,
                 "must have at most " + std::to_string(kTextMax) + " bytes, got " +
                     std::to_string(purpose.size()),
                 "purpose", "say less"};
  }
  if (streams_.size() - theirs_ >= peer_.streams_max) {
    return Error{Code::kResourceExhausted,
                 "the peer takes " + std::to_string(peer_.streams_max) + " streams at once", "",
                 "close one first"};
  }
  const StreamId id = std::exchange(next_ours_, next_ours_ + 2);
  streams_[id] = std::make_shared<Stream>(Stream{std::move(events), Inbox(quotas_.window), true});
  outbox_.add(id, peer_.window, false);
  unknown_to_peer_.insert(id);
  say({FrameType::kOpen, 0, 0, id}, bytes_of(purpose));
  return id;
}

Status Mux::send(StreamId id, OutMessage message) {
  const auto done = message.done;
  const StreamPtr stream = find(id);
  Status sent;
  if (!stream || stream->ends) {
    sent = over();
  } else if (message.size() > peer_.message_max || message.head.size() > kHeadMax) {
    sent = Error{Code::kValidation,
                 "a message has " + std::to_string(message.size()) + " bytes and a head of " +
                     std::to_string(message.head.size()) + "; the peer takes " +
                     std::to_string(peer_.message_max) + " and " + std::to_string(kHeadMax),
                 "message", "send it in parts"};
  } else {
    sent = outbox_.send(id, std::move(message));
  }
  if (sent.ok()) {
    hooks_.wake();
  } else if (done) {
    done(false);
  }
  return sent;
}

void Mux::end(StreamId id) {
  if (const StreamPtr stream = find(id)) {
    stream->ends = true;
    end_if_sent(id);
  }
}

void Mux::cancel(StreamId id, const Error& why) {
  if (!find(id)) return;
  refuse(id, why.code, why.message);
  close(id, why);
}

void Mux::release(StreamId id, std::size_t body) {
  const StreamPtr stream = find(id);
  if (!stream) return;
  const std::uint32_t credit = stream->inbox.release(body);
  if (credit == 0 || stream->peer_ended) return;
  FrameHeader header{FrameType::kCredit, 0, 0, id};
  header.size = credit;
  say(header);
}

void Mux::fail(const Error& why) {
  is_over_ = true;
  while (!streams_.empty()) close(streams_.begin()->first, why);
  words_.clear();
}

// ---- the connections'

// A piece that was taken just now is not with its connection yet, so the end of its stream, which
// gives all memory back, waits until the next one is asked for.
std::optional<OutFrame> Mux::next(bool first_lane) {
  if (const auto taken = std::exchange(taken_, std::nullopt)) end_if_sent(*taken);
  const auto word = std::find_if(words_.begin(), words_.end(), [&](const OutFrame& frame) {
    return first_lane || !must_take_first_lane(frame, unknown_to_peer_);
  });
  if (word != words_.end()) {
    OutFrame frame = std::move(*word);
    words_.erase(word);
    return frame;
  }
  auto frame = outbox_.next(first_lane);
  if (frame) taken_ = frame->header.stream;
  return frame;
}

Result<std::optional<std::span<std::byte>>> Mux::begin(const FrameHeader& header,
                                                       std::span<const std::byte> head) {
  using Place = std::optional<std::span<std::byte>>;
  if (const Status known = be_known(header.stream); !known) return known.error();
  const StreamPtr stream = find(header.stream);
  if (!stream) return Place();  // it is over, and the peer did not know when it sent this
  auto place = stream->inbox.place(header, head, *stream->events);
  if (!place.ok()) return place;
  if (find(header.stream) != stream) return Place();  // the user has just cancelled it
  if (*place) return place;
  cancel(header.stream, {Code::kInvalidArgument, "the receiver does not want the message", "", ""});
  return Place();
}

Status Mux::landed(const FrameHeader& header) {
  const StreamPtr stream = find(header.stream);
  if (!stream) return {};
  stream->inbox.landed(header);
  deliver(header.stream);
  return {};
}

Status Mux::control(const FrameHeader& header, std::span<const std::byte> words) {
  if (words_.size() >= quotas_.words_max) {
    return Error{
        Code::kResourceExhausted,
        "the peer asks for more than it reads: " + std::to_string(words_.size()) + " answers wait",
        "", "look at its log"};
  }
  if (header.type == FrameType::kOpen) return accept(header.stream, words);
  if (const Status known = be_known(header.stream); !known) return known;
  switch (header.type) {
    case FrameType::kAccept:
      unknown_to_peer_.erase(header.stream);
      outbox_.peer_knows(header.stream);
      hooks_.wake();
      return {};
    case FrameType::kCredit:
      hooks_.wake();
      return outbox_.add_credit(header.stream, header.size);
    case FrameType::kEnd:
      return end_of_peer(header.stream, header.message);
    case FrameType::kCancel:
      unknown_to_peer_.erase(header.stream);
      close(header.stream, parse_reason(words));
      return {};
    default:
      return breach("type", "says hello twice");
  }
}

// ---- beneath

Status Mux::accept(StreamId id, std::span<const std::byte> purpose) {
  if (is_ours(id) || id <= last_theirs_) {
    return breach("stream", "opens stream " + std::to_string(id) + ", which it may not");
  }
  last_theirs_ = id;
  if (theirs_ >= quotas_.streams_max) {
    refuse(id, Code::kResourceExhausted, "too many streams are open");
    return {};
  }
  auto events = hooks_.accept(id, {reinterpret_cast<const char*>(purpose.data()), purpose.size()});
  if (!events) {
    refuse(id, Code::kNotFound, "nobody waits for this stream");
    return {};
  }
  streams_[id] = std::make_shared<Stream>(Stream{std::move(events), Inbox(quotas_.window), false});
  ++theirs_;
  outbox_.add(id, peer_.window, true);
  say({FrameType::kAccept, 0, 0, id});
  return {};
}

void Mux::refuse(StreamId id, Code code, std::string_view why) {
  say({FrameType::kCancel, 0, 0, id}, bytes_of(encode_reason(code, why)));
}

Status Mux::end_of_peer(StreamId id, std::uint32_t count) {
  const StreamPtr stream = find(id);
  if (!stream) return {};
  if (const Status good = stream->inbox.end_after(count); !good) return good;
  deliver(id);
  return {};
}

// Every call of the user's may close the stream.
void Mux::deliver(StreamId id) {
  const StreamPtr stream = find(id);
  while (stream && find(id) == stream) {
    const auto message = stream->inbox.take();
    if (!message) break;
    stream->events->arrived(message->head, message->body);
  }
  if (!stream || find(id) != stream || stream->peer_ended || !stream->inbox.ended()) return;
  stream->peer_ended = true;
  stream->events->ended();
  close_if_over(id);
}

void Mux::end_if_sent(StreamId id) {
  const StreamPtr stream = find(id);
  if (!stream || !stream->ends || stream->has_ended) return;
  const auto count = outbox_.count_if_empty(id);
  if (!count) return;
  stream->has_ended = true;
  FrameHeader header{FrameType::kEnd, 0, 0, id};
  header.message = *count;
  say(header);
  close_if_over(id);
}

void Mux::close_if_over(StreamId id) {
  const StreamPtr stream = find(id);
  if (stream && stream->peer_ended && stream->has_ended) close(id, std::nullopt);
}

void Mux::close(StreamId id, const std::optional<Error>& error) {
  const StreamPtr stream = find(id);
  if (!stream) return;
  streams_.erase(id);
  if (!stream->is_ours) --theirs_;
  outbox_.remove(id);
  hooks_.detach(id);
  stream->events->closed(error);
}

void Mux::say(FrameHeader header, std::vector<std::byte> words) {
  if (is_over_) return;
  header.length = static_cast<std::uint32_t>(words.size());
  words_.push_back({header, std::move(words), nullptr});
  hooks_.wake();
}

}  // namespace shoal::wire::stream
