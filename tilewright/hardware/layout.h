// Layouts as values: from tile coordinates to (owner, offset).
//
// An owner is a thread of a role (register space) or absent (owner 0: shared, memory). A layout is a list of digits
// of mixed radix: every coordinate of a tile axis is a sum of digit values times their steps, and each digit
// contributes value × stride to the owner or to the offset (in elements). A swizzle permutes offsets by XOR. A
// replicated digit (axis −1) makes several owners hold the same element.
//
// Example: the accumulator of wgmma m64nN (rows i, columns j; PTX ISA, "Register Fragments for wgmma"), owners 0…127:
//   i: {extent 8, step 1, owner ×4} {2, step 8, offset ×2} {4, step 16, owner ×32}
//   j: {extent 2, step 1, offset ×1} {4, step 2, owner ×1} {N/8, step 8, offset ×4}
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

struct Digit {
  enum class To : uint8_t { Owner, Offset };
  int axis = 0;        ///< index into the tile's axes; −1: replicated over owners
  int64_t extent = 1;  ///< values 0 … extent−1
  int64_t step = 1;    ///< coordinate step along the axis
  To to = To::Offset;
  int64_t stride = 0;  ///< contribution of one value
  friend bool operator==(const Digit&, const Digit&) = default;
};

/// offset ^= ((offset >> (base + shift)) & (2^bits − 1)) << base. bits = 0: none. In elements.
struct Swizzle {
  int bits = 0, base = 0, shift = 0;
  int64_t apply(int64_t offset) const {
    return bits == 0 ? offset : offset ^ (((offset >> (base + shift)) & ((int64_t(1) << bits) - 1)) << base);
  }
  friend bool operator==(const Swizzle&, const Swizzle&) = default;
};

struct Place {
  int64_t owner = 0, offset = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

/// How data moves when one tile changes layout: not between owners (an owner at most renames its offsets), between
/// owners of one warp (32), or between warps.
enum class Conversion : uint8_t { Identity, Lanes, Shared };

class Layout {
 public:
  Layout() = default;
  /// Digits may come in any order and are kept in a canonical one (sorted, joined where one continues the other), so that
  /// equal maps compare equal. InternalError unless they cover the shape exactly and no two elements share a place.
  Layout(std::vector<int64_t> shape, std::vector<Digit> digits, Swizzle swizzle = {});
  static Layout row_major(std::vector<int64_t> shape);
  /// Axis order from fastest to slowest, e.g. {0, 1}: axis 0 contiguous. `pad` adds elements to the stride of the
  /// second-fastest axis.
  static Layout strided(std::vector<int64_t> shape, std::vector<int> fastest_first, int64_t pad = 0);

  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<Digit>& digits() const { return digits_; }
  const Swizzle& swizzle() const { return swizzle_; }
  int64_t owners() const;  ///< 1 + largest owner, replicas included
  int64_t elements()
      const;  ///< offsets an owner (or the buffer) must hold: 1 + largest offset, whole units of the swizzle

  Place place(const std::vector<int64_t>& coords) const;                ///< first replica
  std::vector<Place> places(const std::vector<int64_t>& coords) const;  ///< all replicas
  /// Coordinates of what (owner, offset) holds; false if it holds nothing.
  bool coords(Place p, std::vector<int64_t>& out) const;

  /// The layout of the tile without `axis` (a row vector of a matrix tile): offset digits of the axis vanish, owner
  /// digits become replicas; remaining offsets are renumbered densely, without swizzle.
  Layout reduce_axis(int axis) const;
  /// Largest contiguous run of elements along `axis` in one owner, in elements.
  int64_t contiguous(int axis) const;
  /// Worst number of distinct 4-byte words in one of 32 banks when owners access `bytes_each` at the given offsets, in
  /// passes of as many consecutive owners as move 128 bytes. 1: no conflict.
  static int bank_conflicts(const std::vector<int64_t>& byte_offsets, int bytes_each);
  friend bool operator==(const Layout&, const Layout&) = default;
  /// "(64, 128) 0:8@4 0/8:2*2 …": axis/step:extent, @ owner stride or * offset stride; xor(bits, base, shift).
  std::string str() const;

 private:
  std::vector<int64_t> shape_;
  std::vector<Digit> digits_;
  Swizzle swizzle_;
};

/// What it takes to turn a tile in layout `from` into layout `to` (both in registers, 32 owners a warp).
Conversion classify(const Layout& from, const Layout& to);

}  // namespace tilewright
