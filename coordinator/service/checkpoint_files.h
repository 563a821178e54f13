// The folders of stored checkpoints: <root>/<ckpt_id>. An upload is the part of one stage. It is
// written to <ckpt_id>.<stage>.upload, checked against the announced sizes and SHA-256, synced,
// and only then renamed to <ckpt_id>.<stage>.part; when the parts of all stages are there they
// become the folder. So a folder without a suffix is always complete. Which checkpoints exist is
// the store's business; here are bytes only.
//
// What an interrupted upload received is kept, even across a restart, and the next upload of the
// same files continues behind it (transfer/file_receiver.h). What is kept is bounded: one upload
// per stage of a checkpoint that is not stored yet. It goes with the checkpoint (remove, prune),
// when other files come for the stage, and when an upload fails for good.
//
// A stored checkpoint has its manifest beside its files (coordinator/store/manifest.h), written
// when the record that calls it stored is durable.
//
// The tables lie on the same disk, as a rule, and without room for them the coordinator ends. So
// uploads leave kRoomForTables free: they fail before the tables do.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "coordinator/core/records/checkpoint_record.h"
#include "coordinator/service/files/free_room.h"
#include "coordinator/service/shelves/checkpoint_shelf.h"
#include "messages/messages.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class CheckpointFiles final : public CheckpointShelf {
 public:
  // Creates the root and removes what an earlier process was joining or removing; parts and uploads
  // stay.
  static Result<std::unique_ptr<CheckpointFiles>> open(const std::string& root,
                                                       FreeRoom room = free_room);

  const std::string& root() const { return root_; }  // holds the folders of all
  std::string folder(CheckpointId id) const { return root_ + "/" + to_string(id); }

  // One upload in progress; dropping it unfinished keeps what was received, unless it failed for
  // good. Used by one thread.
  class Upload {
   public:
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    Bytes received() const;  // how far it is; it continues there
    // The files back to back, from received() on. kResourceExhausted: the disk has no room, as in
    // begin(). kUnavailable: the next upload starts a file over.
    Status write(std::span<const std::byte> bytes);
    Status sync();  // what was received until now survives the machine
    // Verified, durable and renamed; after the last part of the checkpoint the folder is there.
    Result<Bytes> finish();

   private:
    friend class CheckpointFiles;
    struct Parts;
    explicit Upload(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
  };

  // The part of `stage` of a checkpoint of `stages`. kConflict: it is being uploaded already.
  // kResourceExhausted: the disk has no room. kInvalidArgument: a path that is not safe. The object
  // must outlive the upload.
  Result<std::unique_ptr<Upload>> begin(CheckpointId id, StageIndex stage, StageIndex stages,
                                        const std::vector<FileEntry>& files);

  // Hands out the files back to back, from byte `from` on; `sink` returns false to stop early.
  Status read(CheckpointId id, const std::vector<FileEntry>& files, Bytes from,
              const std::function<bool(std::span<const std::byte>)>& sink) const;

  // For complete folders. describe() does nothing if there is a manifest already.
  Status describe(const CheckpointRecord& stored);
  bool has(CheckpointId id) const;  // a complete folder

  // CheckpointShelf. verify() reads every byte.
  Result<CheckpointRecord> manifest(CheckpointId id) const override;
  Status verify(CheckpointId id, const std::vector<FileEntry>& files) const override;
  Result<std::map<CheckpointId, bool>> list() const override;
  std::string place(CheckpointId id) const override { return folder(id); }
  bool is_silence(const Error&) const override { return false; }

  Status remove(CheckpointId id);  // with parts and uploads; also when it is not there
  // At start, before any upload: what is left of checkpoints that are none of `wanted` goes. A
  // crash between the record and the files leaves such.
  Status prune(const std::set<CheckpointId>& wanted) override;

 private:
  CheckpointFiles(std::string root, FreeRoom room)
      : root_(std::move(root)), room_(std::move(room)) {}
  std::string part(CheckpointId id, StageIndex stage) const {
    return folder(id) + "." + std::to_string(stage) + ".part";
  }
  std::string upload(CheckpointId id, StageIndex stage) const {
    return folder(id) + "." + std::to_string(stage) + ".upload";
  }
  Status check_room(Bytes wanted) const;
  Status join_parts(CheckpointId id, StageIndex stages) SHOAL_EXCLUDES(joining_);

  const std::string root_;
  const FreeRoom room_;
  Mutex mutex_;
  std::set<std::pair<CheckpointId, StageIndex>> uploading_ SHOAL_GUARDED_BY(mutex_);
  Mutex joining_;  // the last parts of a checkpoint may end at the same moment
};

}  // namespace shoal::coordinator
