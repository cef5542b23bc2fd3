#include "lockstep/data/formats/pickle_text.h"

#include <charconv>
#include <cstdint>

namespace lockstep::data {
namespace {

std::optional<std::uint32_t> parse_hex(std::string_view text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  std::uint32_t value = 0;
  const auto* const end = text.data() + digits;
  const auto result = std::from_chars(text.data(), end, value, 16);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return value;
}

void append_utf8(std::uint32_t code, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

char plain_escape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return 0;
  }
}

}  // namespace

std::optional<std::string> latin1_of_utf8(std::string_view text) {
  std::string bytes;
  bytes.resize(text.size());
  auto* out = bytes.data();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<std::uint8_t>(text[i]);
    if (first < 0x80) {
      *out++ = text[i];
      continue;
    }
    // U+0080 to U+00FF are two bytes, and the first is one of these two.
    if ((first != 0xc2 && first != 0xc3) || i + 1 == text.size()) return std::nullopt;
    const auto second = static_cast<std::uint8_t>(text[++i]);
    if ((second & 0xc0) != 0x80) return std::nullopt;
    *out++ = static_cast<char>(((first & 0x03) << 6) | (second & 0x3f));
  }
  bytes.resize(static_cast<std::size_t>(out - bytes.data()));
  return bytes;
}

std::optional<std::string> unquote(std::string_view literal) {
  if (literal.size() < 2 || literal.front() != literal.back() ||
      (literal.front() != '\'' && literal.front() != '"')) {
    return std::nullopt;
  }
  literal = literal.substr(1, literal.size() - 2);
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\') {
      text += literal[i];
      continue;
    }
    if (++i == literal.size()) return std::nullopt;
    if (literal[i] == 'x') {
      const auto code = parse_hex(literal.substr(i + 1), 2);
      if (!code) return std::nullopt;
      text += static_cast<char>(*code);
      i += 2;
    } else {
      const auto character = plain_escape(literal[i]);
      if (character == 0) return std::nullopt;
      text += character;
    }
  }
  return text;
}

std::optional<std::string> utf8_of_raw_unicode(std::string_view text) {
  std::string utf8;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_short = text.substr(i).starts_with("\\u");
    if (!is_short && !text.substr(i).starts_with("\\U")) {
      append_utf8(static_cast<std::uint8_t>(text[i]), utf8);
      continue;
    }
    const std::size_t digits = is_short ? 4 : 8;
    const auto code = parse_hex(text.substr(i + 2), digits);
    if (!code || *code > 0x10ffff) return std::nullopt;
    append_utf8(*code, utf8);
    i += 1 + digits;
  }
  return utf8;
}

}  // namespace lockstep::data
