// Files that people have uploaded, each under the SHA-256 of its content, and the datasets that are
// made of them. One store for all: shards of datasets, their manifests, code of jobs.
//
// An upload is announced by begin() and comes in pieces, each where the one before has ended, from
// any number of clients of one person. What was received stays, even across a restart, and the
// upload continues behind it. With the last piece the hash is compared; only then can the file be
// read.
//
// The owners of a file are the people who sent its whole content: knowing its hash proves nothing.
// A person who may not read a stored file and announces it sends it, too. That upload is a proof:
// its bytes are compared and dropped, and its sender becomes a further owner. Proofs that a restart
// interrupts begin anew. FileRecord::owner is the person who completed the file.
//
// Rows are in the store (coordinator/store/file_rows.h), bytes in <folder>/<sha256>/content,
// further owners in <folder>/<sha256>.uploaders, one a line (not in backups: they prove it again).
// A row is durable before its file is begun and gone before the file is, so a folder without a row
// is what a crash has left, and open() removes it.
//
// A file that is in use is not removed: by a dataset, whose manifest lists it, or by a job that has
// not ended, which the caller knows.
//
// Threads: all methods may be called by any thread. Those that change something wait for the disk.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "coordinator/core/records/access.h"
#include "coordinator/service/files/free_room.h"
#include "coordinator/store/store.h"
#include "data/manifest.h"
#include "threads/mutex.h"
#include "transfer/file_receiver.h"

