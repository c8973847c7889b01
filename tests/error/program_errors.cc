// Whole messages of the parser and verifier: position, line, caret and advice.
#include <gtest/gtest.h>

#include "tilewright/program/program.h"

namespace tilewright::program_errors_test {
namespace {

/// All diagnostics of a text, rendered, each followed by an empty line.
std::string messages(const std::string& text, const Overrides& overrides = {}) {
  try {
    parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}), overrides);
  } catch (const UserError& e) {
    std::string all;
    for (const Diagnostic& d : e.diagnostics()) {
      all += d.render();
      if (all.back() != '\n') all += "\n";
      all += "\n";
    }
    return all;
  }
  return "no error";
}

TEST(ProgramErrors, FreeAxis) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, j] : f32
y[i] = x[i, j] * 2
output y
)"),
            R"(
t.tw:3:13: error: axis `j` of the right side is not on the left side of `y`
  y[i] = x[i, j] * 2
              ^
  help: reduce over it, for example sum[j](…), or write y[i, j]

)");
}

TEST(ProgramErrors, FreeAxisOfABareRead) {
  EXPECT_EQ("\n" + messages(R"(axis b, j, d
input K[b, j, d] : f16
y[b] = sum[d](K)
output y
)"),
            R"(
t.tw:3:15: error: axis `j` of the right side is not on the left side of `y`
  y[b] = sum[d](K)
                ^
  help: `K` alone reads K[b, j, d]; reduce over it, for example sum[j](…), or write y[b, j]

)");
}

TEST(ProgramErrors, FreeAxisOfSoftmax) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, j] : f32
y[i] = softmax[j](x)
output y
)"),
            R"(
t.tw:3:16: error: axis `j` of the right side is not on the left side of `y`
  y[i] = softmax[j](x)
                 ^
  help: softmax[j] has a value for each j; reduce over it, for example sum[j](…), or write y[i, j]

)");
}

TEST(ProgramErrors, ChainedComparison) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
y[i, j] = i - 1 <= j < i + size(j)
output y
)"),
            R"(
t.tw:2:22: error: comparisons do not chain
  y[i, j] = i - 1 <= j < i + size(j)
                       ^
  help: write `i - 1 <= j and j < i + size(j)`

)");
}

TEST(ProgramErrors, UnknownNames) {
  EXPECT_EQ("\n" + messages(R"(axis i, keys
input score[i, keys] : f32
y[i] = sum[keys](scores)
z[i] = sum[key](score)
w[i] = size(key) + sqr(i) + size(score)
output yy, z
)"),
            R"(
t.tw:3:18: error: unknown name `scores`
  y[i] = sum[keys](scores)
                   ^~~~~~
  help: did you mean `score`?

t.tw:4:12: error: unknown axis `key`
  z[i] = sum[key](score)
             ^~~
  help: did you mean `keys`?

t.tw:5:13: error: unknown axis `key`
  w[i] = size(key) + sqr(i) + size(score)
              ^~~
  help: did you mean `keys`?

t.tw:6:8: error: unknown name `yy`
  output yy, z
         ^~
  help: did you mean `y`?

)");
}

TEST(ProgramErrors, WrongNumberOfIndices) {
  EXPECT_EQ("\n" + messages(R"(axis b, k, g, i, d
input Q[b, (k g), i, d] : f16
y[b, k, g, i] = sum[d](Q[b, k, g, i, d])
z[b] = Q[]
output y
)"),
            R"(
t.tw:3:24: error: `Q` has 4 dimensions, Q[b, (k g), i, d], and is read with 5 indices, [b, k, g, i, d]
  y[b, k, g, i] = sum[d](Q[b, k, g, i, d])
                         ^~~~~~~~~~~~~~~~
  help: give one index for each dimension, or Q alone to read it at its own axes

t.tw:4:8: error: `Q` has 4 dimensions, Q[b, (k g), i, d], and is read with 0 indices, []
  z[b] = Q[]
         ^~~
  help: give one index for each dimension, or Q alone to read it at its own axes

)");
}

