// The bodies that only travel between an agent and its trainers.
#include "proto/convert_parts.h"

namespace shoal::proto {

void put(const TrainerReady& from, v1::TrainerReady& to) {
  to.set_slot(from.slot);
  put(from.device, *to.mutable_device());
  to.set_peer_address(from.peer_address);
  to.set_libraries(from.libraries);
  to.set_protocol(from.protocol);
  if (from.holds) put(*from.holds, *to.mutable_holds());
}
void get(Reader& reader, const v1::TrainerReady& from, TrainerReady& to) {
  to.slot = static_cast<std::int32_t>(reader.count("slot", from.slot()));
  get_part(reader, "device", from.has_device(), from.device(), to.device);
  to.peer_address = from.peer_address();
  to.libraries = from.libraries();
  to.protocol = from.protocol();
  if (from.has_holds()) get_part(reader, "holds", true, from.holds(), to.holds.emplace());
}

void put(const CheckpointReady& from, v1::CheckpointReady& to) {
  to.set_replica(from.replica.n);
  to.set_checkpoint(from.checkpoint.n);
  put(from.key, *to.mutable_key());
  to.set_sample(from.sample);
}
void get(Reader& reader, const v1::CheckpointReady& from, CheckpointReady& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.checkpoint = reader.id<CheckpointTag>("checkpoint", from.checkpoint());
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get_sample(reader, from.sample(), to.sample);
}

void put(const LoadReplica& from, v1::LoadReplica& to) {
  put(from.assign, *to.mutable_assign());
  to.set_checkpoint_folder(from.checkpoint_folder);
}
void get(Reader& reader, const v1::LoadReplica& from, LoadReplica& to) {
  get_part(reader, "assign", from.has_assign(), from.assign(), to.assign);
  to.checkpoint_folder = from.checkpoint_folder();
}

void put(const WriteCheckpointTo& from, v1::WriteCheckpointTo& to) {
  to.set_replica(from.replica.n);
  put(from.command, *to.mutable_command());
  to.set_folder(from.folder);
}
void get(Reader& reader, const v1::WriteCheckpointTo& from, WriteCheckpointTo& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  get_part(reader, "command", from.has_command(), from.command(), to.command);
  to.folder = from.folder();
  reader.require(!to.folder.empty(), "folder", "must not be empty");
}

}  // namespace shoal::proto
