#include "trainer/picture/sheet.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace coxswain::picture {

namespace {

constexpr std::int64_t kLeastSide = 96;  // of a picture: so that it is seen, and its label fits
constexpr std::int64_t kGap = 8;
constexpr std::int64_t kDot = 2;  // a dot of a letter, a side
constexpr std::int64_t kLetterWidth = 4 * kDot;
constexpr std::int64_t kLineHeight = 7 * kDot;
constexpr std::uint8_t kPaper = 255;
constexpr std::uint8_t kInk = 32;

// A letter is five rows of three dots: a row is an octal digit.
constexpr std::array<std::uint16_t, 26> kLetters{
    025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755, 072227,
    011152, 055655, 044447, 057755, 065555, 025552, 065644, 025563, 065655,
    034216, 072222, 055557, 055552, 055775, 055255, 055222, 071247};
constexpr std::array<std::uint16_t, 10> kDigits{075557, 026227, 061247, 061216, 055711,
                                                074616, 034757, 071222, 075757, 075716};

std::uint16_t dots_of(char c) {
  if (c >= 'a' && c <= 'z') return kLetters[static_cast<std::size_t>(c - 'a')];
  if (c >= 'A' && c <= 'Z') return kLetters[static_cast<std::size_t>(c - 'A')];
  if (c >= '0' && c <= '9') return kDigits[static_cast<std::size_t>(c - '0')];
  switch (c) {
    case ' ':
      return 0;
    case '-':
      return 000700;
    case '_':
      return 000007;
    case '.':
      return 000002;
    case ',':
      return 000024;
    case '+':
      return 002720;
    case '%':
      return 051245;
    case '/':
      return 011244;
    default:
      return 061202;
  }
}

// Bytes of a letter beyond ASCII that follow its first one.
bool continues_letter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

struct Grid {
  std::int64_t columns;
  std::int64_t rows;
  std::int64_t zoom;
  std::int64_t cell_width;
  std::int64_t cell_height;
};

Grid grid_of(std::size_t count, const tensor::Shape& sample, std::size_t lines) {
  Grid grid{};
  const std::int64_t shorter = std::min(sample.h, sample.w);
  grid.zoom = (std::max(shorter, kLeastSide) + shorter - 1) / shorter;
  grid.cell_width = sample.w * grid.zoom + kGap;
  grid.cell_height =
      sample.h * grid.zoom + kGap + kDot + static_cast<std::int64_t>(lines) * kLineHeight;
  const double cells = static_cast<double>(count) * static_cast<double>(grid.cell_height) /
                       static_cast<double>(grid.cell_width);
  const auto most = static_cast<std::int64_t>(count);
  grid.columns = std::clamp<std::int64_t>(std::llround(std::sqrt(cells)), 1, most);
  grid.rows = (most + grid.columns - 1) / grid.columns;
  return grid;
}

tensor::Shape shape_of(const Grid& grid) {
  return {1, 3, grid.rows * grid.cell_height + kGap, grid.columns * grid.cell_width + kGap};
}

void fill(Drawn& sheet, std::int64_t x, std::int64_t y, std::int64_t side,
          std::span<const std::uint8_t> colour) {
  for (std::int64_t row = y; row < y + side; ++row) {
    std::uint8_t* to = sheet.pixels.data() + (row * sheet.shape.w + x) * 3;
    for (std::int64_t i = 0; i < side; ++i, to += 3) {
      for (std::size_t c = 0; c < 3; ++c) to[c] = colour[colour.size() == 3 ? c : 0];
    }
  }
}

void draw_picture(Drawn& sheet, std::int64_t x, std::int64_t y, std::int64_t zoom,
                  std::span<const std::uint8_t> pixels, const tensor::Shape& shape) {
  for (std::int64_t row = 0; row < shape.h; ++row) {
    for (std::int64_t column = 0; column < shape.w; ++column) {
      const auto at = static_cast<std::size_t>((row * shape.w + column) * shape.c);
      fill(sheet, x + column * zoom, y + row * zoom, zoom,
           pixels.subspan(at, static_cast<std::size_t>(shape.c)));
    }
  }
}

void draw_line(Drawn& sheet, std::int64_t x, std::int64_t y, std::int64_t width,
               const std::string& line) {
  constexpr std::array<std::uint8_t, 1> kColour{kInk};
  const std::int64_t end = x + width;
  for (const char letter : line) {
    if (continues_letter(letter)) continue;
    if (x + kLetterWidth > end) return;
    for (std::int64_t dot = 0; dot < 15; ++dot) {
      if ((dots_of(letter) >> (14 - dot) & 1) == 0) continue;
      fill(sheet, x + dot % 3 * kDot, y + dot / 3 * kDot, kDot, kColour);
    }
    x += kLetterWidth;
  }
}

std::size_t most_lines(std::span<const Labelled> samples) {
  std::size_t most = 0;
  for (const Labelled& sample : samples) most = std::max(most, sample.lines.size());
  return most;
}

}  // namespace

tensor::Shape sheet_shape(std::size_t count, const tensor::Shape& sample, std::size_t lines) {
  return shape_of(grid_of(count, sample, lines));
}

Drawn draw_sheet(std::span<const Labelled> samples, const tensor::Shape& sample) {
  assert(!samples.empty() && (sample.c == 1 || sample.c == 3));
  const Grid grid = grid_of(samples.size(), sample, most_lines(samples));
  Drawn sheet{shape_of(grid), {}};
  sheet.pixels.assign(static_cast<std::size_t>(sheet.shape.elements()), kPaper);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int64_t x = kGap + static_cast<std::int64_t>(i) % grid.columns * grid.cell_width;
    std::int64_t y = kGap + static_cast<std::int64_t>(i) / grid.columns * grid.cell_height;
    draw_picture(sheet, x, y, grid.zoom, samples[i].pixels, sample);
    y += sample.h * grid.zoom + kDot * 2;
    for (const std::string& line : samples[i].lines) {
      draw_line(sheet, x, y, sample.w * grid.zoom, line);
      y += kLineHeight;
    }
  }
  return sheet;
}

}  // namespace coxswain::picture
