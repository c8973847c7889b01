// Random layouts of mixed radix: places are distinct and invert, reductions agree with what they reduce, classification agrees with owners.
#include "tilewright/hardware/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace tilewright::layout_test {
namespace {

struct Random {
  std::mt19937_64 engine;
  int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }
};

/// Digits of random radix for every axis and up to one replica, in random order over owners and offsets, with gaps now and then.
Layout random_layout(Random& r, const std::vector<int64_t>& shape, bool replicas = true) {
  std::vector<Digit> digits;
  for (size_t a = 0; a < shape.size(); ++a) {
    int64_t rest = shape[a], step = 1;
    while (rest > 1) {
      std::vector<int64_t> factors;
      for (int64_t f = 2; f <= rest; ++f)
        if (rest % f == 0) factors.push_back(f);
      int64_t f = factors[r.below(int64_t(factors.size()))];
      digits.push_back({int(a), f, step, r.below(2) ? Digit::To::Owner : Digit::To::Offset, 0});
      rest /= f, step *= f;
    }
  }
  if (replicas && r.below(2)) digits.push_back({-1, 2 + r.below(3), 0, Digit::To::Owner, 0});
  std::shuffle(digits.begin(), digits.end(), r.engine);
  int64_t next[2] = {1, 1};
  for (Digit& d : digits) {
    int64_t& stride = next[d.to == Digit::To::Owner];
    if (d.to == Digit::To::Offset && r.below(4) == 0) ++stride;
    d.stride = stride;
    stride *= d.extent;
  }
  std::shuffle(digits.begin(), digits.end(), r.engine);
  Swizzle swizzle = r.below(3) ? Swizzle{} : Swizzle{int(1 + r.below(2)), int(r.below(3)), 2};
  return Layout(shape, digits, swizzle);
}

std::vector<int64_t> random_shape(Random& r) {
  static constexpr int64_t extents[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 20};
  std::vector<int64_t> shape;
  for (int64_t n = 1 + r.below(3); n > 0; --n) shape.push_back(extents[r.below(10)]);
  return shape;
}

template <class F>
void each(const std::vector<int64_t>& shape, F visit) {
  std::vector<int64_t> c(shape.size(), 0);
  while (true) {
    visit(c);
    size_t a = shape.size();
    while (a > 0 && ++c[a - 1] == shape[a - 1]) c[--a] = 0;
    if (a == 0) return;
  }
}

TEST(LayoutProperty, PlacesAreDistinctAndInvert) {
  Random r{std::mt19937_64(1)};
  for (int trial = 0; trial < 400; ++trial) {
    Layout l = random_layout(r, random_shape(r));
    std::set<std::pair<int64_t, int64_t>> seen;
    each(l.shape(), [&](const std::vector<int64_t>& c) {
      auto places = l.places(c);
      ASSERT_EQ(places[0], l.place(c));
      for (Place p : places) {
        ASSERT_TRUE(seen.insert({p.owner, p.offset}).second) << l.str();
        ASSERT_LT(p.owner, l.owners()) << l.str();
        ASSERT_LT(p.offset, l.elements()) << l.str();
        std::vector<int64_t> back;
        ASSERT_TRUE(l.coords(p, back)) << l.str();
        ASSERT_EQ(back, c) << l.str();
      }
    });
    // What holds nothing says so.
    std::vector<int64_t> back;
    for (int64_t owner = 0; owner < l.owners(); ++owner)
      for (int64_t offset = 0; offset < l.elements(); ++offset)
        ASSERT_EQ(l.coords({owner, offset}, back), seen.count({owner, offset}) > 0) << l.str();
  }
}

TEST(LayoutProperty, AxisReductionKeepsOwners) {
  Random r{std::mt19937_64(2)};
  for (int trial = 0; trial < 200; ++trial) {
    Layout l = random_layout(r, random_shape(r));
    int axis = int(r.below(int64_t(l.shape().size())));
    Layout reduced = l.reduce_axis(axis);
    std::map<std::vector<int64_t>, std::set<int64_t>> owners;
    each(l.shape(), [&](std::vector<int64_t> c) {
      auto places = l.places(c);
      c.erase(c.begin() + axis);
      for (Place p : places) owners[c].insert(p.owner);
    });
    int64_t held = 1;
    for (auto& [c, expected] : owners) {
      std::set<int64_t> found;
      for (Place p : reduced.places(c)) {
        found.insert(p.owner);
        held = std::max(held, p.offset + 1);
      }
      ASSERT_EQ(found, expected) << l.str() << " without axis " << axis;
    }
    ASSERT_EQ(reduced.elements(), held) << "offsets are dense";
  }
}

TEST(LayoutProperty, ClassificationFollowsOwners) {
  Random r{std::mt19937_64(3)};
  int kinds[3] = {};
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> shape = random_shape(r);
    Layout from = random_layout(r, shape), to = r.below(4) ? random_layout(r, shape) : from;
    Conversion expected = Conversion::Identity;
    each(shape, [&](const std::vector<int64_t>& c) {
      for (Place p : to.places(c)) {
        bool own = false, near = false;
        for (Place q : from.places(c)) own |= q.owner == p.owner, near |= q.owner / 32 == p.owner / 32;
        expected = std::max(expected, own    ? Conversion::Identity
                                      : near ? Conversion::Lanes
                                             : Conversion::Shared);
      }
    });
    ASSERT_EQ(classify(from, to), expected) << from.str() << " to " << to.str();
    ++kinds[int(expected)];
  }
  for (int n : kinds) EXPECT_GT(n, 5);
}

TEST(LayoutProperty, ContiguousRunsAreContiguous) {
  Random r{std::mt19937_64(4)};
  for (int trial = 0; trial < 300; ++trial) {
    Layout l = random_layout(r, random_shape(r));
    for (int axis = 0; axis < int(l.shape().size()); ++axis) {
      int64_t run = l.contiguous(axis);
      ASSERT_EQ(l.shape()[axis] % run, 0);
      each(l.shape(), [&](std::vector<int64_t> c) {
        if (c[axis] % run == 0) return;
        Place p = l.place(c);
        --c[axis];
        Place before = l.place(c);
        ASSERT_EQ(p.owner, before.owner) << l.str();
        ASSERT_EQ(p.offset, before.offset + 1) << l.str() << " axis " << axis << " run " << run;
      });
    }
  }
}

TEST(LayoutProperty, EqualDigitsAreEqualLayouts) {
  Random r{std::mt19937_64(5)};
  for (int trial = 0; trial < 200; ++trial) {
    Layout l = random_layout(r, random_shape(r));
    std::vector<Digit> digits = l.digits();
    std::shuffle(digits.begin(), digits.end(), r.engine);
    digits.push_back({0, 1, 1, Digit::To::Owner, 99});
    EXPECT_EQ(Layout(l.shape(), digits, l.swizzle()), l);
  }
}

}  // namespace
}  // namespace tilewright::layout_test
