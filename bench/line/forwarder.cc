// See forwarder.h.
#include "bench/line/forwarder.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <utility>

#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/check.h"
#include "threads/clock.h"

namespace shoal::bench {
namespace {

constexpr int kReadsAtOnce = 16;  // of one host, before what is due is delivered again
constexpr std::size_t kOrderMax = 64 << 10;
constexpr Duration kBucket = microseconds(10);
constexpr std::uint64_t kControl = 1 << 20, kStop = kControl + 1;  // beside numbers of hosts

bool watch(int epoll, int fd, std::uint64_t what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = what;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

std::vector<HostLines> lines_of(const LineSetup& setup) {
  std::vector<HostLines> lines;
  for (const HostSetup& host : setup.hosts) lines.push_back(host.lines);
  return lines;
}

}  // namespace

void Lateness::add(Duration late) {
  const auto bucket = static_cast<std::size_t>(std::max<std::int64_t>(0, late.ns) / kBucket.ns);
  ++buckets_[std::min(bucket, buckets_.size() - 1)];
  ++count_;
  max_ = std::max(max_, late);
}

Duration Lateness::quantile(double share) const {
  const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(count_)));
  std::int64_t seen = 0;
  for (std::size_t i = 0; i + 1 < buckets_.size(); ++i) {  // the last one is open above
    seen += buckets_[i];
    if (seen >= wanted) return std::min(max_, kBucket * static_cast<std::int64_t>(i + 1));
  }
  return max_;
}

Result<std::unique_ptr<Forwarder>> Forwarder::open(const LineSetup& setup) {
  std::vector<TunDevice> devices;
  for (const HostSetup& host : setup.hosts) {
    auto device = TunDevice::open(host.tun);
    if (!device.ok()) return device.error();
    devices.push_back(std::move(*device));
  }
  return std::unique_ptr<Forwarder>(new Forwarder(setup, std::move(devices)));
}

Forwarder::Forwarder(const LineSetup& setup, std::vector<TunDevice> devices)
    : setup_(setup),
      devices_(std::move(devices)),
      network_(lines_of(setup), setup.seed, setup.held_max),
      counts_(setup.hosts.size()) {}

void Forwarder::run(int control, int stop, const Order& order) {
  const Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  SHOAL_CHECK(epoll, "no epoll");
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    SHOAL_CHECK(watch(epoll.get(), devices_[i].fd(), i), "a TUN device cannot be waited for");
  }
  if (control >= 0) watch(epoll.get(), control, kControl);
  if (stop >= 0) SHOAL_CHECK(watch(epoll.get(), stop, kStop));
  prctl(PR_SET_TIMERSLACK, 1UL);
  const sched_param priority{.sched_priority = 1};
  realtime_ = sched_setscheduler(0, SCHED_RR, &priority) == 0;
  do deliver();
  while (wait(epoll.get(), control, stop, order));
}

// False: it is over.
bool Forwarder::wait(int epoll, int control, int stop, const Order& order) {
  std::array<epoll_event, 64> events{};
  timespec timeout{};
  if (const auto next = network_.next()) {
    const Duration left = std::max(Duration{}, *next - steady_now());
    timeout = {left.ns / 1'000'000'000, left.ns % 1'000'000'000};
  }
  const int ready = epoll_pwait2(epoll, events.data(), static_cast<int>(events.size()),
                                 network_.next() ? &timeout : nullptr, nullptr);
  SHOAL_CHECK(ready >= 0 || errno == EINTR, "epoll fails");
  for (int i = 0; i < ready; ++i) {
    const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
    if (what == kStop) return false;
    if (what != kControl)
      take(static_cast<int>(what));
    else if (!read_control(control, order))
      return false;
  }
  return true;
}

std::optional<int> Forwarder::host_at(std::uint32_t address) const {
  const auto at = std::find_if(setup_.hosts.begin(), setup_.hosts.end(),
                               [&](const HostSetup& host) { return host.tun.address == address; });
  if (at == setup_.hosts.end()) return std::nullopt;
  return static_cast<int>(at - setup_.hosts.begin());
}

void Forwarder::take(int host) {
  const auto index = static_cast<std::size_t>(host);
  for (int i = 0; i < kReadsAtOnce; ++i) {
    std::optional<Packet> packet;
    const TunDevice::Read read = devices_[index].read(packet);
    if (read == TunDevice::Read::kNothing) return;
    const auto to = packet ? host_at(destination_of(*packet)) : std::nullopt;
    if (to)
      network_.send(steady_now(), host, *to, std::move(*packet));
    else
      ++counts_[index].unroutable;
  }
}

void Forwarder::deliver() {
  network_.advance(steady_now(), due_);
  for (const Delivery& delivery : due_) {
    const auto host = static_cast<std::size_t>(delivery.host);
    if (!devices_[host].write(delivery.train)) counts_[host].refused += delivery.train.count;
    lateness_.add(steady_now() - delivery.due);
  }
  due_.clear();
}

// False: its writer has gone.
bool Forwarder::read_control(int control, const Order& order) {
  std::array<char, 4096> bytes{};
  const ssize_t size = ::read(control, bytes.data(), bytes.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (size <= 0) return false;
  for (const char c : std::string_view(bytes.data(), static_cast<std::size_t>(size))) {
    if (c == '\n') {
      order(control_text_);
      control_text_.clear();
    } else if (control_text_.size() < kOrderMax) {  // a longer one is cut, and refused for that
      control_text_.push_back(c);
    }
  }
  return true;
}

void Forwarder::set(int host, const HostLines& lines) {
  network_.set(host, Direction::kUp, lines.up);
  network_.set(host, Direction::kDown, lines.down);
}

ForwarderCounts Forwarder::counts() const {
  ForwarderCounts counts;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    HostCounts host = counts_[i];
    host.up = network_.line(static_cast<int>(i), Direction::kUp).counts();
    host.down = network_.line(static_cast<int>(i), Direction::kDown).counts();
    host.device_dropped = devices_[i].dropped();
    counts.hosts.push_back(host);
  }
  counts.dropped = network_.dropped();
  counts.late_p50 = lateness_.quantile(0.5);
  counts.late_p99 = lateness_.quantile(0.99);
  counts.late_max = lateness_.max();
  counts.realtime = realtime_;
  return counts;
}

}  // namespace shoal::bench
