// The first callback call on a channel counts the queue up, its destruction down; so one channel
// that cannot connect anywhere makes a call that fails at once, and is never destroyed.
#include "wire/callback_queue.h"

#include <future>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

namespace shoal::wire {
namespace {

using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

std::shared_ptr<grpc::Channel>* make_holder() {
  auto* kept = new std::shared_ptr<grpc::Channel>(grpc::CreateChannel("", nullptr));
  grpc::ClientContext context;
  const grpc::Slice empty;
  const grpc::ByteBuffer nothing(&empty, 1);
  grpc::ByteBuffer answer;
  std::promise<void> done;
  Stub(*kept).UnaryCall(&context, "/none", {}, &nothing, &answer,
                        [&done](const grpc::Status&) { done.set_value(); });
  done.get_future().wait();  // a channel without credentials refuses every call at once
  return kept;
}

}  // namespace

void hold_callback_queue() {
  static const auto* const kHeld = make_holder();
  static_cast<void>(kHeld);
}

}  // namespace shoal::wire
