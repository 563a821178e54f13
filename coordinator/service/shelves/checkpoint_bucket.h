// Checkpoints in an object store: BUCKET/PREFIX/ckpt_N/FILE. The bytes go from agents straight to
// the store and back, by requests that are signed here, so that no agent has its key. Files larger
// than a part travel in parts; what the store has of them is what the store says, so an upload
// continues after the end of any process on either side.
//
// Each object carries the SHA-256 of its file as metadata. A stage is stored when every object has
// its size and that SHA-256. The manifest (coordinator/store/manifest.h) comes last, when the
// record that calls the checkpoint stored is durable; ckpt_N without one is not complete.
//
// On this host there are two small files per checkpoint: ckpt_N.S.parts.list, which uploads of
// stage S are in progress; and ckpt_N.store, where a stored one lies, for backups.
//
// What may wait (manifests, deletions) is done by a thread of its own, again and again until the
// store has taken it; what is left at the end of the process, the next start finds
// (leftovers.h). Nothing is deleted while a manifest waits: the store always has a complete
// checkpoint of what is deleted there in favor of a newer one.
//
// Threads: all methods may be called by any thread; an Upload is used by one.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "coordinator/meters/meters.h"
#include "coordinator/service/shelves/checkpoint_shelf.h"
#include "objects/bucket.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

// Bytes of one file of a list that an agent sends to the store, or gets from there.
struct PresignedRequest {
  std::size_t file = 0;  // index into the list
  int part = 0;          // of a multipart upload, from 1 on; 0: the whole object
  Bytes offset, size;
  std::string url;
  objects::Headers headers;  // signed: to be sent as they are
};

class CheckpointBucket final : public CheckpointShelf {
 public:
  // How long an agent may use a URL that it was given; it asks again for what it did not begin.
  static constexpr Duration kPutLife = seconds(6 * 3'600), kGetLife = seconds(6 * 3'600);

  // `folder` holds the two small files. Asks the store nothing.
  CheckpointBucket(std::unique_ptr<objects::Bucket> bucket, std::string folder,
                   std::shared_ptr<Meters> meters = std::make_shared<Meters>());
  ~CheckpointBucket() override;

  // Makes the prefix this cluster's: two on one would overwrite each other's checkpoints. The
  // object shoal.cluster names the cluster, and so does ckpt_store.id of the folder. True: the
  // store was asked; false: it does not answer, but it was ours before. Errors name
  // --checkpoint-store.
  Result<bool> claim() const;
  void stop() { bucket_->stop(); }  // ends every request, for good
  std::string shown(CheckpointId id) const { return bucket_->shown(to_string(id)); }
  // Manifests and deletions that the store has not taken yet.
  std::int64_t waiting() const SHOAL_EXCLUDES(mutex_);

  // One upload in progress; dropping it keeps what the store has.
  class Upload {
   public:
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    Bytes stored() const;   // of the whole, in the store
    bool complete() const;  // every object is there
    // What was not handed out yet, at most so many. Begins multipart uploads.
    Result<std::vector<PresignedRequest>> next(std::size_t most);
    // An agent has sent it. The store is asked when that completes an object. kUnavailable: not
    // all of it is there; the upload begins again.
    Status sent(std::size_t file, int part);
    // Carries one of them out, for an agent that cannot: `descriptor` is a file of its bytes alone.
    Status carry(const PresignedRequest& request, int descriptor);

   private:
    friend class CheckpointBucket;
    struct Object;
    Upload(CheckpointBucket& owner, CheckpointId id, StageIndex stage);
    Status take_stock(const std::vector<FileEntry>& files);
    Status take_stock_of(Object& object, const std::string& upload);
    Status begin(Object& object);
    Status put_together(Object& object);
    Status keep_list() const;

    CheckpointBucket& owner_;
    const CheckpointId id_;
    const StageIndex stage_;
    std::vector<Object> objects_;
  };

  // kConflict: it is being uploaded already. Other errors are those of the store (objects/http.h).
  Result<std::unique_ptr<Upload>> begin(CheckpointId id, StageIndex stage,
                                        const std::vector<FileEntry>& files) SHOAL_EXCLUDES(mutex_);

  // What is missing of the files back to back from byte `from` on.
  Result<std::vector<PresignedRequest>> requests_to_get(CheckpointId id,
                                                        const std::vector<FileEntry>& files,
                                                        Bytes from) const;
  Result<std::string> url_of(CheckpointId id, const FileEntry& file) const;
  // The file from byte `from` on; kDataLoss: of another size. `sink` returns false to stop early.
  Status read(CheckpointId id, const FileEntry& file, Bytes from,
              const objects::Client::Sink& sink) const;
  void note_carried(Bytes bytes) const {
    meters_->outside.object_store_carried.Increment(static_cast<double>(bytes.count()));
  }

  // Later, manifests first; never blocks on the store.
  void describe(const CheckpointRecord& stored) SHOAL_EXCLUDES(mutex_);
  void remove(CheckpointId id) SHOAL_EXCLUDES(mutex_);

  // CheckpointShelf
  Result<std::map<CheckpointId, bool>> list() const override;
  Result<CheckpointRecord> manifest(CheckpointId id) const override;
  Status verify(CheckpointId id, const std::vector<FileEntry>& files) const override;
  std::string place(CheckpointId id) const override { return shown(id); }
  bool is_silence(const Error& error) const override {
    return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded;
  }
  Status prune(const std::set<CheckpointId>& wanted) override;

 private:
  using Task = std::variant<CheckpointRecord, CheckpointId>;  // to describe, to remove
  void run(const std::stop_token& stop) SHOAL_EXCLUDES(mutex_);
  std::pair<CheckpointId, Task> task_after(CheckpointId id) const SHOAL_REQUIRES(mutex_);
  Status perform(const Task& task) const;
  void enqueue(CheckpointId id, Task task) SHOAL_EXCLUDES(mutex_);
  std::string parts_list(CheckpointId id, StageIndex stage) const;
  std::string pointer(CheckpointId id) const;
  Result<bool> has(const std::string& key, const FileEntry& file) const;

  const std::unique_ptr<objects::Bucket> bucket_;
  const std::string folder_;
  const std::shared_ptr<Meters> meters_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<std::pair<CheckpointId, StageIndex>> uploading_ SHOAL_GUARDED_BY(mutex_);
  std::map<CheckpointId, Task> tasks_ SHOAL_GUARDED_BY(mutex_);  // one per checkpoint at most
  std::jthread thread_;                                          // last: it uses the others
};

}  // namespace shoal::coordinator