TEST(ProgramErrors, TypesOfConditions) {
  EXPECT_EQ("\n" + messages(R"(axis i
input x[i] : f32
a[i] = where(x, 1, 2)
b[i] = not x
c[i] = x > 0 and x
d[] = any[i](x)
output a
)"),
            R"(
t.tw:3:14: error: `where` needs a condition, and this is real
  a[i] = where(x, 1, 2)
               ^
  help: compare it: x != 0

t.tw:4:12: error: `not` needs a condition, and this is real
  b[i] = not x
             ^
  help: compare it: x != 0

t.tw:5:18: error: `and` needs a condition, and this is real
  c[i] = x > 0 and x
                   ^
  help: compare it: x != 0

t.tw:6:14: error: `any` needs a condition, and this is real
  d[] = any[i](x)
               ^
  help: compare it: x != 0

)");
}

TEST(ProgramErrors, TypesOfIndices) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i] : f32
a[i] = x[x]
b[i] = x[i / 2]
c[i] = x[i < 2]
output a
)"),
            R"(
t.tw:3:10: error: index 1 of `x` is real, not an integer
  a[i] = x[x]
           ^
  help: `//` divides integers; i64(x) truncates

t.tw:4:10: error: index 1 of `x` is real, not an integer
  b[i] = x[i / 2]
           ^~~~~
  help: `//` divides integers; i64(i / 2) truncates

t.tw:5:10: error: index 1 of `x` is bool, not an integer
  c[i] = x[i < 2]
           ^~~~~
  help: i64(i < 2) counts it as 0 or 1

)");
}

TEST(ProgramErrors, IntegerDivision) {
  EXPECT_EQ("\n" + messages(R"(axis i
input x[i] : f32
a[i] = x // 2
b[i] = i % 2.0
c[i] = i // 0
output a
)"),
            R"(
t.tw:3:8: error: `//` is for integers, and this is real
  a[i] = x // 2
         ^
  help: floor(x / 2) divides reals and rounds down

t.tw:4:12: error: `%` is for integers, and this is real
  b[i] = i % 2.0
             ^~~
  help: x - y * floor(x / y) is the remainder of reals

t.tw:5:13: error: division by zero
  c[i] = i // 0
              ^
  help: the divisor must not be zero

)");
}

TEST(ProgramErrors, TabsAndForeignSigns) {
  EXPECT_EQ("\n" + messages(R"(axis i
	input x[i] : f32
	a[i] = x
b[i] = x ^ 2
c[i] = x && x
d[i] = x; e[i] = x
f[i] = 2x
g[i] = "s"
h[i] = é
output a
)"),
            R"(
t.tw:2:1: error: a tab stands outside a comment
  	input x[i] : f32
  ^
  help: use spaces

t.tw:4:10: error: `^` is not part of the language
  b[i] = x ^ 2
           ^
  help: `**` raises to a power

t.tw:5:10: error: `&&` is not part of the language
  c[i] = x && x
           ^~
  help: write `and`

t.tw:6:9: error: `;` is not part of the language
  d[i] = x; e[i] = x
          ^
  help: end a statement with a new line

t.tw:7:8: error: `2x` is neither a number nor a name
  f[i] = 2x
         ^~
  help: numbers read 12, 0.5 or 1e-5; a product needs `*`; names start with a letter

t.tw:8:8: error: `"` is not part of the language
  g[i] = "s"
         ^
  help: the language has no strings

t.tw:8:10: error: `"` is not part of the language
  g[i] = "s"
           ^
  help: the language has no strings

t.tw:9:8: error: `é` is not part of the language
  h[i] = é
         ^
  help: names are made of the letters a to z and A to Z, digits and `_`; other characters may stand in comments

)");
}

