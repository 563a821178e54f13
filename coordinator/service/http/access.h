// What the scopes of a login allow for stored objects that a request names (core/records/access.h).
#pragma once

#include "coordinator/core/records/access.h"
#include "coordinator/service/people/people.h"

namespace shoal::coordinator::rest {

inline Reach reach_of(identity::ScopeSet scopes, identity::Action action) {
  switch (identity::granted(scopes, action)) {
    case identity::Grant::kNone:
      return Reach::kNone;
    case identity::Grant::kOwn:
      return Reach::kOwn;
    case identity::Grant::kAny:
      return Reach::kAny;
  }
  return Reach::kNone;
}

// The same rights as for downloads of the objects.
inline ObjectUser object_user(const Principal& principal) {
  return {.name = principal.name,
          .checkpoints = reach_of(principal.scopes, identity::Action::kDownloadCheckpoint),
          .uploads = reach_of(principal.scopes, identity::Action::kDownloadData)};
}

}  // namespace shoal::coordinator::rest
