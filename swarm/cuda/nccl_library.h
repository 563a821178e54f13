// NCCL as the library that adds the gradients of a replica group whose devices are GPUs.
// Communicators are non-blocking (ncclConfig_t::blocking = 0) and polled with
// ncclCommGetAsyncError; whatever is given up is aborted (ncclCommAbort), which also ends kernels
// that wait for a rank that is gone. Sums run on the device's default stream, where libtorch
// computes: after the backward pass and before the optimizer's step without anybody waiting for it.
//
// NCCL refuses two ranks on one device (since 2.5). Its own connections listen on the loopback
// interface unless NCCL_SOCKET_IFNAME says otherwise: a replica group is one host.
#pragma once

#include <memory>

#include "swarm/cuda/communicator.h"

namespace shoal::swarm {

// kNotFound when there is no such device; kInternal when NCCL cannot be used.
Result<std::unique_ptr<CommunicatorLibrary>> make_nccl_library(int device);

}  // namespace shoal::swarm
