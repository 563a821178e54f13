// What another process lends, until it ends the loan or itself, and tokens that are none.
#include "wire/lent_memory.h"

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

// A process that lends kValues sevens and, when it is told to, ends the loan.
class Lending {
 public:
  Lending() {
    std::array<int, 2> down{}, up{};
    EXPECT_EQ(pipe(down.data()) + pipe(up.data()), 0);
    pid = fork();
    if (pid == 0) lend(down[0], up[1]);
    close(down[0]);
    close(up[1]);
    to_ = down[1];
    from_ = up[0];
    EXPECT_EQ(read(from_, &offer, sizeof offer), static_cast<ssize_t>(sizeof offer));
  }
  Lending(const Lending&) = delete;
  ~Lending() {
    kill_it();
    close(to_);
    close(from_);
  }

  void end_the_loan() {
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
  [[noreturn]] static void lend(int in, int out) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    let_siblings_read_memory();
    std::vector<int> values(kValues, 7);
    LentMemory memory;
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

TEST(LentMemory, IsReadInAnotherProcessUntilTheLoanEnds) {
  Lending lending;
  const auto memory = BorrowedMemory::open(lending.pid, lending.offer.token.data());
  ASSERT_TRUE(memory);
  std::vector<int> values(kValues);
  ASSERT_TRUE(memory->read(lending.offer.address, bytes_of(values)).ok());
  EXPECT_EQ(values, std::vector<int>(kValues, 7));
  lending.end_the_loan();
  EXPECT_EQ(memory->read(lending.offer.address, bytes_of(values)).error().code, Code::kUnavailable);
  EXPECT_FALSE(BorrowedMemory::open(lending.pid, lending.offer.token.data()));
}

TEST(LentMemory, OfAProcessThatIsGoneIsNotFound) {
  Lending lending;
  const pid_t pid = lending.pid;
  const auto memory = BorrowedMemory::open(pid, lending.offer.token.data());
  ASSERT_TRUE(memory);
  lending.kill_it();
  std::vector<int> values(1);
  EXPECT_EQ(memory->read(lending.offer.address, bytes_of(values)).error().code, Code::kNotFound);
  EXPECT_FALSE(BorrowedMemory::open(pid, lending.offer.token.data()));
}

TEST(LentMemory, WhatLiesNowhereCannotBeRead) {
  LentMemory lent;
  const auto memory = BorrowedMemory::open(getpid(), lent.token());
  ASSERT_TRUE(memory);
  std::vector<int> values(1);
  EXPECT_EQ(memory->read(16, bytes_of(values)).error().code, Code::kUnavailable);
}

TEST(LentMemory, AnotherProcessAndAWrongTokenAreRefused) {
  const Lending other;  // forked before there is a mark
  const LentMemory lent;
  const std::string token = lent.token();
  EXPECT_TRUE(BorrowedMemory::open(getpid(), token));
  EXPECT_FALSE(BorrowedMemory::open(other.pid, token));
  for (const pid_t process : {0, -1}) EXPECT_FALSE(BorrowedMemory::open(process, token));
  std::string changed = token;
  changed.back() = changed.back() == '1' ? '2' : '1';
  const std::string at = token.substr(0, token.find('.'));
  for (const std::string& bad :
       {changed, at, at + ".", at + ".0", at + ".xyz", token.substr(at.size()), token + " ",
        "g" + token, "0.1" + std::string(40, '1'), std::string()}) {
    EXPECT_FALSE(BorrowedMemory::open(getpid(), bad)) << bad;
  }
}

}  // namespace
}  // namespace shoal::wire