TEST(ProgramErrors, ReservedWords) {
  EXPECT_EQ("\n" + messages(R"(axis i, size
input exp[i] : f32
max[i] = 1
let range = 2
f16[i] = 3
output i
)"),
            R"(
t.tw:1:9: error: `size` is a keyword and cannot be an axis name
  axis i, size
          ^~~~
  help: choose another name

t.tw:2:7: error: `exp` is a function and cannot be an input name
  input exp[i] : f32
        ^~~
  help: choose another name

t.tw:3:1: error: `max` is a reducer and a function and cannot be defined
  max[i] = 1
  ^~~
  help: choose another name

t.tw:4:5: error: `range` is a keyword and cannot be a name
  let range = 2
      ^~~~~
  help: choose another name

t.tw:5:1: error: `f16` is a dtype and cannot be defined
  f16[i] = 3
  ^~~
  help: choose another name

t.tw:6:8: error: `i` is not a tensor
  output i
         ^
  help: an output names a definition or an input

)");
}

TEST(ProgramErrors, Redefinition) {
  EXPECT_EQ("\n" + messages(R"(axis i
input x[i] : f32
x[i] = 2
let i = 3
axis x
output x
)"),
            R"(
t.tw:3:1: error: `x` is declared twice, first on line 2
  x[i] = 2
  ^
  help: each name is given once; choose another

t.tw:4:5: error: `i` is declared twice, first on line 1
  let i = 3
      ^
  help: each name is given once; choose another

t.tw:5:6: error: `x` is declared twice, first on line 2
  axis x
       ^
  help: each name is given once; choose another

)");
}

TEST(ProgramErrors, ForwardReference) {
  EXPECT_EQ("\n" + messages(R"(input y[j] : f32
axis i, j
a[i] = b * c
b[i] = 1
d[i] = d + 1
let c = 2
output b
)"),
            R"(
t.tw:1:9: error: `j` is used before line 2 declares it
  input y[j] : f32
          ^
  help: move its declaration up

t.tw:3:8: error: `b` is used before line 4 declares it
  a[i] = b * c
         ^
  help: move its declaration up

t.tw:5:8: error: `d` is read in its own definition
  d[i] = d + 1
         ^
  help: definitions are not recursive

)");
}

TEST(ProgramErrors, AxisTwice) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, (j i)] : f32
a[i, i] = 1
b[i] = sum[j, j](j)
c[] = argmax[i, j](i)
output b[i, i]
)"),
            R"(
t.tw:2:15: error: axis `i` stands twice in an input
  input x[i, (j i)] : f32
                ^
  help: declare a second axis of the same size: axis NAME = size(i)

t.tw:3:6: error: axis `i` stands twice in a left side
  a[i, i] = 1
       ^
  help: declare a second axis of the same size: axis NAME = size(i)

t.tw:4:15: error: axis `j` stands twice in one reduction
  b[i] = sum[j, j](j)
                ^
  help: name each axis once

t.tw:5:17: error: `argmax` takes one axis
  c[] = argmax[i, j](i)
                  ^
  help: it gives an index along one axis; nest argmax and max to search several

)");
}

TEST(ProgramErrors, Unclosed) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, j] : f32
a[i] = sum[j](x * (2 + 3)
b[i] = sum[j](x[i, j)
c[i] = (1 +
)"),
            R"(
t.tw:3:14: error: `(` is not closed
  a[i] = sum[j](x * (2 + 3)
               ^
  help: add `)`

t.tw:4:16: error: `[` is not closed before `)`
  b[i] = sum[j](x[i, j)
                 ^
  help: add `]`

t.tw:5:8: error: `(` is not closed
  c[i] = (1 +
         ^
  help: add `)`

)");
}

TEST(ProgramErrors, Syntax) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, j] : f32
a[i] = x[i, j]]
b[i] = * 2
c[i] = 2 not
d[i] = i == not true
e[i] = (1, 2)
f = 2
g[(i j)] = 3
h[i] = i = j
k[i]
inputs z[i] : f32
q[i] = +1
r[i] = 1 2
)"),
            R"(
