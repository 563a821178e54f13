// Events out of a stream, however its bytes are cut.
#include "cli/event_reader.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

struct Reading {
  EventReader::Sink sink = [this](const std::string& id, const std::string& data) {
    events.emplace_back(id, data);
    return wanted == 0 || events.size() < wanted;
  };
  EventReader reader{sink};
  Events events;
  std::size_t wanted = 0;  // 0: all
};

TEST(EventReader, EventsAreTheSameHoweverTheirBytesCome) {
  const std::string text =
      ": hello\n\nid: 1\nevent: tick\ndata: one\n\nid: 2\r\ndata:two\r\ndata:  lines\r\n\r\ndata";
  const Events events = {{"1", "one"}, {"2", "two\n lines"}};
  for (std::size_t step = 1; step <= text.size(); ++step) {
    Reading reading;
    for (std::size_t at = 0; at < text.size(); at += step) {
      EXPECT_TRUE(reading.reader.feed(std::string_view(text).substr(at, step)));
    }
    EXPECT_EQ(reading.events, events) << step;
  }
}

TEST(EventReader, EndsWhenNoMoreIsWanted) {
  Reading reading;
  reading.wanted = 1;
  EXPECT_FALSE(reading.reader.feed("data: a\n\ndata: b\n\n"));
  EXPECT_EQ(reading.events.size(), 1u);
  EXPECT_FALSE(reading.reader.too_long());
}

TEST(EventReader, WhatHasNoEndIsNotWaitedFor) {
  Reading line;
  while (line.reader.feed(std::string(1 << 16, 'x'))) {
  }
  EXPECT_TRUE(line.reader.too_long());
  Reading event;
  while (event.reader.feed("data: " + std::string(1 << 16, 'x') + "\n")) {
  }
  EXPECT_TRUE(event.reader.too_long());
}

}  // namespace
}  // namespace shoal::cli
