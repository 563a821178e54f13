// StateAsk and StateAnswer (outer_opt/core/joining) as messages, with the SHA-256 that an answer is
// checked by. Pure and thread-safe.
#pragma once

#include "base/result.h"
#include "outer_opt/core/joining/state_messages.h"
#include "proto/peer.pb.h"

namespace shoal::outer_opt {

// `compact`: the line is slower than a processor, values are worth being entropy coded.
void to_wire(const StateAsk& ask, bool compact, v1::StateAsk& out);
Result<StateAsk> from_wire(const v1::StateAsk& ask);

void to_wire(const StateAnswer& answer, bool compact, v1::StateAnswer& out);
// kDataLoss: what came is not what was sent.
Result<StateAnswer> from_wire(const v1::StateAnswer& answer);

}  // namespace shoal::outer_opt
