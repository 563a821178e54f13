#include "base/field_digest.h"
#include "coordinator/core/state/durable_state.h"

namespace shoal::coordinator {

Digest DurableState::digest() const { return digest_of_fields(*this, DigestOf::kRecords); }

}  // namespace shoal::coordinator
