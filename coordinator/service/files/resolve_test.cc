#include "coordinator/service/files/resolve.h"

#include <set>

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/store/store_test_util.h"
#include "data/stored_tokens.h"
#include "job/chunk_order.h"
#include "job/data_rules.h"
#include "job/references.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

const ObjectUser kAda{.name = "ada"}, kBob{.name = "bob"};

class ResolveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = std::move(Store::open(folder_.path())).value();
    files_ = std::move(FileStore::open({.folder = folder_.path() + "/files"}, *store_)).value();
  }
  std::string put(const std::string& text) {
    const std::string sha256 = sha256_of(text);
    const auto begun = files_->begin(sha256, Bytes(static_cast<std::int64_t>(text.size())), kAda);
    EXPECT_TRUE(begun.ok());
    if (!begun->record.complete) {
      EXPECT_TRUE(files_->write(sha256, Bytes(), std::as_bytes(std::span(text)), kAda).ok());
    }
    return sha256;
  }
  // A text of `size` bytes that lies elsewhere; the hash of its manifest.
  std::string add(const std::string& name, std::size_t size, const std::string& tokenizer = {}) {
    const auto bytes = static_cast<std::int64_t>(size);
    data::Manifest manifest{Tokenizer::kBytes, data::chunk_bytes_for(bytes), {}, tokenizer};
    data::Shard shard{.name = name + ".txt", .bytes = bytes, .sha256 = sha256_of(name)};
    shard.url = "https://example.org/" + name + ".txt";
    shard.max_token = 'a';
    const auto chunks = data::chunk_count(shard, manifest.chunk_bytes);
    shard.chunks = put(std::string(static_cast<std::size_t>(chunks) * data::kHashBytes, 'h'));
    manifest.shards.push_back(shard);
    const std::string hash = put(data::to_text(manifest));
    EXPECT_TRUE(files_->add_dataset(name, hash, kAda).ok());
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
    const Status resolved = resolve_datasets(job, *files_, kAda);
    return resolved.ok() ? "" : to_string(resolved.error());
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileStore> files_;
};

