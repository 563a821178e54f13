// What a process says of an order that it cannot read: the job may use what only a newer version
// knows. The rest of the line is not to blame, and stays.
#pragma once

#include <optional>

#include "base/result.h"
#include "messages/trainer_messages.h"
#include "proto/agent.pb.h"
#include "proto/trainer.pb.h"

namespace shoal::proto {

// For the replica that the order is for: kDataInvalid, which is not tried again until the agent
// restarts, with the remedy. None: it is another message. `program` as "shoal-agent".
std::optional<ReplicaFailed> refusal_of(const v1::CoordinatorMessage& order, const Error& why,
                                        const std::string& program);
std::optional<ReplicaFailed> refusal_of(const v1::TrainerCommand& order, const Error& why,
                                        const std::string& program);

}  // namespace shoal::proto
