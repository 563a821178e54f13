// What is asked of the coordinator, and which exit code follows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands/commands.h"
#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointCare : public testing::Test {
 protected:
  Context context() const { return {Api(server_.address()), true}; }
  std::string answer(const std::string& request) {
    asked_.push_back(request.substr(0, request.find(" HTTP")));
    if (request.starts_with("POST")) {
      const bool bad = request.find("file=b") != std::string::npos;
      return http_answer(200, bad ? R"({"ok": false, "files": [{"path": "b", "ok": false}]})"
                                  : R"({"ok": true, "files": [{"path": "a", "ok": true}]})");
    }
    if (request.starts_with("DELETE")) {
      const bool force = request.find("force=true") != std::string::npos;
      return force ? http_answer(200, R"({"id": "ckpt_1"})")
                   : http_answer(409, R"({"detail": "ckpt_1 is needed", "errors":
                       [{"pointer": "/pinned", "detail": "it is pinned"}], "hint": "--force"})");
    }
    return http_answer(200, R"({"files": [{"path": "a"}, {"path": ")" + second_ + R"("}],
      "items": [], "next_cursor": null})");
  }
  std::string second_ = "c";
  std::vector<std::string> asked_;
  ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
};

TEST_F(CheckpointCare, ListsThoseOfAJobOrAll) {
  EXPECT_EQ(*checkpoint_ls(context(), ""), kExitOk);
  EXPECT_EQ(*checkpoint_ls(context(), "mine"), kExitOk);
  EXPECT_THAT(asked_[0], HasSubstr("/api/v1/checkpoints"));
  EXPECT_THAT(asked_[1], HasSubstr("/api/v1/jobs/mine/checkpoints"));
}

TEST_F(CheckpointCare, VerifiesFileByFile) {
  EXPECT_EQ(*checkpoint_verify(context(), "ckpt_1"), kExitOk);
  EXPECT_THAT(asked_, ElementsAre("GET /api/v1/checkpoints/ckpt_1",
                                  "POST /api/v1/checkpoints/ckpt_1/verify?file=a",
                                  "POST /api/v1/checkpoints/ckpt_1/verify?file=c"));
  second_ = "b";
  EXPECT_EQ(*checkpoint_verify(context(), "ckpt_1"), kExitFailure);
}

TEST_F(CheckpointCare, ARefusedRemovalNamesWhatWouldBreak) {
  const auto refused = checkpoint_rm(context(), "ckpt_1", false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("it is pinned"));
  EXPECT_EQ(*checkpoint_rm(context(), "ckpt_1", true), kExitOk);
}

TEST_F(CheckpointCare, PinsAndUnpins) {
  EXPECT_EQ(*checkpoint_pin(context(), "ckpt_1"), kExitOk);
  EXPECT_EQ(*checkpoint_unpin(context(), "ckpt_1"), kExitOk);
  EXPECT_THAT(asked_, Contains("POST /api/v1/checkpoints/ckpt_1/pin"));
  EXPECT_THAT(asked_, Contains("POST /api/v1/checkpoints/ckpt_1/unpin"));
}

}  // namespace
}  // namespace shoal::cli