TEST_F(ResolveTest, ANameBecomesTheHashOfItsManifest) {
  const std::string hash = add("books", 500'000);
  JobSpec job = spec({.dataset = "books"});
  ASSERT_TRUE(resolve_datasets(job, *files_, kAda).ok());
  EXPECT_EQ(job.data.dataset, "books@" + hash);
  ASSERT_TRUE(resolve_datasets(job, *files_, kAda).ok()) << "again, of a clone";
  EXPECT_EQ(job.data.dataset, "books@" + hash);
  job = spec({.train = "/data/text.txt"});
  ASSERT_TRUE(resolve_datasets(job, *files_, kAda).ok());
  EXPECT_EQ(job.data.train, "/data/text.txt");
  EXPECT_EQ(lease_unit_of(job, *files_), 0);
}

TEST_F(ResolveTest, AMixtureHasOneTokenizer) {
  add("plain", 500'000);
  add("one", 500'000, put("one tokenizer"));
  add("same", 500'000, put("one tokenizer"));
  add("two", 500'000, put("another"));
  EXPECT_EQ(refusal({.mixture = {{"plain", 1}, {"one", 1}, {"same", 1}}}), "");
  EXPECT_THAT(refusal({.mixture = {{"one", 1}, {"plain", 1}, {"two", 1}}}),
              HasSubstr("datasets one and two have different tokenizers"));
}

TEST_F(ResolveTest, ATokenizerIsThereBeforeItsDatasetAndGoesWithIt) {
  const std::string tokenizer = put("a tokenizer");
  const std::string hash = add("books", 500'000, tokenizer);
  EXPECT_TRUE(FileStore::files_of(hash, **files_->manifest(hash)).contains(tokenizer));
  EXPECT_EQ(files_->remove(tokenizer, {}).error().code, Code::kConflict);
  ASSERT_TRUE(files_->remove_dataset("books", {}).ok());
  EXPECT_FALSE(files_->find(tokenizer));
  data::Manifest manifest{Tokenizer::kBytes, data::kChunkBytesMin, {}, tokenizer};
  manifest.shards.push_back({"a.txt", 1, put("a"), put(std::string(data::kHashBytes, 'h'))});
  EXPECT_THAT(to_string(files_->add_dataset("books", put(data::to_text(manifest)), kAda).error()),
              HasSubstr("dataset books: its tokenizer " + tokenizer + " is not here"));
}

TEST_F(ResolveTest, AHashKeepsItsMeaningWhenTheNameIsGone) {
  const std::string hash = add("books", 500'000);
  const std::string other = add("other", 400'000);
  JobSpec job = spec({.dataset = "renamed@" + hash});
  EXPECT_TRUE(resolve_datasets(job, *files_, kAda).ok());
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

TEST_F(ResolveTest, ALeaseIsAGroupWhereThereAreSeveral) {
  add("small", 200'000);
  add("large", 20'000'000);
  JobSpec job = spec({.dataset = "small"});
  ASSERT_TRUE(resolve_datasets(job, *files_, kAda).ok());
  EXPECT_EQ(lease_unit_of(job, *files_), 0);
  job = spec({.dataset = "large"});
  ASSERT_TRUE(resolve_datasets(job, *files_, kAda).ok());
  EXPECT_EQ(lease_unit_of(job, *files_), 16 * ((65'536 - 1) / job.model.context))
      << "a multiple of the batch, 16";
  job.data = {.mixture = {{"small", 0.5}, {"large", 0.5}}};
  ASSERT_TRUE(resolve_datasets(job, *files_, kAda).ok());
  EXPECT_EQ(lease_unit_of(job, *files_), 0) << "few runs of several groups";
}

// Three replicas with caches for all they read: what they fetch in an epoch, over all of them.
TEST_F(ResolveTest, AnEpochFetchesLittleMoreThanTheDataset) {
  add("large", 40'000'000);
  JobSpec job = spec({.dataset = "large"});
  job.model.context = 512;
  ASSERT_TRUE(resolve_datasets(job, *files_, kAda).ok());
  const std::int64_t unit = lease_unit_of(job, *files_);
  ASSERT_GT(unit, 0);
  const auto manifest = files_->manifest(parse_dataset(job.data.dataset)->manifest);
  const ChunkOrder order = data::order_of(job, **manifest, 0);
  std::int64_t next = 0;
  std::vector<DataLease> returned;
  std::vector<std::int64_t> ends(3, -1);
  std::vector<std::set<std::int64_t>> fetched(3);
  std::int64_t trained = 0;
  while (trained < order.windows()) {
    for (std::size_t i = 0; i < 3; ++i) {
      LeasePlace place{unit, ends[i], {}};
      for (std::size_t other = 0; other < 3; ++other) {
        if (other != i) place.others.push_back(ends[other]);
      }
      for (const DataLease& run : lease_at({next, returned}, 50 * 16, kLeaseRunsMax, place)) {
        for (std::int64_t k = run.first; k < run.first + run.count; ++k) {
          if (k >= order.windows()) break;  // of the next epoch
          fetched[i].insert(order.place_of(k).chunk);
          ++trained;
        }
        ends[i] = run.first + run.count;
      }
    }
  }
  std::size_t sum = 0;
  std::set<std::int64_t> chunks;
  for (const auto& of_one : fetched) {
    sum += of_one.size();
    chunks.insert(of_one.begin(), of_one.end());
  }
  EXPECT_LE(static_cast<double>(sum), 1.1 * static_cast<double>(chunks.size()));
}

// The walk over all fields of the table that name uploads: a new one fails here until it says how.
TEST_F(ResolveTest, AForbiddenUploadIsAnsweredLikeOneThatDoesNotExist) {
  const std::string manifest = add("books", 100'000), code = put("code of ada");
  const auto named = [&](const ReferenceRule& rule, const std::string& dataset,
                         const std::string& bundle) {
    JobSpec job = spec({});
    if (rule.pointer == "/data/dataset") job.data.dataset = dataset;
    if (rule.pointer == "/data/mixture/*/dataset") job.data.mixture = {{dataset, 1}};
    if (rule.pointer == "/trainer/code") job.trainer.code = std::string(kCodePrefix) + bundle;
    EXPECT_EQ(objects_of(job).size(), 1u) << "say here how " << rule.pointer << " names an upload";
    return job;
  };
  const auto answer = [&](JobSpec job, const ObjectUser& who, const std::string& name) {
    const Status resolved = resolve_datasets(job, *files_, who);
    std::string text = resolved.ok() ? "" : to_string(resolved.error());
    if (resolved.ok()) {
      for (const FieldError& error : refused_uploads(job, *files_, {&who, 1})) {
        text += error.pointer + ": " + error.detail;
      }
    }
    for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.erase(at, name.size());
    return text;
  };
  for (const ReferenceRule& rule : reference_rules()) {
    if (rule.kind != Reference::kDataset && rule.kind != Reference::kCode) continue;
    const std::string none = sha256_of("nothing");
    EXPECT_EQ(answer(named(rule, "books", code), kAda, code), "") << rule.pointer;
    const std::string forbidden =
        answer(named(rule, "books", code), kBob, rule.kind == Reference::kCode ? code : "books");
    EXPECT_NE(forbidden, "") << rule.pointer;
    EXPECT_EQ(forbidden, answer(named(rule, "novel", none), kBob,
                                rule.kind == Reference::kCode ? none : "novel"));
    EXPECT_NE(forbidden_uploads(named(rule, "books", code), *files_, {&kBob, 1}), "");
    EXPECT_EQ(forbidden_uploads(named(rule, "novel", none), *files_, {&kBob, 1}), "");
  }
  JobSpec by_hash = spec({.dataset = "books@" + manifest});
  JobSpec unknown = spec({.dataset = "books@" + sha256_of("nothing")});
  EXPECT_EQ(answer(by_hash, kBob, manifest), answer(unknown, kBob, sha256_of("nothing")));
}

}  // namespace
}  // namespace shoal::coordinator
