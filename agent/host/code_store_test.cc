#include "agent/host/code_store.h"

#include <filesystem>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"
#include "agent/host/program_launch.h"
#include "base/sha256.h"
#include "transfer/bundle.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::chrono::seconds kLimit{20};

// A coordinator that has one bundle and may break.
class CodeStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_.path() + "/source");
    std::ofstream(folder_.path() + "/source/train.py") << std::string(1 << 20, 'x');
    bundle_ = pack_bundle(folder_.path() + "/source", {"train.py"}).value();
    code_ = "sha256:" + sha256_of(bundle_);
  }
  std::string home() const { return folder_.path() + "/agent"; }
  std::string program() const { return code_folder(home(), code_) + "/train.py"; }

  Result<std::string> read(Bytes from, Bytes count) {
    asked_.push_back(from.count());
    if (asked_.size() == breaks_at_) return Error{Code::kUnavailable, "the line broke", "", ""};
    return sent_.substr(static_cast<std::size_t>(from.count()),
                        static_cast<std::size_t>(count.count()));
  }
  // Empty: it was fetched; else why not.
  std::string fetch(const std::string& code) {
    std::promise<std::string> promise;
    CodeStore store(
        home(),
        [this](const FetchCode&, Bytes from, Bytes count, const std::stop_token&) {
          return read(from, count);
        },
        [&](const Input& input) {
          if (std::holds_alternative<CodeFetched>(input)) promise.set_value("");
          if (const auto* failed = std::get_if<CodeFetchFailed>(&input)) {
            promise.set_value(to_string(failed->error));
          }
        });
    store.fetch({code, ReplicaId(1), {code}});
    auto future = promise.get_future();
    if (future.wait_for(kLimit) != std::future_status::ready) return "nothing came";
    return future.get();
  }
  std::string fetch() { return fetch(code_); }

  TestFolder folder_;
  std::string bundle_, code_;
  std::string& sent_ = bundle_;
  std::vector<std::int64_t> asked_;
  std::size_t breaks_at_ = 0;
};

TEST_F(CodeStoreTest, WhatWasFetchedIsUnpackedOnce) {
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(fs::file_size(program()), 1u << 20);
  const std::size_t asked = asked_.size();
  EXPECT_GT(asked, 1u) << "piece by piece";
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(asked_.size(), asked) << "it is here";
}

TEST_F(CodeStoreTest, AFetchThatBrokeGoesOn) {
  breaks_at_ = 2;
  EXPECT_THAT(fetch(), HasSubstr("the line broke"));
  breaks_at_ = 0;
  asked_.clear();
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(asked_.front(), CodeStore::kPieceMin.count());
}

TEST_F(CodeStoreTest, AnotherHashIsRefusedAndNothingOfItStays) {
  sent_[600] ^= 1;
  EXPECT_THAT(fetch(), HasSubstr("is not the code of the job"));
  EXPECT_FALSE(fs::exists(program()));
  sent_[600] ^= 1;
  EXPECT_EQ(fetch(), "") << "it starts over";
}

TEST_F(CodeStoreTest, WhatIsNoBundleIsRefused) {
  sent_ = "#!/bin/sh\n";
  EXPECT_THAT(fetch("sha256:" + sha256_of(sent_)), HasSubstr("not a bundle"));
}

TEST_F(CodeStoreTest, ACoordinatorThatNeverEndsIsCutOff) {
  sent_ = std::string(static_cast<std::size_t>(kBundleBytesMax.count()) + (16 << 20), 'x');
  EXPECT_THAT(fetch(), HasSubstr("too large"));
}

TEST_F(CodeStoreTest, OldCodeGoes) {
  EXPECT_EQ(fetch(), "");
  for (std::size_t i = 0; i < CodeStore::kKeptMax + 3; ++i) {
    fs::create_directories(home() + "/code/" + std::string(63, '0') + std::to_string(i % 10) +
                           (i > 9 ? "x" : ""));
  }
  EXPECT_EQ(fetch(), "");
  const auto left = std::distance(fs::directory_iterator(home() + "/code"), {});
  EXPECT_EQ(static_cast<std::size_t>(left), CodeStore::kKeptMax + 1) << "and what is in use";
  EXPECT_TRUE(fs::exists(program()));
}

}  // namespace
}  // namespace shoal::agent
