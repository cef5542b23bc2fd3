#include "lockstep/data/formats/jpeg.h"

#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>
#include <vector>
// libjpeg's headers need <cstdio>, and do not say so.
#include <jpeglib.h>
//
#include <jerror.h>

#include "lockstep/data/formats/pixels.h"

namespace lockstep::data {
namespace {

/// libjpeg reports errors to this and wants it not to return: it jumps back to `JpegDecoder`.
struct JpegErrors {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it is one to this
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  (*info->err->format_message)(info, errors->message);
  std::longjmp(errors->jump, 1);
}

/// Warnings after which pixels are made up. Others, as of stray bytes between markers, cost none.
bool costs_pixels(int code) {
  return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
         code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && costs_pixels(info->err->msg_code)) leave(info);
}

/// Each scan of a progressive picture passes over all of it, and takes but a few bytes of the file.
/// Encoders make about ten.
constexpr int kMostScans = 500;

void count_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof errors->message, "more than %d scans", kMostScans);
  std::longjmp(errors->jump, 1);
}

/// Ink to light, as Pillow does it: files hold inverted ink, as Adobe began it.
void rgb_of_inverted_cmyk(const std::uint8_t* cmyk, std::int64_t width, std::uint8_t* rgb) {
  for (std::int64_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    const int light = cmyk[3];
    for (int channel = 0; channel < 3; ++channel) {
      const int product = (255 - cmyk[channel]) * light + 128;
      rgb[channel] = static_cast<std::uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

/// One picture. Each member that calls libjpeg sets the jump's target anew and has no object with
/// a destructor, so that jumping over it is defined.
class JpegDecoder {
 public:
  explicit JpegDecoder(Bytes file) : file_(file) {
    info_.err = ::jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = leave;
    errors_.manager.emit_message = on_message;
  }
  ~JpegDecoder() { ::jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool read_header() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    progress_.progress_monitor = count_scans;
    info_.progress = &progress_;
    ::jpeg_mem_src(&info_, file_.data(), file_.size());
    ::jpeg_read_header(&info_, TRUE);
    info_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_RGB;
    return true;
  }

  bool read_pixels(std::uint8_t* pixels, std::uint8_t* cmyk_row) {
    if (setjmp(errors_.jump) != 0) return false;
    ::jpeg_start_decompress(&info_);
    const auto row_bytes = std::size_t{info_.output_width} * 3;
    while (info_.output_scanline < info_.output_height) {
      auto* const row = pixels + info_.output_scanline * row_bytes;
      auto* target = cmyk_row != nullptr ? cmyk_row : row;
      ::jpeg_read_scanlines(&info_, &target, 1);
      if (cmyk_row != nullptr) rgb_of_inverted_cmyk(cmyk_row, info_.output_width, row);
    }
    // Reads to the end marker, so that a file without one is noticed.
    ::jpeg_finish_decompress(&info_);
    return true;
  }

  bool is_cmyk() const {
    return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  }
  ImageSize size() const { return {info_.image_height, info_.image_width}; }
  const char* message() const { return errors_.message; }

  /// How far libjpeg has read.
  std::size_t offset() const {
    return info_.src == nullptr || info_.src->bytes_in_buffer > file_.size() || is_past_end()
               ? file_.size()
               : file_.size() - info_.src->bytes_in_buffer;
  }

 private:
  /// At the end libjpeg goes on in a buffer of its own.
  bool is_past_end() const {
    return info_.src->next_input_byte < file_.data() ||
           info_.src->next_input_byte > file_.data() + file_.size();
  }

  Bytes file_;
  JpegErrors errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
};

}  // namespace

bool is_jpeg(Bytes file) noexcept {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

ImageSize decode_jpeg(Bytes file, std::string_view where, const PixelMemory& memory) {
  JpegDecoder decoder(file);
  if (!decoder.read_header()) {
    throw damaged(where, decoder.offset(), "the header of a JPEG picture", decoder.message());
  }
  const auto size = decoder.size();
  const auto pixels = ask_for_pixels(size, where, decoder.offset(), memory);
  std::vector<std::uint8_t> cmyk_row(decoder.is_cmyk() ? static_cast<std::size_t>(size.width) * 4
                                                       : 0);
  if (!decoder.read_pixels(pixels.data(), cmyk_row.empty() ? nullptr : cmyk_row.data())) {
    throw damaged(where, decoder.offset(),
                  fmt::format("a JPEG picture of {} x {} pixels", size.height, size.width),
                  decoder.message());
  }
  return size;
}

}  // namespace lockstep::data
