#include "cli/user_folder.h"

#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

// Puts a variable back at the end of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::string found() {
  const auto folder = user_folder("XDG_DATA_HOME", ".local/share", "--data-dir");
  return folder.ok() ? *folder : folder.error().field;
}

TEST(UserFolder, FollowsXdgThenHome) {
  const Variable home("HOME", "/h");
  const Variable xdg("XDG_DATA_HOME", "/x");
  EXPECT_EQ(found(), "/x/shoal");
  const Variable none("XDG_DATA_HOME", nullptr);
  EXPECT_EQ(found(), "/h/.local/share/shoal");
}

TEST(UserFolder, IsNeverGuessed) {
  const Variable xdg("XDG_DATA_HOME", "relative");
  for (const char* value : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Variable home("HOME", value);
    EXPECT_EQ(found(), "--data-dir");
  }
}

}  // namespace
}  // namespace shoal::cli
