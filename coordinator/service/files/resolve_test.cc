#include "coordinator/service/files/resolve.h"

#include <gmock/gmock.h>


#include "coordinator/store/store_test_util.h"
#include "transfer/sha256.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

class ResolveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = std::move(Store::open(folder_.path())).value();
    files_ = std::move(FileStore::open({.folder = folder_.path() + "/files"}, *store_)).value();
  }
  std::string put(const std::string& text) {
    const std::string sha256 = sha256_of(text);
    const auto begun = files_->begin(sha256, Bytes(static_cast<std::int64_t>(text.size())), "ada");
    EXPECT_TRUE(begun.ok());
    if (!begun->record.complete) {
      EXPECT_TRUE(files_->write(sha256, Bytes(), std::as_bytes(std::span(text))).ok());
    }
    return sha256;
  }
  // A text of `size` bytes under this name; the hash of its manifest.
  std::string add(const std::string& name, std::size_t size) {
    const auto bytes = static_cast<std::int64_t>(size);
    data::Manifest manifest{Tokenizer::kBytes, data::chunk_bytes_for(bytes), {}};
    data::Shard shard{.name = name + ".txt", .bytes = bytes, .sha256 = put(std::string(size, 'a'))};
    shard.max_token = 'a';
    const auto chunks = data::chunk_count(shard, manifest.chunk_bytes);
    shard.chunks = put(std::string(static_cast<std::size_t>(chunks) * data::kHashBytes, 'h'));
    manifest.shards.push_back(shard);
    const std::string hash = put(data::to_text(manifest));
    EXPECT_TRUE(files_->add_dataset(name, hash, "ada").ok());
    return hash;
  }
  JobSpec spec(DataSpec data) {
    JobSpec spec;
    spec.name = "a";
    spec.data = std::move(data);
    return spec;
  }
  std::string refusal(DataSpec data) {
    JobSpec job = spec(std::move(data));
    const Status resolved = resolve_datasets(job, *files_);
    return resolved.ok() ? "" : to_string(resolved.error());
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileStore> files_;
};

TEST_F(ResolveTest, ANameBecomesTheHashOfItsManifest) {
  const std::string hash = add("books", 500'000);
  JobSpec job = spec({.dataset = "books"});
  ASSERT_TRUE(resolve_datasets(job, *files_).ok());
  EXPECT_EQ(job.data.dataset, "books@" + hash);
  ASSERT_TRUE(resolve_datasets(job, *files_).ok()) << "again, of a clone";
  EXPECT_EQ(job.data.dataset, "books@" + hash);
  job = spec({.train = "/data/text.txt"});
  ASSERT_TRUE(resolve_datasets(job, *files_).ok());
  EXPECT_EQ(job.data.train, "/data/text.txt");
}

TEST_F(ResolveTest, AHashKeepsItsMeaningWhenTheNameIsGone) {
  const std::string hash = add("books", 500'000);
  const std::string other = add("other", 400'000);
  JobSpec job = spec({.dataset = "renamed@" + hash});
  EXPECT_TRUE(resolve_datasets(job, *files_).ok());
  ASSERT_TRUE(files_->remove_dataset("books", {}).ok());
  EXPECT_THAT(refusal({.dataset = "books@" + hash}), HasSubstr("is not here any more"));
}

TEST_F(ResolveTest, RefusalsNameTheField) {
  add("books", 500'000);
  add("short", 300);
  EXPECT_THAT(refusal({.dataset = "nothing"}), HasSubstr("data.dataset: there is no dataset"));
  EXPECT_THAT(refusal({.mixture = {{"books", 1}, {"nothing", 1}}}),
              HasSubstr("data.mixture: there is no dataset 'nothing'"));
  EXPECT_THAT(refusal({.dataset = "short"}), HasSubstr("dataset short: is too short"));
  EXPECT_THAT(refusal({.tokenizer = Tokenizer::kUint16, .dataset = "books"}),
              HasSubstr("set data.tokenizer = 'bytes'"));
}

}  // namespace
}  // namespace shoal::coordinator
