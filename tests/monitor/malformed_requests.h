#pragma once

#include <cstddef>
#include <random>
#include <string>

namespace lockstep::testing {

using namespace std::string_literals;

/// One of many ways to send what no browser sends.
inline std::string malformed(std::size_t i, std::mt19937& random) {
  switch (i % 12) {
    case 0: {
      std::string bytes(1 + random() % 2000, '\0');
      for (auto& byte : bytes) byte = static_cast<char>(random());
      return bytes;
    }
    case 1:
      return "GET /" + std::string(60'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    case 2: {
      std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n";
      for (int n = 0; n < 2000; ++n) request += "X" + std::to_string(n) + ": y\r\n";
      return request + "\r\n";
    }
    case 3:
      return "GET / HTTP/1.1\r\nHost\0: x\r\nno colon\r\n\r\n"s;
    case 4:
      return "GET  HTTP/9.9\r\n\r\n";
    case 5:
      return "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
             "99999999999999999999\r\n\r\nabc";
    case 6:
      return "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
             "chunked\r\n\r\nfffffffff\r\nx";
    case 7:
      return "GET / HT";  // and no more
    case 8:
      return "";
    case 9:
      return "GET / HTTP/1.1\r\nHost: localhost\r\nX: ";  // to which bytes are added
    case 10: {
      std::string request;
      for (int n = 0; n < 50; ++n) request += "GET /chart.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
      return request;  // whose answers nobody reads
    }
    default:
      return "\r\n\r\n\r\nGET /api/jobs HTTP/1.0\r\nHost: [\r\n\r\n";
  }
}

}  // namespace lockstep::testing
