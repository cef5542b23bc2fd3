#include "lockstep/monitor/web/answers.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/monitor/web/page_files.h"

namespace lockstep::monitor {
namespace {

// Scripts and styles are files of ours alone: a name that a job has given itself cannot become one.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

void add_header(MHD_Response* response, const char* name, const std::string& value) {
  if (::MHD_add_response_header(response, name, value.c_str()) == MHD_YES) return;
  throw Error(ErrorKind::Bug, fmt::format("dashboard: libmicrohttpd refuses the header {}", name));
}

void add_common_headers(MHD_Response* response, std::string_view type) {
  add_header(response, "Content-Type", std::string(type));
  add_header(response, "Content-Security-Policy", kContentPolicy);
  add_header(response, "X-Content-Type-Options", "nosniff");
  add_header(response, "X-Frame-Options", "DENY");
  add_header(response, "Referrer-Policy", "no-referrer");
  add_header(response, "Cross-Origin-Opener-Policy", "same-origin");
  add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
  add_header(response, "Cache-Control", "no-store");
}

Response make_response(std::string_view content, std::string_view type) {
  // libmicrohttpd copies it; the pointer is only not const because of other modes.
  Response response(::MHD_create_response_from_buffer(
      content.size(), const_cast<char*>(content.data()), MHD_RESPMEM_MUST_COPY));
  if (!response) throw Error(ErrorKind::Io, "dashboard: out of memory for an answer");
  add_common_headers(response.get(), type);
  return response;
}

Response make_refusal(std::string_view sentence) {
  return make_response(fmt::format("{}\n", sentence), "text/plain; charset=utf-8");
}

PageResponses::PageResponses() {
  for (const auto& file : page_files()) {
    responses_.emplace(file.path, make_response(file.content, file.type));
  }
}

MHD_Response* PageResponses::find(std::string_view path) const {
  const auto found = responses_.find(path);
  return found == responses_.end() ? nullptr : found->second.get();
}

}  // namespace lockstep::monitor
