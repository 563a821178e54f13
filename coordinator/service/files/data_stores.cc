#include "coordinator/service/files/data_stores.h"

#include "objects/presign.h"
#include "objects/reach.h"
#include "threads/clock.h"

namespace shoal::coordinator {

Result<DataStores::Found> DataStores::find(const std::string& url) const {
  const auto place = objects::read_object(url, "manifest");
  if (!place) return place.error();
  for (const objects::Location& store : stores_) {
    const bool same =
        store.bucket == place->location.bucket && store.endpoint == place->location.endpoint;
    if (same && place->key.starts_with(store.prefix)) return Found{store, place->key};
  }
  const std::string shown = objects::shown(place->location, place->key);
  return Error{Code::kValidation,
               shown + " at " + place->location.endpoint +
                   " is beneath no --data-store of this coordinator, which has no key for it",
               "manifest", "start the coordinator with --data-store s3://BUCKET?endpoint=URL"};
}

Status DataStores::check(const std::string& url) const {
  if (!objects::is_object(url)) return {};
  const auto found = find(url);
  return found ? Status() : Status(found.error());
}

Result<std::string> DataStores::sign(const std::string& url) const {
  const auto found = find(url);
  if (!found) return found.error();
  const auto credentials = credentials_->current();
  if (!credentials) return credentials.error();
  const objects::ToSign request{.method = "GET", .key = found->key, .life = kLife};
  return objects::presign(found->store, *credentials, request, unix_now());
}

}  // namespace shoal::coordinator
