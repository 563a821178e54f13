// What another process lets us read, until it or its permission ends, and tokens that are none.
#include "wire/cross_memory.h"

#include <array>
#include <csignal>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shoal::wire {
namespace {

constexpr std::size_t kValues = 100'000;

std::uint64_t address_of(const auto& values) {
  return reinterpret_cast<std::uintptr_t>(values.data());
}

std::span<std::byte> bytes_of(std::vector<int>& values) {
  return std::as_writable_bytes(std::span(values));
}

struct Offer {
  std::array<char, 64> token{};
  std::uint64_t address = 0;
};

// A process that exposes kValues sevens until it is told to end that.
class Exposing {
 public:
  Exposing() {
    std::array<int, 2> down{}, up{};
    EXPECT_EQ(pipe(down.data()) + pipe(up.data()), 0);
    pid = fork();
    if (pid == 0) expose(down[0], up[1]);
    close(down[0]);
    close(up[1]);
    to_ = down[1];
    from_ = up[0];
    EXPECT_EQ(read(from_, &offer, sizeof offer), static_cast<ssize_t>(sizeof offer));
  }
  Exposing(const Exposing&) = delete;
  ~Exposing() {
    kill_it();
    close(to_);
    close(from_);
  }

  void end_the_reading() {
    char byte = 0;
    EXPECT_EQ(write(to_, &byte, 1), 1);
    EXPECT_EQ(read(from_, &byte, 1), 1);
  }
  void kill_it() {
    if (pid > 0) kill(pid, SIGKILL), waitpid(pid, nullptr, 0);
    pid = 0;
  }

  pid_t pid = 0;
  Offer offer;

 private:
  [[noreturn]] static void expose(int in, int out) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    let_siblings_read_memory();
    std::vector<int> values(kValues, 7);
    ReadableMemory memory;
    Offer offer;
    memory.token().copy(offer.token.data(), offer.token.size() - 1);
    offer.address = address_of(values);
    char byte = 0;
    bool good = write(out, &offer, sizeof offer) == sizeof offer && read(in, &byte, 1) == 1;
    memory.end();
    values.assign(kValues, 8);
    good = good && write(out, &byte, 1) == 1;
    while (good) pause();
    _exit(1);
  }

  int to_ = -1, from_ = -1;
};

TEST(ReadableMemory, IsReadInAnotherProcessUntilItEnds) {
  Exposing owner;
  const auto memory = PeerMemory::open(owner.pid, owner.offer.token.data());
  ASSERT_TRUE(memory);
  std::vector<int> values(kValues);
  ASSERT_TRUE(memory->read(owner.offer.address, bytes_of(values)).ok());
  EXPECT_EQ(values, std::vector<int>(kValues, 7));
  owner.end_the_reading();
  EXPECT_EQ(memory->read(owner.offer.address, bytes_of(values)).error().code, Code::kUnavailable);
  EXPECT_FALSE(PeerMemory::open(owner.pid, owner.offer.token.data()));
}

TEST(ReadableMemory, OfAProcessThatIsGoneIsNotFound) {
  Exposing owner;
  const pid_t pid = owner.pid;
  const auto memory = PeerMemory::open(pid, owner.offer.token.data());
  ASSERT_TRUE(memory);
  owner.kill_it();
  std::vector<int> values(1);
  EXPECT_EQ(memory->read(owner.offer.address, bytes_of(values)).error().code, Code::kNotFound);
  EXPECT_FALSE(PeerMemory::open(pid, owner.offer.token.data()));
}

TEST(ReadableMemory, WhatLiesNowhereCannotBeRead) {
  ReadableMemory readable;
  const auto memory = PeerMemory::open(getpid(), readable.token());
  ASSERT_TRUE(memory);
  std::vector<int> values(1);
  EXPECT_EQ(memory->read(16, bytes_of(values)).error().code, Code::kUnavailable);
}

TEST(ReadableMemory, AnotherProcessAndAWrongTokenAreRefused) {
  const Exposing other;  // forked before there is a mark
  const ReadableMemory readable;
  const std::string token = readable.token();
  EXPECT_TRUE(PeerMemory::open(getpid(), token));
  EXPECT_FALSE(PeerMemory::open(other.pid, token));
  for (const pid_t process : {0, -1}) EXPECT_FALSE(PeerMemory::open(process, token));
  std::string changed = token;
  changed.back() = changed.back() == '1' ? '2' : '1';
  const std::string at = token.substr(0, token.find('.'));
  for (const std::string& bad :
       {changed, at, at + ".", at + ".0", at + ".xyz", token.substr(at.size()), token + " ",
        "g" + token, "0.1" + std::string(40, '1'), std::string()}) {
    EXPECT_FALSE(PeerMemory::open(getpid(), bad)) << bad;
  }
}

}  // namespace
}  // namespace shoal::wire
