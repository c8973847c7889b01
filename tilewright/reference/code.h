// Inside the reference evaluator: the register program that computes one block of a table.
//
// Registers hold one value, or a strip of up to strip_length values along the table's strip axis. Instructions are sorted by level: how often they
// run. Level 0 runs once, level 1 once for each block, level k + 2 in each iteration of loops[k]; an instruction stands at the lowest level at
// which its operands are known. After the innermost level the value is stored (tables without a reducer) or taken into the accumulators.
#pragma once
#include "tilewright/reference/graph.h"

namespace tilewright::reference {

struct Register {
  Kind kind = Kind::real;
  bool vector = false;
  int level = 0;
};

/// A read of a table. Offsets are sums over its axes.
struct Site {
  struct Index {
    int reg = -1;             ///< integer register: the index, or for a strip its value at lane 0
    bool vector = false;      ///< `reg` holds the index of every lane
    int64_t coefficient = 0;  ///< added for each further lane, when not `vector`
    bool checked = false;     ///< not proved inside the axis
  };
  int table = 0;
  std::vector<Index> indices;
  bool vector = false;   ///< reads a strip
  bool gather = false;   ///< some index is a vector
  bool guarded = false;  ///< some index is checked or the table can fail
  Expr source;           ///< the Read, for messages
};

struct Instruction {
  enum class Do : uint8_t {
    Operate,  ///< dst = op(a, b, c), operands of `kind` (Select: a is boolean)
    Convert,  ///< dst = a, from `kind` to dst's kind
    Load,     ///< dst = the read at `site`; lanes outside of `mask` are not read and hold 0
    Iota,     ///< dst = a + lane
    Guard,    ///< nothing more happens in this iteration when no lane of a is true
  };
  Do what = Do::Operate;
  Op op = Op::Add;
  Kind kind = Kind::real;
  DType dtype = DType::f64;  ///< Cast
  int dst = -1, a = -1, b = -1, c = -1;
  int mask = -1;  ///< boolean register: lanes whose value matters; −1: all
  int site = -1;
  int poison = -1;  ///< where failures are noted; −1: cannot fail
  Expr source;      ///< for messages
};

struct Loop {
  Sym index;
  int64_t size = 0;
  bool strip = false;  ///< advances by strip_length
  bool row = false;    ///< over the elements of the block
  int reg = -1;        ///< the index, or the strip's first
};

struct Code {
  std::vector<Register> registers;
  struct Constant {
    int reg = -1;
    double real = 0;
    int64_t integer = 0;
  };
  std::vector<Constant> constants;
  std::vector<std::vector<Instruction>> levels;
  std::vector<Loop> loops;
  std::vector<Site> sites;
  std::vector<bool> poisons;  ///< for each place where failures are noted: one for each lane
  std::vector<int>
      axis_registers;  ///< scalar index register of each axis of the table (a free strip: its first)
  int value = -1;      ///< what is stored or accumulated
  int factor = -1;     ///< when not −1, value·factor is accumulated (sums of real products)
  int mask = -1;       ///< Argmax, Argmin: lanes that take part; −1: all
  int argument = -1;   ///< Argmax, Argmin: index along the bound axis; of lane 0 when that is the strip
  int strip_level = 1;
};

Code compile(Graph& graph, const Table& table);

}  // namespace tilewright::reference
