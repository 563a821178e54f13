// Streams that are answered by threads: many at once, more than threads, refusals, and the end.
#include "outer_opt/transport/stream_servers.h"

#include <atomic>
#include <future>

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

using wire::stream::BlockingStream;
using wire::stream::Node;

// A node whose streams are all answered by `serve`, and a pair with it.
struct Served {
  Served(std::size_t threads, std::size_t waiting, StreamServers::Serve serve)
      : servers(threads, waiting) {
    const auto accept = [this, serve](auto stream, std::string_view) {
      return servers.take(std::move(stream), serve);
    };
    server = Node::start({.local_sockets = false}, accept).value();
    client = Node::start({.bind = ""}, nullptr).value();
    pair = wire::stream::dial_and_wait(*client, {.address = server->address()}).value();
  }
  ~Served() { servers.stop(); }
  std::shared_ptr<BlockingStream> open() const {
    return BlockingStream::open(*pair, "any", seconds(20));
  }

  StreamServers servers;
  std::unique_ptr<Node> server, client;
  std::shared_ptr<wire::stream::Pair> pair;
};

TEST(StreamServers, EachStreamIsAnsweredAndEnds) {
  Served served(2, 16, [](BlockingStream& stream) {
    const auto message = stream.read(seconds(10));
    return stream.write((*message)->head, nullptr, seconds(10));
  });
  std::vector<std::shared_ptr<BlockingStream>> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(served.open());  // more than threads
  for (int i = 5; i >= 0; --i) {
    const auto& stream = streams[static_cast<std::size_t>(i)];
    ASSERT_TRUE(
        stream->write(wire::stream::to_bytes(std::to_string(i)), nullptr, seconds(10)).ok());
  }
  for (int i = 0; i < 6; ++i) {
    const auto& stream = streams[static_cast<std::size_t>(i)];
    const auto answer = stream->read(seconds(10));
    ASSERT_TRUE(answer.ok() && *answer);
    EXPECT_EQ(wire::stream::to_text((*answer)->head), std::to_string(i));
    EXPECT_TRUE(stream->finish(seconds(10)).ok());
  }
}

TEST(StreamServers, AnErrorGoesToWhoeverAsked) {
  const Served served(1, 1, [](BlockingStream&) -> Status {
    return Error{Code::kConflict, "another round", "", ""};
  });
  const auto answer = served.open()->read(seconds(10));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kConflict);
}

TEST(StreamServers, WhatWasWrittenComesBeforeTheError) {
  const Served served(1, 1, [](BlockingStream& stream) -> Status {
    const auto body = std::make_shared<const wire::stream::ByteVector>(300'000);
    if (Status sent = stream.write({}, body, seconds(10)); !sent.ok()) return sent;
    return Error{Code::kConflict, "no more", "", ""};
  });
  const auto stream = served.open();
  const auto message = stream->read(seconds(10));
  ASSERT_TRUE(message.ok() && *message);
  EXPECT_EQ((*message)->body.size(), 300'000u);
  EXPECT_EQ(stream->read(seconds(10)).error().code, Code::kConflict);
}

TEST(StreamServers, TooManyAreRefused) {
  std::promise<void> begun, go_on;
  auto may = go_on.get_future().share();
  const Served served(1, 1, [&, may](BlockingStream&) {
    static std::atomic<int> count = 0;
    if (++count == 1) begun.set_value();
    may.wait();
    return Status();
  });
  const auto first = served.open();
  begun.get_future().wait();
  const auto second = served.open(), third = served.open();
  const auto refused = third->read(seconds(10));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  go_on.set_value();
  for (const auto& stream : {first, second}) {
    const auto end = stream->read(seconds(10));
    EXPECT_TRUE(end.ok() && !*end);
  }
}

TEST(StreamServers, StopEndsWhatIsAnswered) {
  std::promise<void> begun;
  Served served(1, 1, [&](BlockingStream& stream) {
    begun.set_value();
    return stream.read(seconds(20)).ok() ? Status() : Status(Error{Code::kInternal, "", "", ""});
  });
  const auto stream = served.open();
  begun.get_future().wait();
  const auto before = std::chrono::steady_clock::now();
  served.servers.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
  EXPECT_EQ(stream->read(seconds(10)).error().code, Code::kCancelled);
  EXPECT_EQ(served.open()->read(seconds(10)).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace shoal::outer_opt
