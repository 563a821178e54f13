// The program from outside, as a person or an agent starts it.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread_environment.h"

namespace shoal::trainer {
namespace {

// What it prints, its libraries too, where nobody gave it the environment that it wants.
std::string output_of(const std::string& arguments) {
  std::string command = "env";
  for (const EnvironmentEntry& entry : kThreadEnvironment)
    command += std::string(" -u ") + entry.name;
  command += " OMP_DISPLAY_ENV=verbose " SHOAL_TRAINER_PROGRAM " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  EXPECT_EQ(pclose(pipe), 0) << text;
  return text;
}

TEST(TrainerProgram, OpenMpFoundThatItShallNotSpin) {
  const std::string text = output_of("version");
  EXPECT_THAT(text, testing::HasSubstr("shoal-trainer "));
  const auto told = text.rfind("GOMP_SPINCOUNT");  // by the libgomp of the last start
  if (told == std::string::npos) GTEST_SKIP() << "another OpenMP than libgomp shows no spin count";
  EXPECT_THAT(text.substr(told), testing::StartsWith("GOMP_SPINCOUNT = '0'"));
}

}  // namespace
}  // namespace shoal::trainer
