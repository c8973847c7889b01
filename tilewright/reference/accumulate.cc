#include <limits>
#include <type_traits>

#include "tilewright/reference/state.h"

namespace tilewright::reference {
namespace {

constexpr bool is_extreme_index(Reducer r) { return r == Reducer::Argmax || r == Reducer::Argmin; }

template <class T>
void take_products(State& s, bool by_lane) {
  Operand<T> a = in<T>(s, s.code.value), b = in<T>(s, s.code.factor);
  T* acc = reinterpret_cast<T*>(s.values.get());
  if (!a.wide && b.wide) std::swap(a, b);
  if (by_lane) {
    if (b.wide) return multiply_add(acc, a.at, b.at, s.lanes);
    if (a.wide) return multiply_add(acc, *b.at, a.at, s.lanes);
    for (int64_t k = 0; k < s.lanes; ++k) acc[k] += *a.at * *b.at;
  } else {
    T& to = acc[s.row_in_block];
    if constexpr (std::is_same_v<T, float>) {
      // The naive program adds in order, one rounding after another.
      for (int64_t k = 0; k < s.lanes; ++k) to += a[k] * b[k];
      return;
    }
    if (b.wide)
      to += dot(a.at, b.at, s.lanes);
    else if (a.wide)
      to += sum(a.at, s.lanes) * *b.at;
    else
      to += *a.at * *b.at * T(s.lanes);
  }
}

template <class E>
void accumulate(State& s, bool by_lane) {
  const Operand<E> value = in<E>(s, s.code.value);
  E* acc = reinterpret_cast<E*>(s.values.get());
  auto with = [&](auto f) {
    if (by_lane) return map2(acc, acc, true, value.at, value.wide, s.lanes, f);
    E x = acc[s.row_in_block];
    for (int64_t k = 0; k < s.lanes; ++k) x = f(x, value[k]);
    acc[s.row_in_block] = x;
  };
  switch (*s.table->reducer) {
    case Reducer::Sum:
      if constexpr (std::is_floating_point_v<E>) {
        if (!by_lane && std::is_same_v<E, double>) {
          acc[s.row_in_block] += value.wide ? sum(value.at, s.lanes) : *value.at * E(s.lanes);
          return;
        }
      }
      if constexpr (std::is_same_v<E, int64_t>)
        return with([](E x, E y) TW_INLINE { return E(uint64_t(x) + uint64_t(y)); });
      return with([](E x, E y) TW_INLINE { return E(x + y); });
    case Reducer::Prod:
      if constexpr (std::is_same_v<E, int64_t>)
        return with([](E x, E y) TW_INLINE { return E(uint64_t(x) * uint64_t(y)); });
      return with([](E x, E y) TW_INLINE { return E(x * y); });
    case Reducer::Max: return with([](E x, E y) TW_INLINE { return maximum(x, y); });
    case Reducer::Min: return with([](E x, E y) TW_INLINE { return minimum(x, y); });
    case Reducer::Any: return with([](E x, E y) TW_INLINE { return E(x != 0 || y != 0); });
    case Reducer::All: return with([](E x, E y) TW_INLINE { return E(x != 0 && y != 0); });
    default: TW_CHECK(false, "the program is not elaborated");
  }
}

/// NaN counts as larger than anything (Argmax) or smaller (Argmin); the smallest index wins among equals.
template <class E>
void take_extreme(State& s, bool by_lane) {
  const bool largest = *s.table->reducer == Reducer::Argmax;
  const Operand<E> value = in<E>(s, s.code.value);
  const auto mask = in<uint8_t>(s, s.code.mask);
  const int64_t index0 = integer(s, s.code.argument);
  auto* index = reinterpret_cast<int64_t*>(s.values.get());
  auto* best = reinterpret_cast<E*>(s.best.get());
  for (int64_t k = 0; k < s.lanes; ++k) {
    if (mask.at && !mask[k]) continue;
    const int64_t to = by_lane ? k : s.row_in_block, candidate = by_lane ? index0 : index0 + k;
    const E x = value[k], y = best[to];
    bool better = index[to] < 0;
    if (!better) {
      const bool x_nan = x != x, y_nan = y != y;
      const bool ahead = x_nan ? !y_nan : !y_nan && (largest ? x > y : x < y);
      const bool equal = x == y || (x_nan && y_nan);
      better = ahead || (equal && candidate < index[to]);
    }
    if (!better) continue;
    index[to] = candidate;
    best[to] = x;
  }
}

}  // namespace

template <class T>
void clear_accumulators(State& s) {
  const Reducer r = *s.table->reducer;
  auto fill = [&](auto value) {
    std::fill_n(reinterpret_cast<decltype(value)*>(s.values.get()), s.count, value);
  };
  if (is_extreme_index(r)) return fill(int64_t(-1));
  const bool real = s.table->value_kind == Kind::real;
  switch (r) {
    case Reducer::Sum: return real ? fill(T(0)) : fill(int64_t(0));
    case Reducer::Prod: return real ? fill(T(1)) : fill(int64_t(1));
    case Reducer::Max:
      return real ? fill(-std::numeric_limits<T>::infinity()) : fill(std::numeric_limits<int64_t>::min());
    case Reducer::Min:
      return real ? fill(std::numeric_limits<T>::infinity()) : fill(std::numeric_limits<int64_t>::max());
    case Reducer::Any: return fill(uint8_t(0));
    case Reducer::All: return fill(uint8_t(1));
    default: TW_CHECK(false, "the program is not elaborated");
  }
}

template <class T>
void consume(State& s) {
  const Table& t = *s.table;
  const bool by_lane = !t.strip_is_bound();
  for (Poison& p : s.poisons) {
    if (!p.any) continue;
    const bool wide = s.code.poisons[size_t(&p - s.poisons.data())];
    for (int64_t k = 0; k < s.lanes; ++k)
      if (uint32_t f = p.lane[wide ? size_t(k) : 0]) {
        s.any_failure = true;
        s.failures[size_t(by_lane ? k : s.row_in_block)] = f;
      }
  }
  if (!t.reducer) {
    const Operand<std::byte> value = in<std::byte>(s, s.code.value);
    const int64_t bytes = bytes_of(t.value_kind, sizeof(T));
    for (int64_t k = 0; k < s.count; k += value.wide ? s.count : 1)
      std::memcpy(s.values.get() + k * bytes, value.at, size_t(value.wide ? s.count * bytes : bytes));
    return;
  }
  if (is_extreme_index(*t.reducer)) {
    if (s.code.registers[size_t(s.code.value)].kind == Kind::real) return take_extreme<T>(s, by_lane);
    return take_extreme<int64_t>(s, by_lane);
  }
  switch (t.value_kind) {
    case Kind::real:
      if (s.code.factor >= 0) return take_products<T>(s, by_lane);
      return accumulate<T>(s, by_lane);
    case Kind::integer: return accumulate<int64_t>(s, by_lane);
    case Kind::boolean: return accumulate<uint8_t>(s, by_lane);
  }
}

template <class T>
void store(State& s, std::byte* to) {
  const Table& t = *s.table;
  if (t.kind == t.value_kind && !t.rounded && !t.operand) {
    std::memcpy(to, s.values.get(), size_t(s.count * s.element_bytes));
    return;
  }
  const DType dtype = t.operand ? *t.operand : t.rounded ? *t.rounded : DType::f64;
  const FloatRounding rounding(is_float(dtype) ? dtype : DType::f64);
  auto with = [&](auto source) {
    using E = decltype(source);
    const E* a = reinterpret_cast<const E*>(s.values.get());
    for (int64_t k = 0; k < s.count; ++k) switch (t.kind) {
        case Kind::real: {
          const double x = double(T(a[k]));
          reinterpret_cast<T*>(to)[k] = T(t.operand       ? rounding.significand(x)
                                          : t.beside_ties ? rounding.beside_tie(x)
                                                          : rounding(x));
          break;
        }
        case Kind::integer: {
          int64_t& d = reinterpret_cast<int64_t*>(to)[k];
          if constexpr (std::is_floating_point_v<E>)
            d = to_integer(dtype, double(a[k]));
          else
            d = narrow(dtype, int64_t(a[k]));
          break;
        }
        case Kind::boolean: reinterpret_cast<uint8_t*>(to)[k] = a[k] != 0; break;
      }
  };
  switch (t.value_kind) {
    case Kind::real: return with(T{});
    case Kind::integer: return with(int64_t{});
    case Kind::boolean: return with(uint8_t{});
  }
}

template void clear_accumulators<double>(State&);
template void clear_accumulators<float>(State&);
template void consume<double>(State&);
template void consume<float>(State&);
template void store<double>(State&, std::byte*);
template void store<float>(State&, std::byte*);

}  // namespace tilewright::reference
