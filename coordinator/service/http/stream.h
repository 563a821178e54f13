// One event stream: server-sent events or NDJSON over a connection that was an ordinary one until
// its answer began. It has no queue: its cursor is the last event it wrote, and whenever it is idle
// and newer events exist it reads the next batch from the store. A slow client therefore costs one
// batch of memory and loses nothing; one that takes longer than write_limit for a batch is dropped
// and may resume.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/service/http/asio.h"
#include "coordinator/service/http/either_stream.h"
#include "coordinator/service/http/message.h"
#include "coordinator/service/http/service.h"

namespace shoal::coordinator::rest {

class EventStream : public Peer, public std::enable_shared_from_this<EventStream> {
 public:
  EventStream(std::unique_ptr<EitherStream> connected, Service& service, Service::Slot connection,
              ClientLimits::Visit visit, StreamStart start);

  void run(std::string head);  // of the HTTP answer
  void stop() override;
  void events_are_new(std::int64_t newest_seq) override;

 private:
  using ErrorCode = boost::system::error_code;
  struct Batch {
    bool ok = false;
    std::int64_t after = 0;
    std::string text;
  };
  static Batch read_batch(Context& context, const StreamStart& start, std::int64_t newest);

  void pump();
  void on_batch(Batch batch);
  void write(std::string text);
  void on_written(ErrorCode error);
  void await_heartbeat();
  void write_heartbeat();
  void watch_for_end();
  void close();

  const std::unique_ptr<EitherStream> socket_;
  Service& service_;
  Service::Slot connection_, stream_;
  ClientLimits::Visit visit_;
  StreamStart start_;  // start_.after moves on
  std::int64_t newest_seq_ = 0;
  bool look_ = true;  // there may be events after the cursor
  bool busy_ = false, closed_ = false, heartbeat_due_ = false;
  std::uint64_t writes_ = 0;  // begun and ended
  std::string out_;
  std::array<char, 256> ignored_;  // what the client still sends
  http_io::net::steady_timer write_timer_, heartbeat_timer_, retry_timer_;
};

}  // namespace shoal::coordinator::rest
