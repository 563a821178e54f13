// `shoal-trainer` without a subcommand: the process that an agent starts, one per device.
// Everything it needs to know stands in the environment:
//
//   SHOAL_TRAINER_SOCKET   path of the agent's Unix-domain socket (required)
//   SHOAL_TRAINER_NONCE    by which the agent knows this process again
//   SHOAL_TRAINER_ORPHAN_LIMIT  seconds without an agent after which it ends; 0 without it: at once
//   SHOAL_TRAINER_SLOT     which of the agent's trainers this is, 0 without it
//   SHOAL_TRAINER_DEVICE   device index, 0 without it
//   SHOAL_TRAINER_KIND     cpu or cuda, cpu without it
//   SHOAL_TRAINER_THREADS  CPU threads of this process, 1 without it
//   SHOAL_TRAINER_REPLICA_GROUP     processes that train one replica together, with this one; 1
//   without it SHOAL_TRAINER_SPEED    slows the device down to this share of its speed; 1 without
//   it SHOAL_TRAINER_LINK     a slow line to pretend (wire/link_emulation.h); the real one without
//   it SHOAL_TRAINER_BIND     host:port of the peer service, 127.0.0.1:0 without it
//   SHOAL_TRAINER_HOST     what peers dial, the host of the former without it
#pragma once

namespace shoal::trainer {

// The other end of a replica group's socket (group_member.h); the environment is that of its
// leader.
int serve_group_member();

// The exit code: 0 when the agent stopped us or stayed away, 1 for a bad environment, 3 when the
// device was lost and a fresh process may have more luck.
int serve();

}  // namespace shoal::trainer