t.tw:3:15: error: expected the end of the line, found `]`
  a[i] = x[i, j]]
                ^
  help: no bracket is open that it could close

t.tw:4:8: error: expected a value, found `*`
  b[i] = * 2
         ^

t.tw:5:10: error: expected the end of the line, found `not`
  c[i] = 2 not
           ^~~
  help: a product needs `*`; a statement ends with its line

t.tw:6:13: error: `not` binds weaker than the operator before it
  d[i] = i == not true
              ^~~
  help: put it in brackets: (not …)

t.tw:7:10: error: a pair is not a value
  e[i] = (1, 2)
           ^
  help: the pieces of a composite index stand without commas: (k g)

t.tw:8:1: error: the left side of `f` does not list its axes
  f = 2
  ^
  help: write f[i, j] = … with its axes, f[] = … for none, or let f = … for a number that reads no tensor

t.tw:9:3: error: a left side lists single axes
  g[(i j)] = 3
    ^~~~~
  help: make the dimension composite in the output statement: output NAME[(k g), …]

t.tw:10:10: error: expected the end of the line, found `=`
  h[i] = i = j
           ^
  help: `=` defines; `==` compares

t.tw:11:5: error: expected `=`, found the end of the line
  k[i]
      ^
  help: a definition reads NAME[axes] = expression

t.tw:12:1: error: `inputs` does not begin a statement
  inputs z[i] : f32
  ^~~~~~
  help: did you mean `input`?

t.tw:13:8: error: expected a value, found `+`
  q[i] = +1
         ^
  help: leave the `+` away

t.tw:14:10: error: expected the end of the line, found `2`
  r[i] = 1 2
           ^
  help: a product needs `*`; a statement ends with its line

)");
}

TEST(ProgramErrors, Reducers) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, j] : f32
a[i] = sum(x)
b[i] = exp[j](x)
c[i] = max[j](x, 0)
d[i] = max(i)
e[i] = where(true, 1)
f[i] = exp(1, 2)
g[i] = sum[j + 1](x)
h[i] = x(i, j)
)"),
            R"(
t.tw:3:8: error: `sum` reduces over axes
  a[i] = sum(x)
         ^~~
  help: name them: sum[j](…)

t.tw:4:8: error: `exp` is a function of values and takes no axes
  b[i] = exp[j](x)
         ^~~
  help: write exp(…)

t.tw:5:16: error: `max[…]` reduces one expression
  c[i] = max[j](x, 0)
                 ^
  help: the function of several values is max(x, y)

t.tw:6:8: error: `max` takes at least 2 arguments, not 1
  d[i] = max(i)
         ^~~~~~
  help: max(x, y) of values; max[j](x) over an axis

t.tw:7:8: error: `where` takes 3 arguments, not 2
  e[i] = where(true, 1)
         ^~~~~~~~~~~~~~
  help: where(condition, x, y)

t.tw:8:8: error: `exp` takes 1 argument, not 2
  f[i] = exp(1, 2)
         ^~~~~~~~~

t.tw:9:14: error: expected `]`, found `+`
  g[i] = sum[j + 1](x)
               ^
  help: a reduction reads sum[j](…), over axis names

t.tw:10:8: error: `x` is not a function
  h[i] = x(i, j)
         ^
  help: an element is x[…]; a product needs `*`: x * (…)

)");
}

