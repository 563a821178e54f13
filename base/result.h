// Expected failures: a peer is gone, a disk is full, a message is malformed. Every function that
// can meet one returns Result<T>; the caller must look at it. The list of codes is closed. What
// cannot happen is SHOAL_CHECK (check.h). A user's mistake carries the field, what was given and
// the remedy.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/fields.h"

namespace shoal {

enum class Code {
  kInvalidArgument,  // malformed: bad JSON, bad TOML, bad frame
  kValidation,       // well formed but refused; `field` says where
  kNotFound,
  kConflict,  // the state of the object forbids it
  kUnauthenticated,
  kPermissionDenied,
  kUnavailable,  // peer or service gone; worth a retry
  kDeadlineExceeded,
  kResourceExhausted,  // memory, disk, a queue at its bound
  kIncompatible,       // protocol, schema or file version
  kDataLoss,           // a checksum or digest does not match
  kCancelled,
  kInternal,
};
constexpr auto enumerators_of(Of<Code>) {
  using enum Code;
  return enumerators<Code>({{kInvalidArgument, "invalid_argument"},
                            {kValidation, "validation"},
                            {kNotFound, "not_found"},
                            {kConflict, "conflict"},
                            {kUnauthenticated, "unauthenticated"},
                            {kPermissionDenied, "permission_denied"},
                            {kUnavailable, "unavailable"},
                            {kDeadlineExceeded, "deadline_exceeded"},
                            {kResourceExhausted, "resource_exhausted"},
                            {kIncompatible, "incompatible"},
                            {kDataLoss, "data_loss"},
                            {kCancelled, "cancelled"},
                            {kInternal, "internal"}});
}

struct Error {
  Code code = Code::kInternal;
  std::string message;  // one sentence: what is wrong, with the value given
  std::string field;    // "train.lr", a flag or a file; empty when none applies
  std::string remedy;   // what to do; empty when nothing helps
  bool operator==(const Error&) const = default;
};
constexpr auto fields_of(Of<Error>) {
  using T = Error;
  return fields<&T::code, &T::message, &T::field, &T::remedy>();
}

// "train.lr: must be above 0, got -1 (remedy)": the one way an Error is shown to people.
std::string to_string(const Error& error);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Both require the matching ok().
  T& value() & { return SHOAL_CHECK(ok(), error_text()), std::get<0>(state_); }
  const T& value() const& { return SHOAL_CHECK(ok(), error_text()), std::get<0>(state_); }
  T&& value() && { return SHOAL_CHECK(ok(), error_text()), std::get<0>(std::move(state_)); }
  const Error& error() const { return SHOAL_CHECK(!ok()), std::get<1>(state_); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::string error_text() const { return ok() ? std::string() : to_string(std::get<1>(state_)); }
  std::variant<T, Error> state_;
};

// Success without a value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return SHOAL_CHECK(!ok()), *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace shoal
