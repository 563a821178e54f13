// Our own streams, over TLS, plain TCP or Unix sockets. The later of two processes dials; both
// open streams on that connection.
#include <chrono>
#include <future>
#include <map>

#include "bench/streams/contender.h"
#include "threads/mutex.h"
#include "wire/stream/node.h"

namespace shoal::bench {
namespace {

using namespace wire::stream;

constexpr char kIAm[] = "i am ";
constexpr auto kPatience = std::chrono::seconds(30);
constexpr Duration kLimit = seconds(600);

class StreamChannel final : public Channel, public StreamEvents {
 public:
  StreamChannel(std::shared_ptr<Stream> stream, std::shared_ptr<ChannelUser> user, bool fresh)
      : fresh_(fresh), stream_(std::move(stream)), user_(std::move(user)) {}

  void send(std::span<const std::byte> message) override {
    stream_->send({{}, {message}, [this, self = self_](bool sent) {
                     if (sent) user_->sent(*this);
                   }});
  }
  void cancel() override {
    if (fresh_) return stream_->pair()->close();
    stream_->cancel({Code::kCancelled, "enough", "", ""});
  }

  std::optional<std::span<std::byte>> place(std::span<const std::byte>, std::size_t size) override {
    return user_->place(size);
  }
  void arrived(std::span<const std::byte>, std::span<std::byte> body) override {
    stream_->release(body.size());
    user_->received(*this, body.size());
  }
  void ended() override {}
  void closed(const std::optional<Error>&) override {
    user_->gone();
    self_.reset();
  }
  std::shared_ptr<StreamChannel> self_;  // until closed()

 private:
  const bool fresh_;  // the pair is for this stream alone
  const std::shared_ptr<Stream> stream_;
  const std::shared_ptr<ChannelUser> user_;
};

class Greeting final : public StreamEvents {
 public:
  std::optional<std::span<std::byte>> place(std::span<const std::byte>, std::size_t) override {
    return std::nullopt;
  }
  void arrived(std::span<const std::byte>, std::span<std::byte>) override {}
  void ended() override {}
  void closed(const std::optional<Error>&) override {}
};

class StreamsContender final : public Contender {
 public:
  StreamsContender(Place place, const Identity* identity, bool local, Accept accept)
      : place_(std::move(place)), local_(local), accept_(std::move(accept)) {
    if (identity != nullptr) tls_ = identity->contexts;
  }
  ~StreamsContender() override { node_.reset(); }

  Result<std::string> listen() override {
    NodeOptions options{.bind = place_.host + ":0", .tls = tls_, .local_sockets = local_};
    auto node = Node::start(std::move(options),
                            [this](std::shared_ptr<Stream> stream, std::string_view purpose) {
                              return accept(std::move(stream), std::string(purpose));
                            });
    if (!node.ok()) return node.error();
    node_ = std::move(node).value();
    return node_->address();
  }

  Status connect(const std::vector<std::string>& addresses) override {
    addresses_ = addresses;
    for (int peer = 0; peer < place_.rank; ++peer) {
      const auto pair = dial(peer);
      if (!pair.ok()) return pair.error();
      keep(peer, *pair);
      (void)(*pair)->open(
          kIAm + std::to_string(place_.rank),
          [](std::shared_ptr<Stream>) { return std::make_shared<Greeting>(); }, kLimit);
    }
    const MutexLock lock(mutex_);
    const bool all = changed_.wait_for(mutex_, kPatience, [&]() SHOAL_REQUIRES(mutex_) {
      return pairs_.size() + 1 == addresses_.size();
    });
    if (all) return {};
    return Error{Code::kUnavailable, "a peer has not dialed", "", ""};
  }

  std::shared_ptr<Channel> open(int peer, const std::string& purpose,
                                std::shared_ptr<ChannelUser> user, bool fresh) override {
    std::shared_ptr<Pair> pair;
    if (fresh) {
      const auto dialed = dial(peer);
      SHOAL_CHECK(dialed.ok(), dialed.ok() ? "" : to_string(dialed.error()));
      pair = *dialed;
    } else {
      const MutexLock lock(mutex_);
      pair = pairs_.at(peer);
    }
    std::shared_ptr<StreamChannel> channel;
    (void)pair->open(
        purpose,
        [&](std::shared_ptr<Stream> stream) {
          channel = make(std::move(stream), std::move(user), fresh);
          return channel;
        },
        kLimit);
    return channel;
  }

 private:
  static std::shared_ptr<StreamChannel> make(std::shared_ptr<Stream> stream,
                                             std::shared_ptr<ChannelUser> user, bool fresh) {
    auto channel = std::make_shared<StreamChannel>(std::move(stream), std::move(user), fresh);
    channel->self_ = channel;
    return channel;
  }

  std::shared_ptr<StreamEvents> accept(std::shared_ptr<Stream> stream, const std::string& purpose) {
    if (purpose.starts_with(kIAm)) {
      keep(std::stoi(purpose.substr(sizeof kIAm - 1)), stream->pair());
      return std::make_shared<Greeting>();
    }
    stream->set_limit(kLimit);
    return make(std::move(stream), accept_(purpose), false);
  }

  Result<std::shared_ptr<Pair>> dial(int peer) {
    auto told = std::make_shared<std::promise<Result<std::shared_ptr<Pair>>>>();
    node_->dial({.address = addresses_.at(static_cast<std::size_t>(peer)), .lanes = place_.lanes},
                [told](Result<std::shared_ptr<Pair>> pair) { told->set_value(std::move(pair)); });
    return told->get_future().get();  // the handshake has a deadline
  }

  void keep(int peer, const std::shared_ptr<Pair>& pair) {
    const MutexLock lock(mutex_);
    pairs_[peer] = pair;
    changed_.notify_all();
  }

  const Place place_;
  const bool local_;
  const Accept accept_;
  std::optional<TlsContexts> tls_;
  std::vector<std::string> addresses_;
  Mutex mutex_;
  CondVar changed_;
  std::map<int, std::shared_ptr<Pair>> pairs_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<Node> node_;
};

}  // namespace

std::unique_ptr<Contender> make_streams(Place place, const Identity* identity, bool local,
                                        Accept accept) {
  return std::make_unique<StreamsContender>(std::move(place), identity, local, std::move(accept));
}

}  // namespace shoal::bench