namespace shoal::coordinator {

struct FileStoreOptions {
  std::string folder;
  Bytes each_owner;                // most that one owner may keep; 0: no limit
  FreeRoom room = free_room;       // of the disk
  std::function<Instant()> clock;  // null: the system's
  // Whether a shard may lie there; null: anywhere.
  std::function<Status(const std::string& url)> check_url = {};
};

struct StoredFile {
  FileRecord record;
  Bytes received;  // all of it when complete; an upload continues there
};

// What jobs that have not ended need: SHA-256 of a file or of a manifest -> name of a job.
using FileUses = std::map<std::string, std::string>;

class FileStore {
 public:
  static constexpr std::size_t kPieceMax = std::size_t{1} << 20;
  static constexpr std::size_t kFilesMax = 1'000'000, kDatasetsMax = 10'000;
  static constexpr std::size_t kOpenUploadsMax = 64;
  static constexpr std::size_t kProofsMax = 64;  // the least recently used one goes
  static constexpr std::size_t kUploadersMax =
      256;  // of a file; then the first has to prove it again
  static constexpr Duration kUploadLife = seconds(7 * 86'400);  // then an unfinished one goes

  // Removes what a crash has left, and uploads that were begun kUploadLife ago. `store` must
  // outlive it.
  static Result<std::unique_ptr<FileStore>> open(FileStoreOptions options, Store& store);

  // ---- uploads

  // Announces a file; says how far the upload of `who` is, and whether `who` may read it already.
  // kValidation: no hash or no size, or it is over the quota of `who`. kConflict: it is known with
  // another size. kResourceExhausted: the disk has no room.
  Result<StoredFile> begin(const std::string& sha256, Bytes size, const ObjectUser& who);
  // Bytes from `from` on, at most kPieceMax. kNotFound: `who` did not announce it. kConflict: the
  // upload is elsewhere, or another piece of it is being written. kValidation: the content has
  // another hash; the upload starts over.
  Result<StoredFile> write(const std::string& sha256, Bytes from, std::span<const std::byte> bytes,
                           const ObjectUser& who);

  // ---- what is here
  std::optional<StoredFile> find(const std::string& sha256) const;
  std::vector<StoredFile> files() const;                             // by hash
  std::vector<std::string> owners(const std::string& sha256) const;  // none: it is not complete
  bool may_read(const ObjectUser& who, const std::string& sha256) const;
  // Whether `who` may read every file of the dataset with this manifest.
  bool may_read_dataset(const ObjectUser& who, const std::string& manifest) const;
  // The folder of a complete file, whose only entry is kContent.
  std::string folder_of(const std::string& sha256) const { return options_.folder + "/" + sha256; }
  static constexpr const char* kContent = "content";
  // The whole of a small file (a manifest, a list of hashes). kNotFound; kDataLoss: it has another
  // hash.
  Result<std::string> read_whole(const std::string& sha256) const;
  // kNotFound; kDataLoss: it is gone, or has another size or hash. Reads all of it.
  Status verify(const std::string& sha256) const;
  // What uses each file that is in use: "dataset books", "job mine".
  std::map<std::string, std::string> uses(const FileUses& jobs) const;
  // kConflict: in use. kNotFound.
  Result<FileRecord> remove(const std::string& sha256, const FileUses& jobs);

  // ---- datasets

  // kConflict: the name is taken by another manifest. kNotFound, kValidation: the manifest or a
  // file that it lists is not here for `who`, or is not what it must be.
  Result<DatasetRecord> add_dataset(const std::string& name, const std::string& manifest,
                                    const ObjectUser& who);
  std::optional<DatasetRecord> dataset(const std::string& name) const;
  std::vector<DatasetRecord> datasets() const;  // by name
  // By the hash of its text.
  Result<std::shared_ptr<const data::Manifest>> manifest(const std::string& sha256) const;
  // With the files that nothing else uses. kConflict: a job does. kNotFound.
  Result<DatasetRecord> remove_dataset(const std::string& name, const FileUses& jobs);

  // The files of a manifest: itself, its tokenizer, its lists of hashes, and the shards that have
  // no URL.
  static std::set<std::string> files_of(const std::string& manifest_sha256,
                                        const data::Manifest& manifest);

 private:
  using UploadKey = std::pair<std::string, std::string>;  // hash, sender
  struct Upload {
    std::string folder = {};                      // where its bytes are received
    std::unique_ptr<FileReceiver> receiver = {};  // none: not opened since the start
    bool busy = false;                            // a thread works on it, outside of the mutex
    Instant used = {};
  };
  // An upload that a thread works on.
  struct Claimed {
    FileRecord record;  // complete: nothing is to be received
    std::string folder;
    std::unique_ptr<FileReceiver> receiver;
  };

  FileStore(FileStoreOptions options, Store& store) : options_(std::move(options)), store_(store) {}
  Status take_stock(FileTables tables);
  Status check_begin(const std::string& sha256, Bytes size, const std::string& owner) const
      SHOAL_REQUIRES(mutex_);
  Status check_quota(Bytes size, const std::string& owner) const SHOAL_REQUIRES(mutex_);
  Status announce(const std::string& sha256, Bytes size, const ObjectUser& who)
      SHOAL_REQUIRES(writing_) SHOAL_EXCLUDES(mutex_);
  Status announce_proof(const FileRecord& record, const std::string& by) SHOAL_REQUIRES(writing_)
      SHOAL_EXCLUDES(mutex_);
  std::string drop_oldest_proof() SHOAL_REQUIRES(mutex_);
  using Work = std::function<Result<bool>(FileReceiver&, const FileRecord&)>;
  Result<StoredFile> with_upload(const std::string& sha256, const ObjectUser& who, const Work& work)
      SHOAL_EXCLUDES(mutex_);
  Result<Claimed> claim(const std::string& sha256, const ObjectUser& who) SHOAL_EXCLUDES(mutex_);
  void let_go(const UploadKey& upload, std::unique_ptr<FileReceiver> receiver)
      SHOAL_EXCLUDES(mutex_);
  void close_oldest() SHOAL_REQUIRES(mutex_);
  Result<StoredFile> finish(Claimed& upload, const std::string& by) SHOAL_EXCLUDES(mutex_);
  Status add_uploader(const std::string& sha256, const std::string& by) SHOAL_REQUIRES(writing_)
      SHOAL_EXCLUDES(mutex_);
  std::vector<std::string> owners_of(const FileRecord& record) const SHOAL_REQUIRES(mutex_);
  bool is_proof(const UploadKey& upload) const SHOAL_REQUIRES(mutex_);
  Status check_url(const std::string& dataset, const data::Shard& shard) const;
  Status check_tokenizer(const std::string& dataset, const std::string& sha256,
                         const ObjectUser& who) const;
  Status check_files(const std::string& name, const data::Manifest& manifest,
                     const ObjectUser& who) const;
  Status drop(const std::string& sha256) SHOAL_REQUIRES(writing_) SHOAL_EXCLUDES(mutex_);
  Status commit(std::vector<FileRow> rows) SHOAL_REQUIRES(writing_);
  std::string upload_of(const std::string& sha256) const { return folder_of(sha256) + ".upload"; }
  std::string uploaders_of(const std::string& sha256) const {
    return folder_of(sha256) + ".uploaders";
  }

  const FileStoreOptions options_;
  Store& store_;
  Mutex writing_;  // held by one change of rows at a time, also while it waits for the disk

  mutable Mutex mutex_;  // of what follows, never held while something is read or written
  std::map<std::string, FileRecord> files_ SHOAL_GUARDED_BY(mutex_);
  std::map<std::string, DatasetRecord> datasets_ SHOAL_GUARDED_BY(mutex_);
  std::map<UploadKey, Upload> uploads_ SHOAL_GUARDED_BY(mutex_);
  // Owners who proved it, beside FileRecord::owner.
  std::map<std::string, std::vector<std::string>> uploaders_ SHOAL_GUARDED_BY(mutex_);
  mutable std::map<std::string, std::shared_ptr<const data::Manifest>> manifests_
      SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::coordinator
