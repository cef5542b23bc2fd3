#pragma once

#include <microhttpd.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace lockstep::monitor {

struct ResponseDeleter {
  void operator()(MHD_Response* response) const { ::MHD_destroy_response(response); }
};
/// A response may be queued on many connections at once; libmicrohttpd keeps it until the last has
/// sent it.
using Response = std::unique_ptr<MHD_Response, ResponseDeleter>;

/// A response with a copy of the content, and with the headers that every answer has: nothing is
/// loaded from elsewhere, framed, kept or guessed at.
Response make_response(std::string_view content, std::string_view type);
void add_header(MHD_Response* response, const char* name, const std::string& value);
/// The same headers for a response that was made in another way.
void add_common_headers(MHD_Response* response, std::string_view type);

/// An answer that is a status and a sentence.
Response make_refusal(std::string_view sentence);

/// The files of the page, by their paths, ready to be sent.
class PageResponses {
 public:
  PageResponses();
  /// Nothing where there is no such file.
  MHD_Response* find(std::string_view path) const;

 private:
  std::unordered_map<std::string_view, Response> responses_;
};

}  // namespace lockstep::monitor
