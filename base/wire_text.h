// Grammars of what comes from elsewhere and is shown to people, written to logs or dialed. Pure.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace shoal {

// Well-formed UTF-8 of at most `bytes` bytes without control characters (C0, DEL, C1), line and
// paragraph separators and the characters that turn the direction of writing: what a terminal or a
// log shows as it is, in one line.
bool is_plain_text(std::string_view text, std::size_t bytes);

// Well-formed UTF-8 (RFC 3629), control characters included.
bool is_utf8(std::string_view text);

// Makes any bytes UTF-8 of at most `bytes_max` bytes: each run of bytes that is not UTF-8 becomes
// one U+FFFD, and the end is cut between two characters. For texts of programs, drivers, files and
// libraries, before they enter a message, a log, an event or a table. Text that is valid and fits
// stays as it is.
std::string valid_text(std::string_view text,
                       std::size_t bytes_max = std::numeric_limits<std::size_t>::max());

// What is_plain_text() refuses is written as \xNN, byte by byte; with `lines`, line breaks and tabs
// stay. For texts of others that cannot be refused, before they reach a terminal or a log.
std::string shown_text(std::string_view text, bool lines);

// An address of a host without a port: IPv4, IPv6 with or without brackets, or a name of letters,
// digits, '.', '-' and '_'. At most 253 characters.
bool is_host_text(std::string_view text);

// host:port or [IPv6]:port, with a port from 1 to 65,535.
bool is_host_port_text(std::string_view text);

// http(s)://host or http(s)://host:port, in lower case, without a path.
bool is_origin_text(std::string_view text);

}  // namespace shoal