TEST(ProgramErrors, Ranks) {
  EXPECT_EQ("\n" + messages(R"(axis t, v, n = 8
input x[t, v] : f32
input y[v, n] : f32
a[t] = topk[v -> n](x)
b[t, n] = argtopk[v -> v](x)
c[t, n] = topk[v -> n](y)
d[t, n] = topk[v](x)
e[t, n] = topk(x)
f[t, n] = topk[v, t -> n](x)
g[t, n] = topk[v -> 8](x)
let h = topk[v -> n](1)
k[t, n] = topk[v -> m](x)
output a
)"),
            R"(
t.tw:4:18: error: axis `n` of the right side is not on the left side of `a`
  a[t] = topk[v -> n](x)
                   ^
  help: topk[v -> n] has a value for each n; reduce over it, for example sum[n](…), or write a[t, n]

t.tw:5:24: error: `argtopk` numbers its results along another axis
  b[t, n] = argtopk[v -> v](x)
                         ^
  help: declare one whose size says how many: axis n = 8, then argtopk[v -> n](…)

t.tw:6:24: error: axis `n` numbers the results of `topk` and cannot be used in what it ranks
  c[t, n] = topk[v -> n](y)
                         ^
  help: rank along another axis, declared with the same size

t.tw:7:17: error: expected `->`, found `]`
  d[t, n] = topk[v](x)
                  ^
  help: it reads topk[v -> n](x): the size of axis n says how many

t.tw:8:15: error: expected `[`, found `(`
  e[t, n] = topk(x)
                ^
  help: it reads topk[v -> n](x): the size of axis n says how many

t.tw:9:17: error: expected `->`, found `,`
  f[t, n] = topk[v, t -> n](x)
                  ^
  help: it reads topk[v -> n](x): the size of axis n says how many

t.tw:10:21: error: expected an axis name, found `8`
  g[t, n] = topk[v -> 8](x)
                      ^

t.tw:11:14: error: axis `v` is used in a let, which has no axes
  let h = topk[v -> n](1)
               ^
  help: size(v) is its length

t.tw:12:21: error: unknown axis `m`
  k[t, n] = topk[v -> m](x)
                      ^
  help: declare it: axis m

)");
}

TEST(ProgramErrors, Declarations) {
  EXPECT_EQ("\n" + messages(R"(axis i
input x : f32
input y[i]
input z[i] : f23
param p
param q[i] : f32
let r
input s[(i)] : f32
input u[i] : f32 range(2, 2)
param v : i32 = 1.5
param w : f32 = 9 range(0, 9)
program
)"),
            R"(
t.tw:2:9: error: expected `[`, found `:`
  input x : f32
          ^
  help: an input lists its dimensions: input x[…] : f32

t.tw:3:11: error: expected `:`, found the end of the line
  input y[i]
            ^
  help: an input needs a dtype: y[i] : f32

t.tw:4:14: error: expected a dtype, found `f23`
  input z[i] : f23
               ^~~
  help: did you mean `f32`?

t.tw:5:8: error: expected `:`, found the end of the line
  param p
         ^
  help: a param needs a dtype: p : f32

t.tw:6:8: error: a param is one number and has no axes
  param q[i] : f32
         ^
  help: declare an array with `input`

t.tw:7:6: error: expected `=`, found the end of the line
  let r
       ^
  help: a let reads `let NAME = expression`

t.tw:8:9: error: a composite dimension has at least two pieces
  input s[(i)] : f32
          ^~~
  help: write i without brackets

t.tw:9:24: error: the range of `u` is empty
  input u[i] : f32 range(2, 2)
                         ^~~~
  help: range(lo, hi) holds lo and excludes hi

t.tw:10:17: error: param `v` is i32 and its default is real
  param v : i32 = 1.5
                  ^~~
  help: give an integer, or declare the param f32

t.tw:11:17: error: the default of param `w` is outside its range(0, 9)
  param w : f32 = 9 range(0, 9)
                  ^
  help: the upper end is excluded

t.tw:12:8: error: expected the program's name, found the end of the line
  program
         ^

)");
}

