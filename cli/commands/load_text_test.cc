#include "cli/commands/load_text.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

Json replica(const char* state, Json load) {
  return {{"id", "rep_4"}, {"agent", "agt_3"}, {"state", state}, {"load", std::move(load)}};
}

const Json kLoad = {{"done_bytes", 12 << 20},
                    {"total_bytes", 53 << 20},
                    {"bytes_per_second", 1e6},
                    {"share", .14},
                    {"left_s", 40}};

TEST(LoadText, SaysHowFarItIsAndForHowLong) {
  const std::string text = load_text(replica("loading", kLoad));
  EXPECT_NE(text.find(" of "), std::string::npos) << text;
  EXPECT_NE(text.find("left, r = 0.14"), std::string::npos) << text;
}

TEST(LoadText, WhatIsNotKnownIsLeftOut) {
  const Json load = {
      {"done_bytes", 100}, {"total_bytes", nullptr}, {"share", 0}, {"left_s", nullptr}};
  const std::string text = load_text(replica("loading", load));
  EXPECT_EQ(text.find("of"), std::string::npos) << text;
  EXPECT_EQ(text.find("left"), std::string::npos) << text;
  EXPECT_EQ(load_text(replica("loading", nullptr)), "");
  EXPECT_EQ(load_text(replica("serving", kLoad)), "");
}

TEST(LoadText, NamesTheAgent) {
  const Json agents = {{{"id", "agt_3"}, {"name", "late"}}};
  const std::string lines =
      loading_lines({replica("loading", kLoad), replica("serving", nullptr)}, agents);
  EXPECT_EQ(lines.rfind("rep_4 of late loads: ", 0), 0u) << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1);
}

}  // namespace
}  // namespace shoal::cli
