#include "cli/table.h"

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

TEST(Table, AlignsColumns) {
  Table table({"NAME", ">STEP", "ID"});
  table.add({"kjv", "50", "job-1"});
  table.add({"a-longer-name", "1200", "job-2"});
  EXPECT_EQ(table.render(false),
            "NAME           STEP  ID\n"
            "kjv              50  job-1\n"
            "a-longer-name  1200  job-2\n");
}

TEST(Table, ColorDoesNotCountForTheWidth) {
  Table table({"A", "B"});
  table.add({{"ok", Color::kGreen}, "x"});
  EXPECT_EQ(table.render(true), "\033[1mA \033[0m  \033[1mB\033[0m\n\033[32mok\033[0m  x\n");
}

TEST(Table, WidthIsInCodePoints) {
  EXPECT_EQ(display_width("für"), 3u);
  EXPECT_EQ(display_width("█▌"), 2u);
}

}  // namespace
}  // namespace shoal::cli