TEST(ProgramErrors, AxisSizes) {
  EXPECT_EQ("\n" + messages(R"(axis a = size(b), b = size(c) + 1, c = size(a)
axis n = 0.5, m = i, k = p
axis l = 2 - 3
axis q = size(q)
param p : i32
axis i
)"),
            R"(
t.tw:1:6: error: sizes depend on each other: a -> b -> c -> a
  axis a = size(b), b = size(c) + 1, c = size(a)
       ^
  help: leave one of them open, to be found when the program runs

t.tw:2:10: error: the size of axis `n` is real, not an integer
  axis n = 0.5, m = i, k = p
           ^~~
  help: `//` divides integers

t.tw:2:19: error: axis `i` is used in the size of an axis, which has no axes
  axis n = 0.5, m = i, k = p
                    ^
  help: size(i) is its length

t.tw:2:26: error: `p` is used before line 5 declares it
  axis n = 0.5, m = i, k = p
                           ^
  help: move its declaration up

t.tw:3:6: error: the size of axis `l` is -1
  axis l = 2 - 3
       ^
  help: a size is not negative

t.tw:4:6: error: sizes depend on each other: q -> q
  axis q = size(q)
       ^
  help: leave one of them open, to be found when the program runs

)");
}

TEST(ProgramErrors, Scalars) {
  EXPECT_EQ("\n" + messages(R"(axis i
input x[i] : f32
let a = x[0]
let b = i
let c = sum[i](1)
param d : f32 = x
output a
)"),
            R"(
t.tw:3:9: error: tensor `x` is read in a let
  let a = x[0]
          ^
  help: only numbers, sizes, params and lets stand there; a definition without axes, NAME[] = …, may read tensors

t.tw:4:9: error: axis `i` is used in a let, which has no axes
  let b = i
          ^
  help: size(i) is its length

t.tw:5:13: error: axis `i` is used in a let, which has no axes
  let c = sum[i](1)
              ^
  help: size(i) is its length

t.tw:6:17: error: tensor `x` is read in the default of a param
  param d : f32 = x
                  ^
  help: only numbers, sizes, params and lets stand there; a definition without axes, NAME[] = …, may read tensors

)");
}

TEST(ProgramErrors, Elements) {
  EXPECT_EQ("\n" + messages(R"(axis i
param p : f32
let l = 2
y[i] = p[i]
z[i] = l[0]
w[i] = i[0]
v[i] = (i i)
output y
)"),
            R"(
t.tw:4:8: error: `p` is a param and has no elements
  y[i] = p[i]
         ^
  help: write p without brackets

t.tw:5:8: error: `l` is a let and has no elements
  z[i] = l[0]
         ^
  help: write l without brackets

t.tw:6:8: error: `i` is an axis and has no elements
  w[i] = i[0]
         ^
  help: write i without brackets

t.tw:7:11: error: expected `)`, found `i`
  v[i] = (i i)
            ^
  help: a product needs `*`; a composite (k g) stands only as an index

)");
}

TEST(ProgramErrors, Outputs) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, j] : f32
a[i] = sum[j](x)
b[i] : f32 = a
output a[i, j], b = 2
output b, b
output i
)"),
            R"(
t.tw:5:19: error: an output names what was defined above
  output a[i, j], b = 2
                    ^
  help: write two statements: b[…] = expression, then output b

t.tw:6:11: error: `b` is an output twice, first on line 6
  output b, b
            ^
  help: define a second name for a second form of it

t.tw:7:8: error: `i` is not a tensor
  output i
         ^
  help: an output names a definition or an input

)");
}

TEST(ProgramErrors, NoOutput) {
  EXPECT_EQ("\n" + messages(R"(axis i
y[i] = 2
)"),
            R"(
t.tw:3:1: error: the program has no output
  
  ^
  help: end it with: output y

)");
}

TEST(ProgramErrors, EmptyText) {
  EXPECT_EQ("\n" + messages(R"()"), R"(
t.tw:1:1: error: the program has no output
  
  ^
  help: define something, NAME[axes] = expression, and end with: output NAME

)");
}

