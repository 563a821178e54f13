#!/usr/bin/env python3
"""What `./dev sites` takes for a frame header in clear."""
import os
import random
import struct
import unittest

from sites import plain_headers


def header(kind, head, length, stream):
    return struct.pack("<HBBHHIIIII", 0x5368, kind, 0, head, 0, length, stream, 0, 0, 0)


class PlainHeaders(unittest.TestCase):
    def test_headers_are_found_wherever_they_lie(self):
        noise = random.Random(1).randbytes(5000)
        captured = noise + header(0, 0, 34, 0) + noise + header(3, 30, 4096, 7)
        self.assertEqual(plain_headers(captured), 2)

    def test_what_is_encrypted_has_none(self):
        self.assertEqual(plain_headers(os.urandom(1 << 20)), 0)


if __name__ == "__main__":
    unittest.main()
