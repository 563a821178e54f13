// Streams for threads that wait: what comes in order, ends, limits, and a writer that is held back.
#include "wire/stream/blocking_stream.h"

#include <gtest/gtest.h>

#include "wire/stream/stream_test_util.h"

namespace shoal::wire::stream {
namespace {

std::shared_ptr<const ByteVector> body_of(std::size_t size) {
  return std::make_shared<const ByteVector>(size, std::byte{7});
}

// A node whose streams wait to be taken, and one that dials it.
class Blocking : public testing::Test {
 protected:
  Blocking() {
    server_ = Node::start({.local_sockets = false}, [this](std::shared_ptr<Stream> stream,
                                                           std::string_view) {
                auto made = std::make_shared<BlockingStream>(std::move(stream));
                accepted_.set_value(made);
                return made;
              }).value();
    client_ = Node::start({.local_sockets = false}, nullptr).value();
    pair_ = dial_and_wait(*client_, {.address = server_->address()}).value();
    ours_ = BlockingStream::open(*pair_, "s", kLimit);
    theirs_ = accepted_.get_future().get();
  }

  std::promise<std::shared_ptr<BlockingStream>> accepted_;
  std::unique_ptr<Node> server_, client_;
  std::shared_ptr<Pair> pair_;
  std::shared_ptr<BlockingStream> ours_, theirs_;
};

TEST_F(Blocking, MessagesComeInOrderThenTheEnd) {
  for (const std::size_t size : {0u, 1u, 300'000u, 0u}) {
    ASSERT_TRUE(ours_->write(to_bytes(std::to_string(size)), body_of(size), kLimit).ok());
  }
  ours_->end();
  for (const std::size_t size : {0u, 1u, 300'000u, 0u}) {
    const auto message = theirs_->read(kLimit);
    ASSERT_TRUE(message.ok() && *message);
    EXPECT_EQ(to_text((*message)->head), std::to_string(size));
    EXPECT_EQ((*message)->body, *body_of(size));
    EXPECT_GT((*message)->arrived, Instant());
  }
  const auto end = theirs_->read(kLimit);
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(*end);
  EXPECT_TRUE(theirs_->finish(kLimit).ok());
  EXPECT_TRUE(ours_->finish(kLimit).ok());
  EXPECT_TRUE(ours_->is_over());
  EXPECT_FALSE(ours_->write({}, nullptr, kLimit).ok());
}

TEST_F(Blocking, AReaderWaitsNoLongerThanItsLimit) {
  EXPECT_EQ(theirs_->read(milliseconds(10)).error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(theirs_->read(Duration()).error().code, Code::kDeadlineExceeded);
  EXPECT_FALSE(theirs_->is_over());
}

TEST_F(Blocking, ACancelTellsTheReasonToBoth) {
  theirs_->cancel({Code::kConflict, "another round", "", ""});
  const auto read = ours_->read(kLimit);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kConflict);
  EXPECT_EQ(read.error().message, "another round");
  EXPECT_EQ(theirs_->read(kLimit).error().code, Code::kConflict);
}

// The reader takes nothing: its window fills, then what the writer may have on its way.
TEST_F(Blocking, AWriterIsHeldBack) {
  Status written;
  std::size_t bytes = 0;
  for (const auto body = body_of(256 << 10); written.ok() && bytes < 200'000'000;) {
    written = ours_->write({}, body, milliseconds(500));
    if (written.ok()) bytes += body->size();
  }
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, Code::kDeadlineExceeded);
  EXPECT_LE(bytes, 2 * kMessageMax + BlockingStream::kAheadBytes + kMessageMax);
  ASSERT_TRUE(theirs_->read(kLimit).ok());
}

TEST_F(Blocking, WithTheirNodeStreamsAreOver) {
  theirs_.reset();
  server_.reset();
  EXPECT_EQ(ours_->read(kLimit).error().code, Code::kUnavailable);
}

TEST_F(Blocking, WhoCannotBeDialedIsNamed) {
  const std::string address = server_->address();
  theirs_.reset();
  server_.reset();
  const auto pair = dial_and_wait(*client_, {.address = address});
  ASSERT_FALSE(pair.ok());
  EXPECT_EQ(pair.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace shoal::wire::stream
