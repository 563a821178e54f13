// A connection on which words are said, each after its length, before bytes pass over it. Reads no
// byte behind the word that it was asked for, so that the descriptor can be handed on.
//
// Bounds. A word has kWordMax bytes at most, which is checked at its length; kAheadMax words may
// wait to be written, and one more ends the connection.
//
// Threads: the I/O thread of its context only.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "wire/relay/socket.h"
#include "wire/relay/words.h"

namespace shoal::wire::relay {

class WordLine : public std::enable_shared_from_this<WordLine> {
 public:
  static constexpr std::size_t kAheadMax = 64;

  using Read = std::function<void(Result<Word>)>;
  using Written = std::function<void()>;

  // Owns the descriptor, which is non-blocking and may still be connecting.
  WordLine(net::io_context& io, int fd);

  // One at a time. Errors: invalid_argument, a word that is none; unavailable, the connection
  // ended; deadline_exceeded, no word within `limit` (zero: no limit).
  void read(Duration limit, Read done);
  // `written`, if any, is called once the word is in the socket; never when the connection ends.
  void write(const Word& word, Written written = nullptr);
  // Closes once everything written so far is in the socket, or after a second.
  void close_after_words();
  void close();
  // Gives the descriptor away: nothing may be written or read any more. -1: it was closed.
  int release();
  int fd() { return socket_.native_handle(); }

 private:
  void read_length(Read done);
  void read_body(Read done, std::size_t size);
  void finish(const Read& done, Result<Word> word);
  void write_next();

  Socket socket_;
  net::steady_timer limit_, closing_;
  std::array<std::uint8_t, 4> length_{};
  std::vector<char> body_;
  std::uint64_t reading_ = 0;  // which read this is; a limit of an earlier one is over
  bool timed_out_ = false;
  struct Out {
    std::string bytes;
    Written written;
  };
  std::deque<Out> ahead_;
  bool writing_ = false, closes_after_ = false;
};

}  // namespace shoal::wire::relay
