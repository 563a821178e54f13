#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands/commands.h"

namespace shoal::cli {
namespace {

// Behind "--prompt=" the parser of the trainer would take the next option for the prompt.
TEST(Generate, AnEmptyPromptAndOneThatLooksLikeAnOptionAreTaken) {
  GenerateOptions options;
  options.tokens = 10;
  for (const char* prompt : {"", "--tokens=3", "Once"}) {
    options.prompt = prompt;
    const auto words = generate_arguments("/bin/shoal-trainer", "/model", options);
    const auto flag = std::find(words.begin(), words.end(), "--prompt");
    ASSERT_TRUE(flag != words.end() && flag + 1 != words.end());
    EXPECT_EQ(*(flag + 1), prompt);
    EXPECT_THAT(words, testing::Contains("--tokens=10"));
  }
}

}  // namespace
}  // namespace shoal::cli
