// Uploads and datasets over HTTP: pieces and their places, who may do what, and what stays because
// a job needs it. The rules of the store have their tests beside it.
#include <gmock/gmock.h>

#include "base/sha256.h"
#include "coordinator/service/files/file_store.h"
#include "coordinator/service/http/server_test_util.h"

namespace shoal::coordinator::rest {
namespace {

using identity::Scope;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::Received;

class FileRoutes : public testing::ServerFixture {
 protected:
  void SetUp() override {
    store_ = std::move(Store::open(folder_.path())).value();
    files_ = std::move(FileStore::open({.folder = folder_.path() + "/files"}, *store_)).value();
    HttpOptions options;
    options.files = files_.get();
    options.refusals = &refusals_;
    start(options);
    ada_ = login_of("ada", {Scope::kSubmitter});
    bob_ = login_of("bob", {Scope::kSubmitter});
  }
  void TearDown() override { server_.reset(); }

  Received post(const std::string& path, const json& body, const std::string& login) {
    return testing::ask(address_, "POST", path, "Content-Type: application/json\r\n" + login,
                        body.dump());
  }
  Received put(const std::string& sha256, std::int64_t from, const std::string& bytes,
               const std::string& login) {
    return testing::ask(address_, "PUT",
                        "/api/v1/files/" + sha256 + "?from=" + std::to_string(from),
                        "Content-Type: application/octet-stream\r\n" + login, bytes);
  }
  Received remove(const std::string& path, const std::string& login) {
    return testing::ask(address_, "DELETE", path, login);
  }
  std::string upload(const std::string& text, const std::string& login) {
    const std::string sha256 = sha256_of(text);
    const auto begun = post("/api/v1/files", {{"sha256", sha256}, {"size", text.size()}}, login);
    EXPECT_THAT(begun.status, ::testing::AnyOf(200, 201)) << begun.body;
    if (!begun.json()["complete"]) {
      EXPECT_EQ(put(sha256, 0, text, login).status, 200);
    }
    return sha256;
  }
  std::string upload_manifest(const std::string& login) {
    const std::string shard = upload("some text", login);
    const std::string hashes = upload(std::string(32, 'h'), login);
    return upload(
        data::to_text(
            {Tokenizer::kBytes, data::kChunkBytesMin, {{"a.txt", 9, shard, hashes, "", 'x', 6}}}),
        login);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileStore> files_;
  std::vector<AuditRecord> refused_;
  Refusals refusals_{[this](AuditRecord record) { refused_.push_back(std::move(record)); },
                     [this] { return people().now(); }};
  std::string ada_, bob_;
};

TEST_F(FileRoutes, AFileIsUploadedInPiecesAndReadByRange) {
  const std::string text = "0123456789", sha256 = sha256_of(text);
  const auto begun = post("/api/v1/files", {{"sha256", sha256}, {"size", 10}}, ada_);
  ASSERT_EQ(begun.status, 201) << begun.body;
  EXPECT_EQ(begun.json()["received"], 0);
  EXPECT_EQ(put(sha256, 0, "0123", ada_).json()["received"], 4);
  const auto elsewhere = put(sha256, 5, "56789", ada_);
  expect_problem(elsewhere, 409, "conflict");
  EXPECT_THAT(elsewhere.body, HasSubstr("at byte 4"));
  expect_problem(get("/api/v1/files/" + sha256 + "/content", ada_), 409, "conflict");
  const auto done = put(sha256, 4, "456789", ada_);
  EXPECT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(done.json()["complete"], true);
  EXPECT_EQ(done.json()["owner"], "ada");
  EXPECT_EQ(get("/api/v1/files/" + sha256 + "/content", ada_).body, text);
  const auto part = get("/api/v1/files/" + sha256 + "/content", "Range: bytes=2-4\r\n" + ada_);
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, "234");
  EXPECT_EQ(get("/api/v1/files", ada_).json()["items"].size(), 1u);
  EXPECT_EQ(post("/api/v1/files/" + sha256 + "/verify", {}, ada_).status, 200);
  const json audit = get("/api/v1/audit?limit=1").json()["items"][0];
  EXPECT_EQ(audit["action"], "add_file");
  EXPECT_EQ(audit["object"], sha256);
  EXPECT_EQ(audit["principal"], "ada");
}

TEST_F(FileRoutes, RefusalsNameTheField) {
  const auto no_hash = post("/api/v1/files", {{"sha256", "abc"}, {"size", 3}}, ada_);
  EXPECT_EQ(no_hash.status, 422) << no_hash.body;
  EXPECT_EQ(no_hash.json()["errors"][0]["pointer"], "/sha256");
  const auto empty = post("/api/v1/files", {{"sha256", sha256_of("")}, {"size", 0}}, ada_);
  EXPECT_EQ(empty.json()["errors"][0]["pointer"], "/size");
  const std::string sha256 = sha256_of("what was announced");
  post("/api/v1/files", {{"sha256", sha256}, {"size", 5}}, ada_);
  const auto other = put(sha256, 0, "other", ada_);
  EXPECT_EQ(other.status, 422) << other.body;
  EXPECT_THAT(other.body, HasSubstr("announced was"));
  expect_problem(put(sha256_of("unknown"), 0, "x", ada_), 404, "not-found");
}

TEST_F(FileRoutes, OnlyItsOwnerAndAnAdminReadAFileAndOnlyItsOwnerAndAnOperatorRemoveIt) {
  const std::string sha256 = upload("hers", ada_), path = "/api/v1/files/" + sha256;
  expect_problem(get(path + "/content", bob_), 403, "permission-denied");
  expect_problem(remove(path, bob_), 403, "permission-denied");
  expect_problem(get(path + "/content", login_of("eve", {Scope::kViewer})), 403,
                 "permission-denied");
  EXPECT_EQ(get(path + "/content").body, "hers");
  EXPECT_EQ(get(path, bob_).status, 200);
  EXPECT_EQ(remove(path, login_of("op", {Scope::kOperator})).status, 200);
  expect_problem(get(path, ada_), 404, "not-found");
}

TEST_F(FileRoutes, ADatasetIsNamedListedAndRemoved) {
  const std::string manifest = upload_manifest(ada_);
  const auto made = post("/api/v1/datasets", {{"name", "books"}, {"manifest", manifest}}, ada_);
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.json()["tokens"], 9);
  EXPECT_EQ(made.json()["kind"], "bytes");
  EXPECT_EQ(get("/api/v1/datasets", bob_).json()["items"][0]["name"], "books");
  const auto shards = get("/api/v1/datasets/books/shards", bob_).json();
  EXPECT_EQ(shards["items"][0]["name"], "a.txt");
  EXPECT_EQ(shards["next_cursor"], nullptr);
  expect_problem(remove("/api/v1/datasets/books", bob_), 403, "permission-denied");
  EXPECT_EQ(remove("/api/v1/datasets/books", ada_).status, 200);
  EXPECT_TRUE(get("/api/v1/files", ada_).json()["items"].empty());
  expect_problem(get("/api/v1/datasets/books", ada_), 404, "not-found");
  expect_problem(post("/api/v1/datasets", {{"name", "books"}, {"manifest", manifest}}, ada_), 404,
                 "not-found");
}

TEST_F(FileRoutes, WhatAJobTrainsOnStays) {
  const std::string manifest = upload_manifest(ada_);
  post("/api/v1/datasets", {{"name", "books"}, {"manifest", manifest}}, ada_);
  {
    testing::Tables& tables = cluster_.tables;
    const MutexLock guard(tables.mutex);
    JobRecord& job = tables.jobs.begin()->second;
    job.spec.name = "reader";
    job.spec.data = {.dataset = "books@" + manifest};
    job.phase = JobPhase::kTraining;
  }
  const auto used_by = [&](const std::string& sha256) {
    return get("/api/v1/files/" + sha256, bob_).json()["used_by"].get<std::string>();
  };
  EXPECT_EQ(used_by(manifest), "dataset books");
  EXPECT_EQ(used_by(sha256_of("some text")), "dataset books");
  EXPECT_EQ(used_by(upload("of nobody", ada_)), "");
  for (const json& file : get("/api/v1/files", bob_).json()["items"]) {
    EXPECT_EQ(file["used_by"], file["sha256"] == sha256_of("of nobody") ? "" : "dataset books");
  }
  const auto refused = remove("/api/v1/datasets/books", ada_);
  expect_problem(refused, 409, "conflict");
  EXPECT_THAT(refused.body, HasSubstr("job reader trains on dataset books"));
  EXPECT_EQ(get("/api/v1/datasets/books", ada_).json()["jobs"][0], "reader");
  expect_problem(remove("/api/v1/files/" + manifest, ada_), 409, "conflict");
}

TEST_F(FileRoutes, AJobMayNotNameTheUploadsOfAnotherPerson) {
  const std::string code = upload("code of ada", ada_), none = sha256_of("nothing");
  const std::string manifest = upload_manifest(ada_);
  ASSERT_EQ(post("/api/v1/datasets", {{"name", "books"}, {"manifest", manifest}}, ada_).status,
            201);
  const auto submit = [&](const json& data, const std::string& bundle, const std::string& login) {
    json job{{"name", "reader"}, {"model", {{"context", 2}}}, {"data", data}};
    if (!bundle.empty()) {
      job["trainer"] = {{"kind", "python"}, {"entry", "a.py"}, {"code", "sha256:" + bundle}};
    }
    return post("/api/v1/jobs", job, login);
  };
  // Without what the request itself says, and what differs in every answer.
  const auto answer_of = [](const Received& received, const std::string& name) {
    json body = received.json();
    body.erase("request_id");
    std::string text = std::to_string(received.status) + body.dump();
    for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.erase(at, name.size());
    return text;
  };
  const json host{{"train", "/x.txt"}};
  const Received forbidden = submit(host, code, bob_), unknown = submit(host, none, bob_);
  expect_problem(forbidden, 422, "invalid-spec");
  EXPECT_EQ(answer_of(forbidden, code), answer_of(unknown, none));
  const Received books = submit({{"dataset", "books"}}, "", bob_);
  expect_problem(books, 422, "invalid-spec");
  EXPECT_EQ(answer_of(books, "books"),
            answer_of(submit({{"dataset", "novel"}}, "", bob_), "novel"));
  EXPECT_EQ(refusals_.counts(Port::kHttp)[RefusalReason::kForbidden], 2);
  ASSERT_EQ(refused_.size(), 1u) << "one row in ten minutes";
  EXPECT_EQ(refused_[0].action, kRefusedObject);
  EXPECT_EQ(refused_[0].principal, "bob");
  EXPECT_EQ(refused_[0].after, "code sha256:" + code + " of ada");
  EXPECT_EQ(submit(host, code, ada_).status, 201);
}

TEST_F(FileRoutes, AJobUsesCodeThatItsSubmitterSentAlthoughAnotherPersonDidBefore) {
  const std::string code = upload("an example that everybody has", ada_);
  EXPECT_EQ(upload("an example that everybody has", bob_), code);
  EXPECT_EQ(get("/api/v1/files/" + code + "/content", bob_).body, "an example that everybody has");
  EXPECT_EQ(post("/api/v1/jobs",
                 {{"name", "mine"},
                  {"data", {{"train", "/x.txt"}}},
                  {"trainer", {{"kind", "python"}, {"entry", "a.py"}, {"code", "sha256:" + code}}}},
                 bob_)
                .status,
            201);
}

TEST_F(FileRoutes, AResumeAuthorizesWhatTheJobNames) {
  const std::string code = upload("code of ada", ada_);
  {
    testing::Tables& tables = cluster_.tables;
    const MutexLock guard(tables.mutex);
    JobRecord& job = tables.jobs.begin()->second;
    job.spec.name = "old";
    job.owner = "bob";
    job.spec.trainer = {TrainerKind::kPython, "a.py", "sha256:" + code};
    job.phase = JobPhase::kPaused;
  }
  const auto resume = [&](const std::string& login) {
    return post("/api/v1/jobs/old/resume", json::object(), login);
  };
  expect_problem(resume(bob_), 422, "invalid-spec");
  EXPECT_EQ(resume(login_of("root", {Scope::kAdmin})).status, 202);
}

}  // namespace
}  // namespace shoal::coordinator::rest