TEST(ProgramErrors, NumbersThatDoNotFit) {
  EXPECT_EQ("\n" + messages(R"(axis i
a[i] = 9223372036854775808
b[i] = 1e999
c[i] = 1.2.3
output a
)"),
            R"(
t.tw:2:8: error: 9223372036854775808 does not fit i64
  a[i] = 9223372036854775808
         ^~~~~~~~~~~~~~~~~~~
  help: write it with a point to make it real

t.tw:3:8: error: 1e999 does not fit f64
  b[i] = 1e999
         ^~~~~
  help: infinity is written inf

t.tw:4:8: error: `1.2.3` is neither a number nor a name
  c[i] = 1.2.3
         ^~~~~
  help: numbers read 12, 0.5 or 1e-5; a product needs `*`; names start with a letter

)");
}

TEST(ProgramErrors, TwoNames) {
  EXPECT_EQ("\n" + messages(R"(program a
program b
axis i
y[i] = 1
output y
)"),
            R"(
t.tw:2:1: error: a program has one name
  program b
  ^~~~~~~~~
  help: remove this line

)");
}

TEST(ProgramErrors, OneReportForABrokenName) {
  EXPECT_EQ("\n" + messages(R"(axis i
a[i] = nothing
b[i] = a + a
output a, b
)"),
            R"(
t.tw:2:8: error: unknown name `nothing`
  a[i] = nothing
         ^~~~~~~
  help: declare it with axis, param, let or input, or define it above

)");
}

TEST(ProgramErrors, Overrides) {
  const std::string text =
      "axis i, d = 4\ninput x[i, d] : f32\nlet two = 2\ny[i] = sum[d](x)\nz[i] = y\noutput z\n";
  Overrides o;
  o.literal_sizes = {{"dd", 2}, {"d", -1}};
  o.dtypes = {{"xx", DType::f16}, {"y", DType::f16}, {"two", DType::f16}};
  EXPECT_EQ("\n" + messages(text, o), R"(
error: --size d=-1: a size is not negative

error: --size dd=2: there is no axis `dd`
  help: did you mean `d`?

error: --dtype two=f16: `two` is not a tensor
  help: the dtype of a param stands in the program

error: --dtype xx=f16: there is no input, definition or output `xx`
  help: did you mean `x`?

error: --dtype y=f16: `y` declares no dtype
  help: declare one in its statement, or make it an output

)");
}

TEST(ProgramErrors, OverridesOfSizesThatAreNoLiterals) {
  Overrides o;
  o.literal_sizes = {{"i", 3}, {"j", 4}, {"e", 9}};
  EXPECT_EQ("\n" + messages("axis i, j = 2 * size(i), d = 4, e = size(d)\ninput x[i, j, d] : f32\n"
                            "input w[e] : f32\ny[i] = sum[j, d](x)\nz[e] = w\noutput y, z\n",
                            o),
            R"(
t.tw:1:6: error: --size i=3: axis `i` declares no size to replace
  axis i, j = 2 * size(i), d = 4, e = size(d)
       ^
  help: leave it out: the size comes with the arrays

t.tw:1:9: error: --size j=4: axis `j` is declared by the sizes of others, 2 * size(i)
  axis i, j = 2 * size(i), d = 4, e = size(d)
          ^
  help: leave it out: the size follows when the program runs

t.tw:1:33: error: --size e=9: axis `e` is 4 by its declaration e = size(d) with d = 4
  axis i, j = 2 * size(i), d = 4, e = size(d)
                                  ^
  help: replace the sizes that it follows from, or leave --size e=9 out

)");
}

TEST(ProgramErrors, NoMoreThanTwentyAtOnce) {
  std::string text = "axis i\n";
  for (int k = 0; k < 50; ++k) text += "a" + std::to_string(k) + "[i] = unknown\n";
  try {
    parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}));
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.diagnostics().size(), 20u);
  }
}

