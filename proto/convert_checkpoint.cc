// The bodies of checkpoints: files, parts that were written or failed, and the commands for them.
// Paths that would leave their folder are refused here, once for everybody.
#include "proto/convert_parts.h"

namespace shoal::proto {
namespace {

// Stays below the folder it is put into: relative, no empty, "." or ".." segment.
bool is_inside_folder(std::string_view path) {
  if (path.empty() || path.size() > 1024 || path.find('\0') != std::string_view::npos) return false;
  while (true) {
    const auto slash = path.find('/');
    const auto segment = path.substr(0, slash);
    if (segment.empty() || segment == "." || segment == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

void put(const FileEntry& from, v1::FileEntry& to) {
  to.set_path(from.path);
  to.set_size(from.size.count());
  to.set_sha256(from.sha256);
}
void get(Reader& reader, const v1::FileEntry& from, FileEntry& to) {
  to = {from.path(), Bytes(reader.count("size", from.size())), from.sha256()};
  reader.require(is_inside_folder(to.path), "path", "must be relative and stay inside its folder");
  reader.require(is_hex(to.sha256, 64), "sha256", "must be 64 lower-case hex characters");
}

void get_sample(Reader& reader, const std::string& from, std::string& to) {
  to = from;
  if (to.size() <= kSampleBytesMax) return;
  reader.refuse("sample", "must have at most " + std::to_string(kSampleBytesMax) + " bytes");
}

void put(const CheckpointWritten& from, v1::CheckpointWritten& to) {
  to.set_replica(from.replica.n);
  to.set_checkpoint(from.checkpoint.n);
  put(from.key, *to.mutable_key());
  for (const FileEntry& file : from.files) put(file, *to.add_files());
  to.set_sample(from.sample);
}
void get(Reader& reader, const v1::CheckpointWritten& from, CheckpointWritten& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.checkpoint = reader.id<CheckpointTag>("checkpoint", from.checkpoint());
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get_sample(reader, from.sample(), to.sample);
  const Reader::Inside inside(reader, "files");
  for (const auto& file : from.files()) get(reader, file, to.files.emplace_back());
}

void put(const CheckpointFailed& from, v1::CheckpointFailed& to) {
  to.set_replica(from.replica.n);
  to.set_checkpoint(from.checkpoint.n);
  to.set_detail(from.detail);
}
void get(Reader& reader, const v1::CheckpointFailed& from, CheckpointFailed& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.checkpoint = reader.id<CheckpointTag>("checkpoint", from.checkpoint());
  to.detail = from.detail();
}

void put(const MomentumHolder& from, v1::MomentumHolder& to) {
  to.set_replica(from.replica.n);
  to.set_address(from.address);
  to.set_first(from.first);
  to.set_count(from.count);
}
void get(Reader& reader, const v1::MomentumHolder& from, MomentumHolder& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.address = from.address();
  to.first = reader.count("first", from.first());
  to.count = reader.count("count", from.count());
}

void put(const OwnerStep& from, v1::OwnerStep& to) {
  to.set_lr(from.outer.lr);
  to.set_momentum(from.outer.momentum);
  for (const MomentumHolder& holder : from.holders) put(holder, *to.add_holders());
}
void get(Reader& reader, const v1::OwnerStep& from, OwnerStep& to) {
  to.outer.lr = reader.amount("lr", from.lr());
  reader.require(to.outer.lr > 0, "lr", "must be above 0");
  to.outer.momentum = reader.amount("momentum", from.momentum());
  for (const auto& holder : from.holders()) {
    const Reader::Inside inside(reader, "holders");
    get(reader, holder, to.holders.emplace_back());
    if (!reader.ok()) return;
  }
}

void put(const WriteCheckpoint& from, v1::WriteCheckpoint& to) {
  to.set_checkpoint(from.checkpoint.n);
  put(from.key, *to.mutable_key());
  for (const MomentumHolder& holder : from.momentum) put(holder, *to.add_momentum());
}
void get(Reader& reader, const v1::WriteCheckpoint& from, WriteCheckpoint& to) {
  to.checkpoint = reader.id<CheckpointTag>("checkpoint", from.checkpoint());
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  for (const auto& holder : from.momentum()) {
    const Reader::Inside inside(reader, "momentum");
    get(reader, holder, to.momentum.emplace_back());
    if (!reader.ok()) return;
  }
}

void put(const ForgetCheckpoint& from, v1::ForgetCheckpoint& to) {
  to.set_checkpoint(from.checkpoint.n);
}
void get(Reader& reader, const v1::ForgetCheckpoint& from, ForgetCheckpoint& to) {
  to.checkpoint = reader.id<CheckpointTag>("checkpoint", from.checkpoint());
}

}  // namespace shoal::proto
