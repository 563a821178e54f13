#include "agent/host/data_folder.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

TEST(DataFolder, IdentityIsMadeOnce) {
  TestFolder folder;
  std::string uid;
  {
    const auto first = DataFolder::open(folder.path() + "/agent");
    ASSERT_TRUE(first.ok()) << to_string(first.error());
    uid = (*first)->uid();
    EXPECT_EQ(uid.size(), 32u);
  }
  const auto again = DataFolder::open(folder.path() + "/agent/");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->uid(), uid);
  EXPECT_EQ((*again)->path(), folder.path() + "/agent");
}

TEST(DataFolder, ASecondAgentIsRefused) {
  TestFolder folder;
  const auto first = DataFolder::open(folder.path());
  ASSERT_TRUE(first.ok());
  const auto second = DataFolder::open(folder.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kConflict);
  EXPECT_FALSE(second.error().remedy.empty());
}

TEST(DataFolder, ADamagedIdentityIsNotReplaced) {
  TestFolder folder;
  for (const std::string& bad : {std::string("hello"), std::string(), std::string(31, 'a'),
                                 std::string(33, 'a'), std::string(31, 'a') + "A"}) {
    std::ofstream(folder.path() + "/agent_id") << bad << "\n";
    const auto opened = DataFolder::open(folder.path());
    ASSERT_FALSE(opened.ok()) << bad;
    EXPECT_EQ(opened.error().code, Code::kDataLoss);
  }
}

TEST(DataFolder, WhatWasFetchedOutlivesAStartAndWhatWasWrittenDoesNot) {
  TestFolder folder;
  for (const char* inside :
       {"fetched/job_1/ckpt_3", "fetched/job_1/ckpt_4.part", "written/rep_2/ckpt_5"}) {
    fs::create_directories(folder.path() + "/" + inside);
  }
  std::ofstream(folder.path() + "/fetched/job_1/ckpt_3.list") << "list";
  const auto opened = DataFolder::open(folder.path());
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(fs::exists(folder.path() + "/fetched/job_1/ckpt_3.part"));
  EXPECT_TRUE(fs::exists(folder.path() + "/fetched/job_1/ckpt_3.part.list"));
  EXPECT_TRUE(fs::exists(folder.path() + "/fetched/job_1/ckpt_4.part"));
  EXPECT_FALSE(fs::exists(folder.path() + "/written/rep_2/ckpt_5"));
}

TEST(DataFolder, WhatAnEarlierVersionLeftElsewhereIsDeleted) {
  TestFolder folder;
  for (const char* inside : {"fetched/ckpt_3", "fetched/ckpt_4.part", "written/ckpt_5"}) {
    fs::create_directories(folder.path() + "/" + inside);
  }
  std::ofstream(folder.path() + "/fetched/ckpt_3.list") << "list";
  ASSERT_TRUE(DataFolder::open(folder.path()).ok());
  EXPECT_TRUE(fs::is_empty(folder.path() + "/fetched"));
  EXPECT_TRUE(fs::is_empty(folder.path() + "/written"));
}

// The rules of a confined program hold for the folder itself, not for its name.
TEST(DataFolder, FoldersOfRunningReplicasAndJobsStayAndOthersGo) {
  TestFolder folder;
  for (const char* inside : {"written/rep_1/ckpt_5", "written/rep_2", "written/rep_3/ckpt_6",
                             "fetched/job_1", "fetched/job_2", "fetched/job_3/ckpt_4.part"}) {
    fs::create_directories(folder.path() + "/" + inside);
  }
  const auto opened = DataFolder::open(folder.path()).value();
  const auto is_there = [&](const char* inside) {
    return fs::exists(folder.path() + "/" + inside);
  };
  EXPECT_TRUE(is_there("written/rep_1"));
  EXPECT_FALSE(is_there("written/rep_1/ckpt_5"));
  opened->keep_folders_of({{{}, ReplicaId(1), JobId(1), 0}}, false);
  EXPECT_TRUE(is_there("written/rep_1"));
  EXPECT_FALSE(is_there("written/rep_2"));
  EXPECT_TRUE(is_there("fetched/job_2")) << "a fetch may have begun";
  opened->keep_folders_of({{{}, ReplicaId(1), JobId(1), 0}}, true);
  EXPECT_TRUE(is_there("fetched/job_1"));
  EXPECT_FALSE(is_there("fetched/job_2"));
  EXPECT_TRUE(is_there("fetched/job_3/ckpt_4.part")) << "the next fetch continues it";
}

TEST(DataFolder, ASocketThatAKilledAgentLeftIsRemoved) {
  TestFolder folder;
  const std::string socket = folder.path() + "/trainer.sock";
  std::ofstream{socket};
  {
    const auto opened = DataFolder::open(folder.path());
    ASSERT_TRUE(opened.ok());
    EXPECT_FALSE(fs::exists(socket));
    std::ofstream{socket};
  }
  EXPECT_FALSE(fs::exists(socket)) << "nor does it leave one";
}

TEST(DataFolder, AFolderThatItMakesIsItsUsersOnly) {
  TestFolder folder;
  const auto opened = DataFolder::open(folder.path() + "/agent");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(fs::status(folder.path() + "/agent").permissions(), fs::perms::owner_all);
}

TEST(DataFolder, FilesInTransitDoNotOutliveAStart) {
  TestFolder folder;
  fs::create_directories(folder.path() + "/fetched/ckpt_1");
  std::ofstream(folder.path() + "/fetched/ckpt_1/a") << "x";
  ASSERT_TRUE(DataFolder::open(folder.path()).ok());
  EXPECT_FALSE(fs::exists(folder.path() + "/fetched/ckpt_1"));
}

TEST(DataFolder, ALongPathGetsAShortSocket) {
  TestFolder folder;
  const std::string deep = folder.path() + "/" + std::string(100, 'd');
  std::string socket;
  {
    const auto opened = DataFolder::open(deep);
    ASSERT_TRUE(opened.ok());
    socket = (*opened)->socket_path();
    EXPECT_LT(socket.size(), 108u);
    EXPECT_TRUE(fs::exists(fs::path(socket).parent_path()));
  }
  EXPECT_FALSE(fs::exists(fs::path(socket).parent_path()));
  EXPECT_EQ(DataFolder::open(deep).value()->socket_path(), socket) << "trainers look for it there";
  const auto opened = DataFolder::open(folder.path());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->socket_path(), folder.path() + "/trainer.sock");
}

TEST(DataFolder, APrivateFolderOfOthersIsNotUsed) {
  TestFolder folder;
  const std::string deep = folder.path() + "/" + std::string(100, 'd');
  const fs::path own = fs::path(DataFolder::open(deep).value()->socket_path()).parent_path();
  fs::create_directory(own);
  fs::permissions(own, fs::perms::all);
  const auto opened = DataFolder::open(deep);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find(own.string()), std::string::npos);
  fs::remove(own);
}

TEST(DataFolder, AFileInTheWayIsNamed) {
  TestFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  const auto opened = DataFolder::open(folder.path() + "/file/agent");
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find(folder.path()), std::string::npos);
}

}  // namespace
}  // namespace shoal::agent
