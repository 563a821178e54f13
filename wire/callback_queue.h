// gRPC's callback API runs, on POSIX, on one queue of the process that is counted by its channels
// and servers and torn down with the last of them. In gRPC 1.51 that teardown races with its own
// threads and now and then aborts the process ("assertion failed: prior > 0"), at its end or
// between two servers. Call this before making a server or channel with callbacks.
#pragma once

namespace shoal::wire {

// Keeps the queue for the life of the process. Idempotent, any thread.
void hold_callback_queue();

}  // namespace shoal::wire
