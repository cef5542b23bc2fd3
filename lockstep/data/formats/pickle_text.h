#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data {

/// The bytes that Python 3 keeps as text where a protocol has no bytes: each character of the
/// UTF-8 text is one byte. Nothing where it is not such a text.
std::optional<std::string> latin1_of_utf8(std::string_view text);

/// A Python 2 string as protocol 0 writes it: 'it\'s \x00'. Nothing where it is not one.
std::optional<std::string> unquote(std::string_view literal);

/// A Python 2 unicode string as protocol 0 writes it, as UTF-8: "raw-unicode-escape", which is
/// Latin 1 with \uXXXX for what is not in there. Nothing where it is not one.
std::optional<std::string> utf8_of_raw_unicode(std::string_view text);

}  // namespace lockstep::data