TEST(ProgramErrors, DeepNestingIsRefused) {
  const auto what = [](const std::string& value) {
    try {
      parse_program(
          std::make_shared<SourceText>(SourceText{"t.tw", "axis i\ny[i] = " + value + "\noutput y\n"}));
    } catch (const UserError& e) {
      return e.diagnostics()[0].what;
    }
    return std::string("no error");
  };
  const auto times = [](int n, const std::string& s) {
    std::string all;
    for (int k = 0; k < n; ++k) all += s;
    return all;
  };
#ifdef __SANITIZE_ADDRESS__  // half a minute there, and no more than fewer show
  const int n = 3000;
#else
  const int n = 100000;
#endif
  const std::string expected = "the expression nests deeper than 500 levels";
  EXPECT_EQ(what(times(n, "(") + "1" + times(n, ")")), expected);
  EXPECT_EQ(what(times(n, "-") + "1"), expected);
  EXPECT_EQ(what(times(n, "not ") + "true"), expected);
  EXPECT_EQ(what(times(n, "1 ** ") + "1"), expected);
  EXPECT_EQ(what(times(n, "1 + ") + "1"), "more than 1000 operations depend on each other in one expression");
  EXPECT_EQ(what(times(999, "i + ") + "i"), "no error");
  EXPECT_EQ(what(times(n, "sum[i](")), expected);
  EXPECT_EQ(what(times(n, "y[")), expected);
}

TEST(ProgramErrors, AReducerThatDoesNotExist) {
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, j] : f32
y[i] = sun[j](x)
z[i] = argmx[i, j](x) + x[i](2)
w[i] = topkk[j -> i](x)
output y
)"),
            R"(
t.tw:3:8: error: no reducer is called `sun`
  y[i] = sun[j](x)
         ^~~
  help: did you mean `sum`?

t.tw:4:8: error: no reducer is called `argmx`
  z[i] = argmx[i, j](x) + x[i](2)
         ^~~~~
  help: did you mean `argmax`?

t.tw:5:8: error: no reducer is called `topkk`
  w[i] = topkk[j -> i](x)
         ^~~~~
  help: did you mean `topk`?

)");
  EXPECT_EQ("\n" + messages(R"(axis i, j
input x[i, j] : f32
y[i] = sum[j](x[i, j](2))
output y
)"),
            R"(
t.tw:3:15: error: no reducer is called `x`
  y[i] = sum[j](x[i, j](2))
                ^
  help: a product needs `*`; reducers are sum, max, min, prod, any, all, argmax, argmin, mean, var, softmax, logsumexp, topk, argtopk

)");
}

TEST(ProgramErrors, ValuesThatAreMissingInsideOfBrackets) {
  EXPECT_EQ("\n" + messages(R"(axis i
input x[i] : f32 range()
input u[i] : f32 range(0,)
input v[i] : f32 range(0)
y[i] = max(x,)
z[i] = (x + )
w[i] = x)
output y
)"),
            R"(
t.tw:2:24: error: expected the lower end of a range, found `)`
  input x[i] : f32 range()
                         ^
  help: a range reads range(lo, hi), hi excluded

t.tw:3:26: error: expected the upper end of a range, found `)`
  input u[i] : f32 range(0,)
                           ^
  help: a range reads range(lo, hi), hi excluded

t.tw:4:25: error: expected `,`, found `)`
  input v[i] : f32 range(0)
                          ^
  help: a range reads range(lo, hi), hi excluded

t.tw:5:14: error: expected a value, found `)`
  y[i] = max(x,)
               ^
  help: write a value behind `,`

t.tw:6:13: error: expected a value, found `)`
  z[i] = (x + )
              ^
  help: write a value behind `+`

t.tw:7:9: error: expected the end of the line, found `)`
  w[i] = x)
          ^
  help: no bracket is open that it could close

)");
}

}  // namespace
}  // namespace tilewright::program_errors_test
