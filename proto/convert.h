// The one place that knows both the wire form (generated from the .proto files) and the domain
// values (messages/trainer_messages.h). Reading validates: a message with a missing body, an
// unknown enum word, a negative count or a path that leaves its folder is an Error with code
// kInvalidArgument whose `field` names the wire field. Nothing here allocates beyond the message;
// thread-safe.
#pragma once

#include "base/result.h"
#include "messages/trainer_messages.h"
#include "proto/agent.pb.h"
#include "proto/trainer.pb.h"

namespace shoal::proto {

v1::AgentMessage to_wire(const Hello& hello);
v1::AgentMessage to_wire(const FromAgent& message);
v1::CoordinatorMessage to_wire(const ToAgent& message);
v1::TrainerMessage to_wire(const FromTrainer& message);
v1::TrainerCommand to_wire(const ToTrainer& message);

Result<Hello> read_hello(const v1::AgentMessage& message);
Result<FromAgent> read(const v1::AgentMessage& message);  // anything but hello
Result<ToAgent> read(const v1::CoordinatorMessage& message);
Result<FromTrainer> read(const v1::TrainerMessage& message);
Result<ToTrainer> read(const v1::TrainerCommand& message);

v1::FileEntry to_wire(const FileEntry& entry);
Result<FileEntry> read(const v1::FileEntry& entry);

}  // namespace shoal::proto
