// Memory is unpinned when the last slice goes; received messages keep their bytes in order.
#include "wire/slices.h"

#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

namespace shoal::wire {
namespace {

std::span<const std::byte> as_span(const char* text) {
  return {reinterpret_cast<const std::byte*>(text), std::strlen(text)};
}

TEST(SlicePins, WaitsForTheLastReference) {
  SlicePins pins;
  const char* memory = "tensor";
  {
    grpc::Slice slice = pins.pin(as_span(memory));
    EXPECT_EQ(static_cast<const void*>(slice.begin()), memory);  // no copy
    const grpc::ByteBuffer buffer(&slice, 1);
    slice = grpc::Slice();
    EXPECT_EQ(pins.out(), 1);
    EXPECT_FALSE(pins.wait_returned(Duration{}));
  }
  EXPECT_EQ(pins.out(), 0);
  EXPECT_TRUE(pins.wait_returned(Duration{}));
}

// Many times, so that some of them come while it waits.
TEST(SlicePins, WakesWhenTheLastSliceIsReturned) {
  SlicePins pins;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) {
    std::thread other([slice = pins.pin(as_span("tensor"))]() mutable { slice = grpc::Slice(); });
    EXPECT_TRUE(pins.wait_returned(seconds(30)));
    other.join();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Received, HeaderAndPiecesOverSliceBorders) {
  SlicePins pins;
  {
    const grpc::Slice slices[] = {pins.pin(as_span("ab")), pins.pin(as_span("cdef")),
                                  pins.pin(as_span("gh"))};
    const grpc::ByteBuffer buffer(slices, 3);
    Received message;
    ASSERT_TRUE(message.take(buffer));
    EXPECT_EQ(message.size(), 8u);
    std::array<std::byte, 3> front;
    message.copy_front(front);
    EXPECT_EQ(std::memcmp(front.data(), "abc", 3), 0);
    std::string rest;
    for (const auto& piece : message.pieces(3)) {
      rest.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    EXPECT_EQ(rest, "defgh");
    EXPECT_EQ(message.pieces(2).size(), 2u);
    EXPECT_TRUE(message.pieces(8).empty());
  }
  EXPECT_TRUE(pins.wait_returned(Duration{}));
}

TEST(Received, RefusesNothing) {
  Received message;
  EXPECT_FALSE(message.take(grpc::ByteBuffer()));
}

}  // namespace
}  // namespace shoal::wire
