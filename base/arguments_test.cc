#include "base/arguments.h"

#include <vector>

#include <gtest/gtest.h>

namespace shoal {
namespace {

Status check(std::vector<const char*> arguments, std::vector<const char*> environment = {}) {
  arguments.insert(arguments.begin(), "shoal");
  environment.push_back(nullptr);
  return check_arguments(static_cast<int>(arguments.size()), arguments.data(), environment.data());
}

TEST(Arguments, InUtf8AreTaken) {
  EXPECT_TRUE(check({}).ok());
  EXPECT_TRUE(check({"up", "--name", "Zürich", "--label=site=東京", "-"}).ok());
}

TEST(Arguments, OtherBytesAreRefusedByTheNameOfTheOption) {
  EXPECT_EQ(check({"--name", "caf\xe9"}).error().field, "--name");
  EXPECT_EQ(check({"--name=caf\xe9"}).error().field, "--name");
  EXPECT_EQ(check({"--label=site=caf\xe9"}).error().field, "--label");
  EXPECT_EQ(check({"-o", "caf\xe9"}).error().field, "-o");
  EXPECT_EQ(check({"job", "submit", "caf\xe9.toml"}).error().field, "argument 3");
  EXPECT_EQ(check({"--ok=1", "caf\xe9"}).error().field, "argument 2");
  EXPECT_EQ(check({"--\xff=1"}).error().field, "argument 1");
  EXPECT_EQ(to_string(check({"--name=caf\xe9"}).error()),
            "--name: 'caf\\xe9' is not UTF-8 (write it in UTF-8, or rename the file or folder that "
            "it names)");
}

TEST(Arguments, OfTheEnvironmentOnlyShoalsOwnVariablesCount) {
  EXPECT_EQ(check({}, {"SHOAL_ADDR=caf\xe9"}).error().field, "SHOAL_ADDR");
  EXPECT_TRUE(check({}, {"SHOAL_ADDR=here", "PS1=caf\xe9", "SHOAL_\xff=1", "\xff"}).ok());
}

}  // namespace
}  // namespace shoal
