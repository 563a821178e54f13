#include "transfer/bundle.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class BundleTest : public testing::Test {
 protected:
  BundleTest() { fs::create_directories(source()); }
  ~BundleTest() override { fs::remove_all(root_); }

  std::string source() const { return root_ + "/source"; }
  std::string target() const { return root_ + "/target"; }
  void write(const std::string& path, const std::string& text) const {
    const fs::path file = fs::path(source()) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string pack(const std::vector<std::string>& paths) const {
    auto bundle = pack_bundle(source(), paths);
    EXPECT_TRUE(bundle.ok()) << to_string(bundle.error());
    return bundle.ok() ? *bundle : "";
  }
  std::string refused(const std::string& bundle) const {
    const Status status = unpack_bundle(bundle, target());
    EXPECT_FALSE(fs::exists(target())) << "nothing is left of it";
    return status.ok() ? "" : to_string(status.error());
  }

 private:
  const std::string root_ = [] {
    std::string name = testing::TempDir() + "bundle_XXXXXX";
    return std::string(::mkdtemp(name.data()));
  }();
};

TEST_F(BundleTest, WhatIsPackedIsUnpacked) {
  const std::string deep = std::string(90, 'd') + "/" + std::string(97, 'f') + ".py";
  write("train.py", "import model\n");
  write("model/__init__.py", "");
  write("model/block.bin", std::string("\0\1\2", 3) + std::string(2000, 'x'));
  write(deep, "1");
  write("run.sh", "#!/bin/sh\n");
  fs::permissions(source() + "/run.sh", fs::perms::owner_all);
  const std::string bundle =
      pack({"train.py", "model/block.bin", "model/__init__.py", deep, "run.sh"});
  const Status unpacked = unpack_bundle(bundle, target());
  ASSERT_TRUE(unpacked.ok()) << to_string(unpacked.error());
  for (const std::string& path : {std::string("train.py"), std::string("model/__init__.py"),
                                  std::string("model/block.bin"), deep, std::string("run.sh")}) {
    EXPECT_EQ(read(fs::path(target()) / path), read(fs::path(source()) / path)) << path;
  }
  const auto mode = [&](const char* name) {
    return static_cast<int>(fs::status(fs::path(target()) / name).permissions());
  };
  EXPECT_EQ(mode("train.py"), 0444);
  EXPECT_EQ(mode("run.sh"), 0555);
}

TEST_F(BundleTest, EqualFilesGiveEqualBytes) {
  write("a.py", "a");
  write("b.py", "b");
  const std::string first = pack({"b.py", "a.py"});
  fs::last_write_time(source() + "/a.py", fs::file_time_type::clock::now() - std::chrono::hours(9));
  fs::permissions(source() + "/a.py", fs::perms::owner_read);
  EXPECT_EQ(sha256_of(pack({"a.py", "b.py"})), sha256_of(first));
  write("a.py", "A");
  EXPECT_NE(sha256_of(pack({"a.py", "b.py"})), sha256_of(first));
}

TEST_F(BundleTest, TheTarOfTheSystemReadsIt) {
  write("model/a.py", "print(1)\n");
  const std::string file = source() + "/bundle.tar";
  std::ofstream(file, std::ios::binary) << pack({"model/a.py"});
  FILE* tar = ::popen(("tar tf " + file).c_str(), "r");
  ASSERT_NE(tar, nullptr);
  char line[64] = {};
  ASSERT_NE(::fgets(line, sizeof line, tar), nullptr);
  EXPECT_STREQ(line, "model/a.py\n");
  EXPECT_EQ(::pclose(tar), 0);
}

TEST_F(BundleTest, WhatCannotBePackedIsNamed) {
  write("a.py", "a");
  fs::create_symlink("a.py", source() + "/link.py");
  const std::string long_name(101, 'n');
  write(long_name, "");
  const auto error = [&](const std::string& path) {
    return to_string(pack_bundle(source(), {path}).error());
  };
  EXPECT_THAT(error("link.py"), HasSubstr("link.py"));
  EXPECT_THAT(error("link.py"), HasSubstr("is no regular file"));
  EXPECT_THAT(error(long_name), HasSubstr("too long a path"));
  EXPECT_THAT(error("../a.py"), HasSubstr("is not within the folder"));
  EXPECT_THAT(error("none.py"), HasSubstr("none.py"));
  const std::vector<std::string> many(kBundleFilesMax + 1, "a.py");
  EXPECT_THAT(to_string(pack_bundle(source(), many).error()), HasSubstr("at most 4096"));
  { std::ofstream(source() + "/large.bin") << 'x'; }
  fs::resize_file(source() + "/large.bin", static_cast<std::uintmax_t>(kBundleBytesMax.count()));
  EXPECT_THAT(error("large.bin"), HasSubstr("more than the 67.1 MB"));
}

TEST_F(BundleTest, NothingButItsOwnFormIsUnpacked) {
  write("a.py", "aaa");
  write("b.py", "bbb");
  const std::string good = pack({"a.py", "b.py"});
  const auto with = [&](const std::function<void(std::string&)>& change) {
    std::string bad = good;
    change(bad);
    return refused(bad);
  };
  constexpr std::size_t kType = 156, kBlock = 512, kEntry = 1024;
  EXPECT_NE(with([](std::string& b) { b.resize(700); }), "");
  EXPECT_NE(with([](std::string& b) { b.resize(b.size() - 512); }), "");
  EXPECT_NE(with([](std::string& b) { b += std::string(512, '\0'); }), "");
  EXPECT_NE(with([](std::string& b) { b.clear(); }), "");
  EXPECT_NE(with([&](std::string& b) { b[kType] = '2'; }), "") << "a link";
  EXPECT_NE(with([](std::string& b) { b[0] = '/'; }), "");
  EXPECT_NE(with([](std::string& b) { b[124] = '7'; }), "") << "a size beyond the end";
  EXPECT_NE(with([&](std::string& b) { std::swap_ranges(&b[0], &b[kEntry], &b[kEntry]); }), "")
      << "not in order: a second file of the same path could follow";
  EXPECT_NE(with([&](std::string& b) { b[kBlock + 3] = 'x'; }), "") << "more than the file";
  EXPECT_NE(refused(std::string(4096, 'x')), "");
}

TEST_F(BundleTest, AForeignArchiveWithPathsThatLeadOutIsRefused) {
  write("a.py", "aaa");
  // The checksum is right, the path is not: `tar -P` writes such ones.
  std::string bundle = pack({"a.py"});
  const std::string path = "../a";
  std::copy(path.begin(), path.end(), bundle.begin());
  EXPECT_NE(refused(bundle), "");
}

TEST_F(BundleTest, AFileThatIsAlsoAFolderIsRefusedAndNothingStays) {
  write("a", "1");
  std::string first = pack({"a"});
  fs::remove(source() + "/a");
  write("a/b", "2");
  const std::string second = pack({"a/b"});
  first.resize(1024);
  EXPECT_NE(refused(first + second), "");
}

}  // namespace
}  // namespace shoal
