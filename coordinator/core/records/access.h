// Object authorization: may_use() says whether a person may use a stored object that a request
// names. The right is that of a download of the object, so a job cannot read what its submitter
// could not. Who names a forbidden object gets the answer of one that does not exist. Pure.
#pragma once

#include <algorithm>
#include <span>
#include <string>

namespace shoal::coordinator {

// What the scopes of a person allow for stored objects of one kind, by owner
// (identity::granted() of their download).
enum class Reach { kNone, kOwn, kAny };

enum class ObjectKind { kCheckpoint, kUpload };

struct ObjectUser {
  std::string name;
  Reach checkpoints = Reach::kOwn;  // download_checkpoint
  Reach uploads = Reach::kOwn;      // download_data

  Reach of(ObjectKind kind) const {
    return kind == ObjectKind::kCheckpoint ? checkpoints : uploads;
  }
};

// A checkpoint is of the owner of its job. An upload is of each person who sent its whole content.
inline bool may_use(const ObjectUser& user, ObjectKind kind, std::span<const std::string> owners) {
  switch (user.of(kind)) {
    case Reach::kNone:
      return false;
    case Reach::kOwn:
      return std::ranges::find(owners, user.name) != owners.end();
    case Reach::kAny:
      return true;
  }
  return false;
}

}  // namespace shoal::coordinator
